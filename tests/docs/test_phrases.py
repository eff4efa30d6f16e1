"""Phrases that no page, message or docstring should have: say it as you would to a colleague."""

from __future__ import annotations

import io
import re
import tokenize
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PHRASES = {  # what not to write: what to write
    r"\b(is|are|was|were|be) told\b(?! apart)": "is reported, is logged",
    r"\btold of\b": "reported",
    r"\bsome at a time\b": "in chunks",
    r"\bsuch a one\b|\bsuch ones\b": "name it",
    r"\b(gone|goes|go|going) on with\b": "resumes, continues",
    r"\bunasked\b": "without overwrite=True",
    r"\blooked (through|at)\b": "searched, read, used",
    r"\bso many\b": "the number of",
    r"\bin vain\b": "without effect",
    r"\bsureness\b": "confidence",
    r"\b(taxonomy|taxonomies)\b": "hierarchy",
    r"\bback-?bones?\b": "network",
    r"\bheed(s|ed)?\b": "uses, weighs",
    r"\bshout\w* down\b": "raise its scores",
    r"\bplay(s|ed)? (the )?unseen\b": "stand in for unseen classes",
    r"\bas it stands\b": "as it is",
    r"\bforetells?\b": "predicts",
    r"\bone's own\b": "your own",
}
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
SOURCES = sorted((ROOT / "src" / "unseen").rglob("*.py"))
# JSON fields and the aliases of former options keep the names they were published with.
QUOTED = re.compile(r"`[^`\n]*`|\"[^\"\n]{1,30}\"|--\w+")


def found_in(text: str) -> list[str]:
    text = re.sub(r"\s+", " ", QUOTED.sub("", text))
    hits = [(hit[0], better) for phrase, better in PHRASES.items() for hit in re.finditer(phrase, text)]
    return [f"{phrase!r}: say {better!r}" for phrase, better in hits]


def prose(file: Path) -> str:
    """Docstrings, messages and comments of a module, without short strings: those are names."""
    tokens = tokenize.generate_tokens(io.StringIO(file.read_text(encoding="utf-8")).readline)
    kinds = {tokenize.STRING, tokenize.COMMENT, getattr(tokenize, "FSTRING_MIDDLE", -1)}
    return "\n".join(token.string for token in tokens if token.type in kinds)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_pages_are_in_plain_words(page):
    text = re.sub(r"(?ms)^```.*?^```|^\|.*?$", "", page.read_text(encoding="utf-8"))
    assert found_in(text) == []


@pytest.mark.parametrize("file", [*PAGES, *SOURCES], ids=lambda file: str(file.relative_to(ROOT)))
def test_what_pip_is_given_exists(file):
    """unseen is on no index: its extras are installed from its folder, or by the names of packages."""
    assert not re.search(r"pip install[^`\n]*unseen\\*\[", file.read_text(encoding="utf-8"))


def test_sources_are_in_plain_words():
    bad = {str(file.relative_to(ROOT)): found_in(prose(file)) for file in SOURCES}
    assert {file: phrases for file, phrases in bad.items() if phrases} == {}
