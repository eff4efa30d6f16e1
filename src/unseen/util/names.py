"""Names as ids and in messages."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, requires, version

LONGEST = 60  # characters of a slug: at most 240 bytes, which every file system takes
NO_DEPENDENCIES = "torchvision==0.16.2 timm==1.0.30"  # as in the Makefile
RESERVED = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])")  # no names of files on Windows


def slug(name: str) -> str:
    """A name as an id and as the name of a folder: lower case, single hyphens for all but letters, digits and `_`.

    >>> slug("Café au lait!"), slug("../.."), slug("CON")
    ('café-au-lait', 'class', 'con-class')
    """
    plain = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).lower())
    # Letters and digits of any script, with the marks that some scripts write them with.
    kept = "".join(sign if sign == "_" or unicodedata.category(sign)[0] in "LMN" else "-" for sign in plain)
    made = re.sub("-+", "-", kept).strip("-")[:LONGEST].strip("-") or "class"
    return f"{made}-class" if RESERVED.fullmatch(made) else made


def how_to_install(extra: str) -> str:
    """The command that installs what an extra needs, from wherever it is run: `unseen[extra]` is on no index.

    It never replaces torch. timm needs torchvision, whose usual build fits torch's CUDA builds only, so a CPU build of
    torch gets one that imports with any.

    >>> how_to_install("report")
    "pip install 'matplotlib>=3.8'"
    """
    try:
        torch, needed = version("torch"), requires("unseen") or []
    except PackageNotFoundError:  # running from sources alone
        return f"pip install '.[{extra}]'  in unseen's folder"
    if extra == "timm":
        if torch.endswith("+cpu"):
            return f"pip install --no-deps {NO_DEPENDENCIES}  and  pip install huggingface_hub pyyaml"
        return f"pip install {extra} 'torch=={torch}'"
    mark = re.compile(rf"""extra == ['"]{extra}['"]""")
    found = [text.partition(";")[0].strip() for text in needed if mark.search(text)]
    packages = [text for text in found if not text.startswith("unseen[")]
    inside = [part for text in found if text.startswith("unseen[") for part in text[7:-1].split(",")]
    commands = [f"pip install {' '.join(map(repr, packages))}", *map(how_to_install, inside)]
    return "  and  ".join(commands)


def list_some(names: Sequence[str], limit: int = 5) -> str:
    """
    >>> list_some("abcdefg")
    'a, b, c, d, e, ...'
    """
    return ", ".join(names[:limit]) + (", ..." if len(names) > limit else "")


def count_of_photos(photos: int) -> str:
    """
    >>> count_of_photos(1), count_of_photos(3)
    ('1 photo', '3 photos')
    """
    return f"{photos:,} photo{'' if photos == 1 else 's'}"


def first_line(error: Exception) -> str:
    """What an error says, without what other libraries append, nor the full stop."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
