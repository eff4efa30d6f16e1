"""Methods that tests register: gone again as in a new process."""

from __future__ import annotations

import sys

from unseen.methods import registry


def forget(module: str) -> None:
    """As if a user's module had never been imported."""
    sys.modules.pop(module, None)
    for name in [name for name, kind in registry._registered.items() if kind.__module__ == module]:
        del registry._registered[name]
