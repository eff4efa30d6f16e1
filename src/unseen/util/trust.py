"""The user's own code: found, and imported only if the user trusts it."""

from __future__ import annotations

import importlib
import logging
import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.machinery import PathFinder
from itertools import accumulate
from typing import Any

from unseen.util.errors import UnseenError

logger = logging.getLogger(__name__)


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
