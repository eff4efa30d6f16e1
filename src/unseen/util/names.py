"""Names: as ids, in messages, and of the user's own code."""

from __future__ import annotations

import importlib
import logging
import os
import re
import sys
import traceback
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.machinery import PathFinder
from importlib.metadata import PackageNotFoundError, requires, version
from itertools import accumulate
from typing import Any

from unseen.util.errors import UnseenError

logger = logging.getLogger(__name__)
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

    It never replaces torch. torchvision's usual build fits torch's CUDA builds only, so a CPU build of torch gets one
    that imports with any.

    >>> how_to_install("report")
    "pip install 'matplotlib>=3.8'"
    """
    try:
        torch, needed = version("torch"), requires("unseen") or []
    except PackageNotFoundError:  # running from sources alone
        return f"pip install '.[{extra}]'  in unseen's folder"
    if extra in ("timm", "torchvision"):
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


def import_object(spec: str) -> Any:
    """The object that `package.module:thing` names. The current folder counts, as for `python -m`."""
    where, _, what = spec.partition(":")
    try:
        with _current_folder_importable():
            named: Any = importlib.import_module(where)
        for part in what.split("."):
            named = getattr(named, part)
    except AttributeError as error:
        raise UnseenError(f"{spec}: {error}.") from None
    except Exception as error:  # whatever the user's module does wrong
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        if missing and f"{where}.".startswith(f"{missing}."):
            raise UnseenError(f"{spec}: there is no Python module {missing!r} here, nor is it installed.") from None
        raise UnseenError(f"{spec}: importing {where} failed: {describe_error(error)}.") from error
    return named


def find_file(spec: str) -> str | None:
    """The file that `import_object` would run, found without running anything; None if there is none."""
    parts = spec.partition(":")[0].split(".")
    if not all(part.isidentifier() for part in parts):
        return None
    origin, folders = None, None
    with _current_folder_importable():
        for name in accumulate(parts, "{}.{}".format):
            module = PathFinder.find_spec(name, folders)
            if module is None:
                return None
            origin, folders = module.origin, module.submodule_search_locations
    return origin


def check_trusted(spec: str, what: str, trust_code: bool, otherwise: str) -> None:
    """Refuse to import `package.module:thing`, which a bundle names as `what`, if the user has not agreed to run it."""
    module, file = spec.partition(":")[0], find_file(spec)
    if file is None:
        where = f"there is no Python module {module!r} here, nor is it installed"
        raise UnseenError(f"{what}, but {where}: go to the folder where it lies, or {otherwise}")
    if not trust_code:
        raise UnseenError(
            f"{what}, which is not part of unseen: loading it would import {module} from {file} and run it. If you "
            f"trust that code, pass trust_code=True, on the command line --trust-code; or {otherwise}"
        )
    logger.info("Importing %s from %s.", module, file)


@contextmanager
def _current_folder_importable() -> Iterator[None]:
    here = os.getcwd()
    added = here not in sys.path and "" not in sys.path
    if added:
        sys.path.insert(0, here)
    try:
        yield
    finally:
        if added:
            sys.path.remove(here)


def describe_error(error: Exception) -> str:
    """An error in one line, with the place in the user's file where it arose."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f" ({frames[-1].filename}:{frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {error}{where}"


def first_line(error: Exception) -> str:
    """What an error says, without what other libraries append, nor the full stop."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
