"""A dataclass describes settings once: options of the command line, fields of the API, tables in the docs, and JSON.

    @dataclass(frozen=True)
    class MySettings:
        # its docstring has "Args:" with a line of help for each

        ridge: Annotated[float | None, POSITIVE] = None
        hidden: Annotated[list[int], AT_LEAST_1] = field(default_factory=lambda: [512])
        average: Literal["image", "class"] = "class"

Types are int, float, bool, str, Path, lists of them, or a Literal of texts; each may be None as well if annotated so. A
field of type Any takes anything.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

from unseen.util.errors import UnseenError

R = TypeVar("R", bound="Record")


class Limit(NamedTuple):
    """What a number must fulfil, in words that go on from "a number"."""

    words: str
    holds: Callable[[float], bool]
    least: int | None = None  # for `--help`


POSITIVE = Limit("greater than 0", lambda value: value > 0)
NOT_NEGATIVE = Limit("of at least 0", lambda value: value >= 0, 0)
AT_LEAST_1 = Limit("of at least 1", lambda value: value >= 1, 1)
AT_LEAST_2 = Limit("of at least 2", lambda value: value >= 2, 2)
SHARE = Limit("between 0 and 1, such as 0.9", lambda value: 0 < value < 1)
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
    Path: ("a path", "paths"),
}


def check_settings(owner: str, settings: Any) -> None:
    """Refuse a settings dataclass with a value that its owner, such as a method, cannot work with."""
    for setting in list_settings(type(settings)):
        value = getattr(settings, setting.name)
        if not setting.holds(value):
            shown = "an empty one" if setting.several and value == [] else repr(value)
            raise UnseenError(f"{owner}: {setting.name} must be {setting.words}, not {shown}")


@lru_cache(maxsize=64)
def list_settings(kind: type) -> list[Setting]:
    """The settings of a dataclass, in the order of its fields."""
    hints, help = get_type_hints(kind, include_extras=True), _help(kind)
    settings = []
    for item in fields(kind):
        hint, limit = hints[item.name], ANY
        if get_origin(hint) is Annotated:
            hint, limit = get_args(hint)
        type_, optional = _without_none(hint)
        choices = get_args(type_) if get_origin(type_) is Literal else ()
        several = get_origin(type_) is list
        type_ = str if choices else get_args(type_)[0] if several else type_
        default = item.default if item.default_factory is MISSING else item.default_factory()
        text = help.get(item.name, "")
        settings.append(Setting(item.name, type_, default, text, several, optional, choices, limit))
    return settings


def _without_none(hint: Any) -> tuple[Any, bool]:
    """The type in `T | None`, and whether None is allowed."""
    types = [part for part in get_args(hint) if part is not type(None)]
    return (types[0], True) if len(types) < len(get_args(hint)) else (hint, False)


def _help(kind: type) -> dict[str, str]:
    """Field -> its text in the "Args:" of the dataclass's docstring."""
    section = (inspect.getdoc(kind) or "").partition("Args:\n")[2].partition("\n\n")[0]
    entries = re.findall(r"^ {4}(\w+): (.*(?:\n {8}.*)*)", section, re.MULTILINE)
    return {name: " ".join(text.split()) for name, text in entries}


class Setting(NamedTuple):
    """A field of a settings dataclass."""

    name: str
    kind: Any  # int, float, bool, str, Path; Any takes anything
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
        if self.kind in (bool, str, Path):
            return isinstance(value, (str, Path) if self.kind is Path else self.kind)
        is_number = isinstance(value, int if self.kind is int else (int, float)) and not isinstance(value, bool)
        return is_number and abs(value) <= sys.float_info.max and self.limit.holds(value)  # NaN is not <= anything


@dataclass(frozen=True)
class Record:
    """Base of typed facts that are saved as JSON objects, and can be read by older and newer versions of the package.

    In JSON a field has its own name or that of its metadata, `field(metadata={"key": "hit@1"})`. A field may hold a
    record. One that is None by default is left out while it is None. Keys without a field, such as those of a newer
    version, are kept in `extra`.
    """

    extra: dict[str, Any] = field(default_factory=dict, kw_only=True)

    @classmethod
    def from_json(cls: type[R], saved: Mapping[str, Any]) -> R:
        """The record that `to_json` gave; a field without a default must be there."""
        values, rest, hints = {}, dict(saved), get_type_hints(cls)
        for item in fields(cls):
            key = item.metadata.get("key", item.name)
            if item.name == "extra" or key not in rest:
                continue
            kind, _ = _without_none(hints[item.name])
            is_record = isinstance(kind, type) and issubclass(kind, Record)
            value: Any = rest.pop(key)
            values[item.name] = kind.from_json(value) if is_record and value is not None else value
        return cls(**values, extra=rest)

    def to_json(self) -> dict[str, Any]:
        saved = dict(self.extra)
        for item in fields(self):
            value = getattr(self, item.name)
            if item.name == "extra" or (value is None and item.default is None):
                continue
            saved[item.metadata.get("key", item.name)] = value.to_json() if isinstance(value, Record) else value
        return saved
