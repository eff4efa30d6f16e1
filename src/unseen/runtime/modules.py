"""Code of the user's own, imported by name: `package.module:thing`."""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.machinery import PathFinder
from itertools import accumulate
from typing import Any

from unseen.errors import UnseenError


def import_object(spec: str) -> Any:
    """What `package.module:thing` names. Modules of the current folder are found, as `python -m` finds them."""
    where, _, what = spec.partition(":")
    try:
        with _current_folder_importable():
            found: Any = importlib.import_module(where)
        for part in what.split("."):
            found = getattr(found, part)
    except ModuleNotFoundError as error:
        if error.name and (where == error.name or where.startswith(f"{error.name}.")):
            raise UnseenError(f"{spec}: there is no Python module {error.name!r} here, nor is it installed.") from None
        raise UnseenError(f"{spec}: importing {where} failed: {error}.") from error
    except AttributeError as error:
        raise UnseenError(f"{spec}: {error}.") from None
    except Exception as error:  # whatever the user's module does wrong
        raise UnseenError(f"{spec}: importing {where} failed: {describe_error(error)}.") from error
    return found


def find_file(spec: str) -> str | None:
    """The file that `import_object` would run, found without running anything; None if there is none."""
    found, folders = None, None
    if not all(part.isidentifier() for part in spec.partition(":")[0].split(".")):
        return None
    with _current_folder_importable():
        for name in accumulate(spec.partition(":")[0].split("."), "{}.{}".format):
            found = PathFinder.find_spec(name, folders)
            if found is None:
                return None
            folders = found.submodule_search_locations
    return None if found is None else found.origin


def announce(message: str) -> None:
    """Say on standard error what code is about to run, where nobody else was given to say it."""
    print(message, file=sys.stderr)


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
