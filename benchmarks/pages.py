"""What pages of results have in common."""

from __future__ import annotations

from pathlib import Path

WORDS = "## What it means\n"


def kept_words(page: Path) -> str:
    """What somebody wrote below the figures, under a heading of its own: it stays when they are made again."""
    before = page.read_text(encoding="utf-8") if page.is_file() else ""
    _, heading, words = before.partition(WORDS)
    return f"\n{heading}{words}" if heading else ""
