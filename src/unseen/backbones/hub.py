"""What timm, torchvision and transformers have in common: an optional import, and weights from the net."""

from __future__ import annotations

import os
import threading
import urllib.error
import urllib.request
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from unseen.errors import UnseenError

PATIENCE = 3  # seconds that a hub has to answer at all


def import_extra(module: str, extra: str, wanted_by: str) -> Any:
    """A package that is an extra of ours, or the command that installs it.

    torchvision warns on import where it cannot decode pictures itself, which nobody here asks it to.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Failed to load image Python extension")
        try:
            return import_module(module)
        except ImportError as error:
            missing = "" if error.name in (None, module) else f" ({error})"
            raise UnseenError(
                f"{wanted_by} needs {module.partition('.')[0]}{missing}. Run: pip install 'unseen[{extra}]'"
            ) from None


@contextmanager
def impatient_hub() -> Iterator[None]:
    """Where the Hugging Face hub does not answer, its library looks into its cache only, instead of trying for a
    minute."""
    constants: Any = import_module("huggingface_hub.constants")
    before = constants.HF_HUB_OFFLINE
    constants.HF_HUB_OFFLINE = before or not answers(os.environ.get("HF_ENDPOINT") or "https://huggingface.co")
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE = before


def answers(address: str, patience: float = PATIENCE) -> bool:
    """Whether a server answers at all, by way of the user's proxy if there is one."""
    found = []

    def ask() -> None:
        try:
            urllib.request.urlopen(urllib.request.Request(address, method="HEAD"), timeout=patience).close()
            found.append(True)
        except urllib.error.HTTPError:  # an answer too
            found.append(True)
        except (OSError, ValueError):
            pass

    # Looking a name up has no time limit of its own.
    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(patience)
    return bool(found)
