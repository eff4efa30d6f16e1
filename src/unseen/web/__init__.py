"""The web page and its JSON API; `unseen.Model` does the work."""

from pathlib import Path

STATIC = Path(__file__).resolve().parent / "static"


def sample_photos() -> list[Path]:
    """The embedded sample photos, sorted by name. Their licences are in static/samples/SAMPLES.md."""
    return sorted((STATIC / "samples").glob("*.jpg"))
