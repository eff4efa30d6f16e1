"""JSON objects with a checksum of their own."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

from unseen.errors import UnseenError

KEY = "checksum"


class Damaged(UnseenError):
    """A file that is not what was written."""


def sealed(facts: dict[str, Any]) -> dict[str, Any]:
    """The facts with their checksum, which no change of a value or of a name leaves right.

    >>> sealed({"format": 1})["checksum"][:8]
    '5e5fbf8b'
    """
    written = json.loads(json.dumps(facts))  # as it will be read
    return written | {KEY: _digest(written)}


def is_sealed(found: dict[str, Any], unsealed: Collection[str]) -> bool:
    """Whether the facts are those that were written.

    Args:
        found: As they were read.
        unsealed: The names in facts that were written before there were checksums: with others, one has been lost.
    """
    facts = {name: value for name, value in found.items() if name != KEY}
    return found[KEY] == _digest(facts) if KEY in found else facts.keys() <= set(unsealed)


def read_sealed(path: Path, unsealed: Collection[str], advice: str) -> dict[str, Any]:
    """The facts in a JSON file; where they are not whole, an error with the file's name and the advice."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UnseenError(f"{path}: cannot be read ({error.strerror or error}).") from None
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or not is_sealed(found, unsealed):
        raise Damaged(f"{path}: is damaged. {advice}")
    return {name: value for name, value in found.items() if name != KEY}


def _digest(facts: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
