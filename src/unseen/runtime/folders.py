"""Folders of the user's machine."""

from __future__ import annotations

import os
from pathlib import Path

from unseen.errors import UnseenError


def cache_folder() -> Path:
    """Where downloads and things made on first use are kept: UNSEEN_CACHE, else the user's cache folder."""
    folder = os.environ.get("UNSEEN_CACHE")
    if not folder:
        import pooch

        folder = pooch.os_cache("unseen")
    path = Path(folder).expanduser()
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UnseenError(
            f"{path}: cannot create the cache folder ({error}). Set UNSEEN_CACHE to another one."
        ) from error
    return path
