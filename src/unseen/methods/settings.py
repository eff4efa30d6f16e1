"""Settings of methods, checked before anything is computed: the right type, finite, and within their limits.

A setting has its limit beside it, in the annotation of its field:

    @dataclass(frozen=True)
    class MySettings:
        ridge: Annotated[float | None, POSITIVE] = None
        hidden: Annotated[list[int], AT_LEAST_1] = field(default_factory=lambda: [512])
        average: Literal["image", "class"] = "class"

Types are int, float, bool, str, lists of them, or a Literal of texts; each may be None as well if annotated so.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import fields
from typing import Annotated, Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

from unseen.errors import UnseenError


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
ANY = Limit("", lambda value: True)

# Type -> one of it, several of it.
_WORDS: dict[type, tuple[str, str]] = {
    int: ("an integer", "integers"),
    float: ("a number", "numbers"),
    bool: ("true or false", "values true or false"),
    str: ("text", "texts"),
}


def check_settings(owner: str, settings: Any) -> None:
    """Refuse a settings dataclass with a value that its owner, a method, cannot be built or trained with."""
    hints = get_type_hints(type(settings), include_extras=True)
    for item in fields(settings):
        value, wanted = getattr(settings, item.name), _Wanted.of(hints[item.name])
        if not wanted.holds(value):
            shown = "an empty one" if wanted.several and value == [] else repr(value)
            raise UnseenError(f"{owner}: {item.name} must be {wanted.words}, not {shown}")


class _Wanted(NamedTuple):
    """What an annotation asks for."""

    kind: type
    several: bool
    optional: bool
    choices: tuple[str, ...]  # of a Literal
    limit: Limit

    @classmethod
    def of(cls, hint: Any) -> _Wanted:
        limit = ANY
        if get_origin(hint) is Annotated:
            hint, limit = get_args(hint)
        union = get_args(hint) if type(None) in get_args(hint) else (hint,)
        (kind,) = (part for part in union if part is not type(None))
        if get_origin(kind) is Literal:
            return cls(str, False, len(union) > 1, get_args(kind), limit)
        several = get_origin(kind) is list
        return cls(get_args(kind)[0] if several else kind, several, len(union) > 1, (), limit)

    @property
    def words(self) -> str:
        if self.choices:
            *others, last = self.choices
            return f"{', '.join(others)} or {last}"
        one, many = _WORDS[self.kind]
        return f"{f'a list of {many}' if self.several else one} {self.limit.words}".strip()

    def holds(self, value: Any) -> bool:
        if value is None:
            return self.optional
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
