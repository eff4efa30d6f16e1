"""Names from outside, made harmless where they are shown: on a terminal, and in a table that a spreadsheet opens."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Console
from rich.segment import Segment

# Colours, cursor, clipboard and title of a terminal; the direction of writing; characters without width, which make two
# names look equal. For `re`, and for the pattern languages of JSON schema and JavaScript; joiners are left out, which
# some scripts need, and white space.
HIDDEN = r"\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\u061c\u200b\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff\ufff9-\ufffb"
TAGS = r"\U000e0000-\U000e007f"  # beyond 16 bits, which JavaScript writes differently
UNSEEN = re.compile(f"[{HIDDEN}{TAGS}]")
CONTROLS = re.compile(rf"[{HIDDEN}{TAGS}\x0b-\x0d\x1c-\x1f\x85]")  # of white space only tab and line feed are harmless
FORMULA = re.compile(r"'*[=+\-@\t\r\n＝＋－＠]")  # behind any apostrophes, so that `csv_text` has one answer


def visible(text: str) -> str:
    r"""Control characters as they are written in JSON and Python.

    >>> visible("photo\x1b]52;c;cm0gLXJm\a.jpg")
    'photo\\u001b]52;c;cm0gLXJm\\u0007.jpg'
    """
    return CONTROLS.sub(_escaped, text)


def _escaped(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


class SafeConsole(Console):
    """A console on which no text that is printed, whatever its way there, has control characters of its own."""

    def render(self, renderable: Any, options: Any = None) -> Iterable[Segment]:
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else visible(text), style, control)


def csv_cell(value: Any) -> Any:
    """A text that a spreadsheet would take for a formula, behind an apostrophe, and without hidden characters, which
    a terminal would obey; anything else as it is.

    >>> csv_cell("=HYPERLINK(...)"), csv_cell("okapi"), csv_cell(-0.5)
    ("'=HYPERLINK(...)", 'okapi', -0.5)
    """
    if not isinstance(value, str):
        return value
    return f"'{UNSEEN.sub(_escaped, value)}" if FORMULA.match(value) else UNSEEN.sub(_escaped, value)


def csv_text(cell: str) -> str:
    """What `csv_cell` was given."""
    return cell[1:] if cell.startswith("'") and FORMULA.match(cell) else cell


def to_csv(rows: Iterable[Sequence[Any]], line_end: str = "\n") -> str:
    """A table for people and their spreadsheets."""
    text, ends = io.StringIO(newline=""), []
    writer = csv.writer(text, lineterminator="\r\n")  # so that a cell with either character is quoted
    for row in rows:
        writer.writerow(map(csv_cell, row))
        ends.append(text.tell())
    lines = text.getvalue()
    return "".join(lines[start : end - 2] + line_end for start, end in zip([0, *ends], ends, strict=False))
