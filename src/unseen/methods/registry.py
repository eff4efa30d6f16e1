"""Methods by name, and their settings as dataclasses: default, type, limit and help of each are written once.

    @dataclass(frozen=True)
    class MySettings:
        # its docstring has "Args:" with a line of help for each

        ridge: Annotated[float | None, POSITIVE] = None
        hidden: Annotated[list[int], AT_LEAST_1] = field(default_factory=lambda: [512])
        average: Literal["image", "class"] = "class"

Types are int, float, bool, str, lists of them, or a Literal of texts; each may be None as well if annotated so. A field
of type Any takes anything.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from difflib import get_close_matches
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

from unseen.methods.base import Method
from unseen.util.errors import UnseenError
from unseen.util.names import check_trusted, import_object

# Name -> module:Class, in the order in which methods are listed. Importing them all would load torch for a `--help`.
BUILT_IN = {
    "dgp": "unseen.methods.graph.dgp:DGPMethod",
    "gat": "unseen.methods.graph.dgp:GATMethod",
    "gcnz": "unseen.methods.graph.dgp:GCNZMethod",
    "sgcn": "unseen.methods.graph.dgp:SGCNMethod",
    "trgcn": "unseen_lab.methods.trgcn:TrGCNMethod",
    "kin": "unseen.methods.kin.kin:Kin",
    "conse": "unseen.methods.conse:ConSE",
    "devise": "unseen_lab.methods.devise:DeViSE",
    "eszsl": "unseen_lab.methods.eszsl:ESZSL",
    "exem": "unseen_lab.methods.exem:EXEM",
    "gaussian-ort": "unseen_lab.methods.gaussian_ort:GaussianOrt",
    "network": "unseen.methods.structural:NetworkAlone",
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


class Limit(NamedTuple):
    """What a number must fulfil, in words that go on from "a number"."""

    words: str
    holds: Callable[[float], bool]


POSITIVE = Limit("greater than 0", lambda value: value > 0)
NOT_NEGATIVE = Limit("of at least 0", lambda value: value >= 0)
AT_LEAST_1 = Limit("of at least 1", lambda value: value >= 1)
AT_LEAST_2 = Limit("of at least 2", lambda value: value >= 2)
BELOW_1 = Limit("of at least 0 and less than 1", lambda value: 0 <= value < 1)
DECAY = Limit("greater than 0 and at most 1", lambda value: 0 < value <= 1)
POINTS = Limit("from 0 to 100", lambda value: 0 <= value <= 100)
ANY = Limit("", lambda value: True)

# Type -> one of it, several of it.
_WORDS: dict[type, tuple[str, str]] = {
    int: ("an integer", "integers"),
    float: ("a number", "numbers"),
    bool: ("true or false", "values true or false"),
    str: ("text", "texts"),
}


def check_settings(owner: str, settings: Any) -> None:
    """Refuse a settings dataclass with a value that its owner, such as a method, cannot work with."""
    for setting in list_settings(type(settings)):
        value = getattr(settings, setting.name)
        if not setting.holds(value):
            shown = "an empty one" if setting.several and value == [] else repr(value)
            raise UnseenError(f"{owner}: {setting.name} must be {setting.words}, not {shown}")


def list_settings(kind: type) -> list[Setting]:
    """The settings of a dataclass, in the order of its fields."""
    hints, help = get_type_hints(kind, include_extras=True), _help(kind)
    settings = []
    for item in fields(kind):
        hint, limit = hints[item.name], ANY
        if get_origin(hint) is Annotated:
            hint, limit = get_args(hint)
        union = get_args(hint) if type(None) in get_args(hint) else (hint,)
        (type_,) = (part for part in union if part is not type(None))
        choices = get_args(type_) if get_origin(type_) is Literal else ()
        several = get_origin(type_) is list
        type_ = str if choices else get_args(type_)[0] if several else type_
        default = item.default if item.default_factory is MISSING else item.default_factory()
        text = help.get(item.name, "")
        settings.append(Setting(item.name, type_, default, text, several, len(union) > 1, choices, limit))
    return settings


def _help(kind: type) -> dict[str, str]:
    """Field -> its text in the "Args:" of the dataclass's docstring."""
    section = (inspect.getdoc(kind) or "").partition("Args:\n")[2].partition("\n\n")[0]
    entries = re.findall(r"^ {4}(\w+): (.*(?:\n {8}.*)*)", section, re.MULTILINE)
    return {name: " ".join(text.split()) for name, text in entries}


class Setting(NamedTuple):
    """A field of a settings dataclass."""

    name: str
    kind: Any  # int, float, bool, str; Any takes anything
    default: Any
    help: str
    several: bool  # a list of it
    optional: bool  # or None
    choices: tuple[str, ...]  # of a Literal
    limit: Limit

    @property
    def words(self) -> str:
        if self.choices:
            *others, last = self.choices
            return f"{', '.join(others)} or {last}"
        one, many = _WORDS[self.kind]
        return f"{f'a list of {many}' if self.several else one} {self.limit.words}".strip()

    def holds(self, value: Any) -> bool:
        if self.kind is Any or (value is None and self.optional):
            return True
        if self.choices:
            return value in self.choices
        if self.several:
            return isinstance(value, (list, tuple)) and len(value) > 0 and all(map(self._fits, value))
        return self._fits(value)

    def _fits(self, value: Any) -> bool:
        if self.kind in (bool, str):
            return isinstance(value, self.kind)
        is_number = isinstance(value, int if self.kind is int else (int, float)) and not isinstance(value, bool)
        return is_number and abs(value) <= sys.float_info.max and self.limit.holds(value)  # NaN is not <= anything
