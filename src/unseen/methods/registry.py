"""Methods by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from difflib import get_close_matches
from typing import Any, TypeVar

from unseen.methods.base import Method
from unseen.util.errors import UnseenError
from unseen.util.settings import check_settings
from unseen.util.trust import check_trusted, import_object

# Name -> module:Class, in the order in which methods are listed. Importing them all would load torch for a `--help`.
BUILT_IN = {
    "dgp": "unseen.methods.graph.dgp:DGPMethod",
    "gat": "unseen_lab.methods.gat:GATMethod",
    "gcnz": "unseen.methods.graph.dgp:GCNZMethod",
    "sgcn": "unseen.methods.graph.dgp:SGCNMethod",
    "trgcn": "unseen_lab.methods.trgcn:TrGCNMethod",
    "kin": "unseen.methods.kin.kin:Kin",
    "conse": "unseen.methods.conse:ConSE",
    "devise": "unseen_lab.methods.devise:DeViSE",
    "eszsl": "unseen_lab.methods.eszsl:ESZSL",
    "exem": "unseen_lab.methods.exem:EXEM",
    "gaussian-ort": "unseen_lab.methods.gaussian_ort:GaussianOrt",
    "network": "unseen_lab.methods.network_alone:NetworkAlone",
    "se-gzsl": "unseen_lab.methods.se_gzsl:SEGZSL",
    "structural": "unseen.methods.structural:Structural",
    "sync": "unseen_lab.methods.sync:SYNC",
}

M = TypeVar("M", bound=type[Method])
_registered: dict[str, type[Method]] = {}  # of users, by name and by module:Class


def register(name: str) -> Callable[[M], M]:
    """Make a method of your own available by name: `@register("nearest")` above its class.

    Args:
        name: What `--method` and `unseen.train` call it. Names of built-in methods are taken.

    >>> import unseen
    >>> @unseen.register("kin")
    ... class MyKin(unseen.Method):
    ...     "With `fit` and `predict`: `unseen.Method` has an example."
    Traceback (most recent call last):
    unseen.util.errors.UnseenError: kin is a built-in method: register MyKin under another name
    """

    def keep(kind: M) -> M:
        if name in BUILT_IN:
            raise UnseenError(f"{name} is a built-in method: register {kind.__qualname__} under another name")
        kind.name = name
        _registered[name] = _registered[f"{kind.__module__}:{kind.__qualname__}"] = kind
        return kind

    return keep


def method_names() -> list[str]:
    """All methods: the built-in ones, then those registered by others."""
    return list(dict.fromkeys([*BUILT_IN, *(kind.name for kind in _registered.values())]))


def check_code(name: str, owner: str, trust_code: bool) -> None:
    """Refuse a method that a bundle (`owner`) names if it would run code that the user has not agreed to run."""
    if name in BUILT_IN or name in _registered:
        return
    module, colon, _ = name.partition(":")
    if not colon:
        raise UnseenError(f"the method {name!r} is not part of unseen: import the module that registers it first")
    check_trusted(name, f"{owner} names the method {name}", trust_code, f"import {module} first, in Python")


def get_method(name: str) -> type[Method]:
    """The class of a method: a name, or module:Class for one of your own, which is imported."""
    if name in BUILT_IN:
        return import_object(BUILT_IN[name])
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
