"""The web page and its JSON API; `unseen.Model` does the work."""

import json
from functools import cache
from pathlib import Path

STATIC = Path(__file__).resolve().parent / "static"


def sample_photos() -> list[Path]:
    """The embedded sample photos, in the order in which they tell the story."""
    return [STATIC / "samples" / sample["file"] for sample in samples()]


@cache
def samples() -> list[dict[str, str]]:
    """What each sample shows, and its licence: `tools/build_samples.py` writes the list."""
    return json.loads((STATIC / "samples" / "samples.json").read_text(encoding="utf-8"))
