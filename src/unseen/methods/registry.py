"""Methods by name: each registers itself where it is defined."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import fields
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

from unseen.errors import UnseenError
from unseen.methods.base import Method
from unseen.methods.settings import check_settings
from unseen.runtime.modules import find_file, import_object

FAMILIES = ("graph", "kin", "baselines")  # folders, in the order in which methods are listed

M = TypeVar("M", bound=type[Method])
_registered: dict[str, type[Method]] = {}  # by name and by module:Class


def register(name: str) -> Callable[[M], M]:
    """Make a method available by name: `@register("kin")` above its class.

    Args:
        name: What `--method` and `unseen.train` call it. Names of built-in methods are taken.

    >>> import unseen
    >>> @unseen.register("kin")
    ... class MyKin(unseen.Method):
    ...     "With `fit` and `predict`: `unseen.Method` has an example."
    Traceback (most recent call last):
    unseen.errors.UnseenError: kin is a built-in method: register MyKin under another name
    """

    def keep(kind: M) -> M:
        if _built_in().get(name, kind.__module__) != kind.__module__:
            raise UnseenError(f"{name} is a built-in method: register {kind.__qualname__} under another name")
        kind.name = name
        _registered[name] = _registered[f"{kind.__module__}:{kind.__qualname__}"] = kind
        return kind

    return keep


@cache
def _built_in() -> dict[str, str]:
    """Name -> module, read from the sources of this package: importing them all would load torch for a `--help`."""
    here, found = Path(__file__).parent, {}
    for family in FAMILIES:
        for path in sorted((here / family).glob("*.py")):
            for name in re.findall(r'(?m)^@register\("([^"]+)"\)', path.read_text(encoding="utf-8")):
                found[name] = f"unseen.methods.{family}.{path.stem}"
    return found


def method_names() -> list[str]:
    """All methods: the built-in ones, then those registered by others.

    >>> import unseen
    >>> unseen.method_names()
    ['dgp', 'gat', 'gcnz', 'sgcn', 'kin', 'conse', 'devise', 'eszsl', 'exem', 'gaussian-ort',
     'network', 'se-gzsl', 'structural', 'sync'...]
    """
    return list(dict.fromkeys([*_built_in(), *(kind.name for kind in _registered.values())]))


def is_available(name: str) -> bool:
    """Whether a method is built in or was registered in this process: none of the user's code is imported for it."""
    return name in _built_in() or name in _registered


def check_code(name: str, trust_code: bool, say: Callable[[str], None]) -> None:
    """Refuse a method that somebody else named, a bundle for example, if it would run code that nobody here asked for.

    Built-in methods pass, and those that were registered in this process; others with `trust_code`, after `say` was
    told which file is imported.
    """
    if is_available(name):
        return
    module, colon, _ = name.partition(":")
    if not colon:
        raise UnseenError(f"the method {name!r} is not part of unseen: import the module that registers it first")
    file = find_file(name)
    if file is None:
        raise UnseenError(f"the method {name} is not part of unseen, and there is no Python module {module!r} here")
    if not trust_code:
        raise UnseenError(
            f"the method {name} is not part of unseen: to run its code, {file}, pass trust_code=True "
            f"(in Python, importing {module} first will do as well)",
            "trust_code=True",
        )
    say(f"Importing {module} from {file}.")


def get_method(name: str) -> type[Method]:
    """The class of a method: a name, or module:Class for one of your own, which is imported."""
    if name not in _registered and name in _built_in():
        import_module(_built_in()[name])
    if name in _registered:
        return _registered[name]
    if ":" in name:
        return _import_own(name)
    close = get_close_matches(name, method_names(), n=1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    raise UnseenError(f"no method named {name!r}.{hint} There are: {', '.join(method_names())}; or module:Class")


def make_method(name: str, settings: Mapping[str, Any] | None = None) -> Method:
    """A method with these settings; one that it does not have, or a value that it cannot work with, is refused."""
    kind = get_method(name)
    known = {item.name for item in fields(kind.Settings)}
    unknown = sorted(set(settings or {}) - known)
    if unknown:
        has = f"It has: {', '.join(sorted(known))}" if known else "It has none"
        raise UnseenError(f"{name} has no setting {', '.join(map(repr, unknown))}. {has}")
    chosen = kind.Settings(**(settings or {}))
    check_settings(name, chosen)
    return kind(chosen)


def _import_own(name: str) -> type[Method]:
    kind = import_object(name)
    if not (isinstance(kind, type) and issubclass(kind, Method)):
        raise UnseenError(f"{name} is not a method: it must be a class derived from unseen.Method")
    if "name" not in kind.__dict__:  # without the decorator
        kind.name = name
    _registered[name] = kind
    return kind
