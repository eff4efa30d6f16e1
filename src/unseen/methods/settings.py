"""Settings of methods, checked before anything is computed: the right type, finite, and within the method's limits.

The types come from the annotations of the settings' dataclass (int, float, bool, str, lists of them, or None), the
limits from the method: `limits = {"ridge": POSITIVE}`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, NamedTuple, get_args, get_origin, get_type_hints

from unseen.errors import UnseenError


class Limit(NamedTuple):
    """What a number must fulfil, in words that go on from "a number"."""

    words: str
    holds: Callable[[float], bool]


POSITIVE = Limit("greater than 0", lambda value: value > 0)
NOT_NEGATIVE = Limit("from 0 upwards", lambda value: value >= 0)
AT_LEAST_1 = Limit("of at least 1", lambda value: value >= 1)
AT_LEAST_2 = Limit("of at least 2", lambda value: value >= 2)
BELOW_1 = Limit("from 0 to less than 1", lambda value: 0 <= value < 1)
DECAY = Limit("greater than 0 and at most 1", lambda value: 0 < value <= 1)
ANY = Limit("", lambda value: True)

# Type -> one of it, several of it.
_WORDS = {
    int: ("a whole number", "whole numbers"),
    float: ("a number", "numbers"),
    bool: ("true or false", "values true or false"),
    str: ("text", "texts"),
}


def check_settings(method: str, settings: Any, limits: Mapping[str, Limit]) -> None:
    """Refuse a settings dataclass with a value that the method cannot be built or trained with."""
    hints = get_type_hints(type(settings))
    for item in fields(settings):
        value, limit = getattr(settings, item.name), limits.get(item.name, ANY)
        several, kind, optional = _shape(hints[item.name])
        if (value is None and optional) or _fits(value, several, kind, limit):
            continue
        wanted = f"a list of {_WORDS[kind][1]}" if several else _WORDS[kind][0]
        shown = "an empty one" if several and value == [] else repr(value)
        raise UnseenError(f"{method}: {item.name} must be {' '.join([wanted, limit.words]).strip()}, not {shown}")


def _shape(hint: Any) -> tuple[bool, type, bool]:
    """Whether an annotation is of a list, the type of its values, and whether None will do."""
    choices = [hint] if get_origin(hint) is list else get_args(hint) or [hint]
    (kind,) = (choice for choice in choices if choice is not type(None))
    several = get_origin(kind) is list
    return several, get_args(kind)[0] if several else kind, len(choices) > 1


def _fits(value: Any, several: bool, kind: type, limit: Limit) -> bool:
    if several:
        return isinstance(value, (list, tuple)) and len(value) > 0 and all(_is(kind, v, limit) for v in value)
    return _is(kind, value, limit)


def _is(kind: type, value: Any, limit: Limit) -> bool:
    if kind in (bool, str):
        return isinstance(value, kind)
    is_number = isinstance(value, int if kind is int else (int, float)) and not isinstance(value, bool)
    return is_number and abs(value) <= sys.float_info.max and limit.holds(value)  # NaN is not <= anything
