"""Small helpers for names."""

from __future__ import annotations

import re
import unicodedata

LONGEST = 60  # characters of a slug: at most 240 bytes, which every file system takes
RESERVED = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])")  # no names of files on Windows


def slug(name: str) -> str:
    """A name as an id and as the name of a folder: lower case, single hyphens for all but letters, digits and `_`.

    >>> slug("Café au lait!"), slug("../.."), slug("CON")
    ('café-au-lait', 'class', 'con-class')
    """
    plain = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).lower())
    kept = "".join(letter if _is_word(letter) else "-" for letter in plain)
    made = re.sub("-+", "-", kept).strip("-")[:LONGEST].strip("-") or "class"
    return f"{made}-class" if RESERVED.fullmatch(made) else made


def count_of_photos(photos: int) -> str:
    """
    >>> count_of_photos(1), count_of_photos(3)
    ('1 photo', '3 photos')
    """
    return f"{photos:,} photo{'' if photos == 1 else 's'}"


def _is_word(letter: str) -> bool:
    """Letters and digits of any script, with the marks that some scripts write them with."""
    return letter == "_" or unicodedata.category(letter)[0] in "LMN"
