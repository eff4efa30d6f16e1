"""Characters that are not shown but change what is: control characters, and those that turn the direction of text."""

from __future__ import annotations

import re
from typing import Any

from starlette.responses import JSONResponse

# White space is not among them (it is made one blank), nor are the joiners that scripts and emoji need.
_HIDDEN = r"\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff"
SHOWN_ONLY = rf"^[^{_HIDDEN}]*$"
"""A pattern for names that people are going to read."""


def escape_hidden(name: str) -> str:
    r"""A name from outside, with \u202e where it has such a character, so that everyone sees that it has."""
    name = " ".join(name.split())
    return re.sub(rf"[{_HIDDEN}\ud800-\udfff]", lambda found: found[0].encode("unicode_escape").decode(), name)


class PlainJSONResponse(JSONResponse):
    """JSON with such characters written as JSON escapes: it means the same, and can be shown in a terminal."""

    def render(self, content: Any) -> bytes:
        text = super().render(content).decode()
        return re.sub(rf"[{_HIDDEN}]", lambda found: f"\\u{ord(found[0]):04x}", text).encode()
