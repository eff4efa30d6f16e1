"""Small helpers for names."""

from __future__ import annotations

import re


def slug(name: str) -> str:
    """An id for a name: lower case, hyphens for the rest."""
    return re.sub(r"[^\w]+", "-", name.lower()).strip("-") or "class"
