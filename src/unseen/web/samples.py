"""The embedded sample photos, for someone with none at hand. Their licences are in static/samples/SAMPLES.md."""

from __future__ import annotations

from pathlib import Path

SAMPLES = Path(__file__).resolve().parent / "static" / "samples"


def sample_photos() -> list[Path]:
    """The sample photos, sorted by name."""
    return sorted(SAMPLES.glob("*.jpg"))
