"""Wrong values of settings are refused with one sentence, for every method, before anything is computed."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Annotated, Literal

import pytest

from unseen.methods import get_method, make_method, method_names
from unseen.util.errors import UnseenError
from unseen.util.settings import AT_LEAST_1, Record, check_settings, list_settings

WRONG = [
    ("kin", "ridge", '"abc"', "must be a number greater than 0, not 'abc'"),
    ("kin", "ridge", "Infinity", "must be a number greater than 0, not inf"),
    ("kin", "ridge", "NaN", "must be a number greater than 0, not nan"),
    ("kin", "decay", "null", "must be a number greater than 0 and at most 1, not None"),
    ("kin", "descendants", '[1, "x"]', r"must be a list of numbers, not \[1, 'x'\]"),
    ("kin", "sources", "3", "must be a list of numbers of at least 0, not 3"),
    ("kin", "word_width", "1" + "0" * 400, "must be a number greater than 0"),
    ("conse", "top", "2.5", "must be an integer of at least 1, not 2.5"),
    ("conse", "top", "0", "must be an integer of at least 1, not 0"),
    ("structural", "decay", "-5000", "must be a number of at least 0, not -5000"),
    ("sync", "sigma", "0", "must be a number greater than 0, not 0"),
    ("sync", "learn_from", "5", "must be auto, features or classifiers, not 5"),
    ("devise", "margin", "-1", "must be a number of at least 0"),
    ("exem", "standardise", "1", "must be true or false, not 1"),
    ("eszsl", "folds", "1", "must be an integer of at least 2"),
    ("eszsl", "other", "NaN", "must be a number, not nan"),
    ("gcnz", "hidden", "[]", "must be a list of integers of at least 1, not an empty one"),
    ("gcnz", "dtype", "32", "must be float32 or float64, not 32"),
]


@pytest.mark.parametrize(("method", "name", "value", "words"), WRONG)
def test_a_wrong_value_is_refused(method, name, value, words):
    with pytest.raises(UnseenError, match=f"^{method}: {name} {words}"):
        make_method(method, {name: json.loads(value)})  # as --set reads it


@pytest.mark.parametrize("name", method_names())
def test_the_defaults_are_allowed_and_documented(name):
    kind = get_method(name)
    check_settings(name, kind.Settings())
    for item in fields(kind.Settings):
        assert any(f"\n        {item.name}: " in (base.__doc__ or "") for base in kind.Settings.__mro__), item.name


@dataclass(frozen=True)
class Odd:
    """Annotations that no built-in method has."""

    name: str | None = None
    flags: list[bool] = field(default_factory=lambda: [True])
    kind: Literal["a", "b"] | None = None


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"name": 3}, "name must be text"),
        ({"flags": [1]}, "flags must be a list"),
        ({"kind": "c"}, "kind must be a or b"),
    ],
)
def test_texts_flags_and_choices(wrong, words):
    check_settings("odd", Odd("x", [False, True], "b"))
    with pytest.raises(UnseenError, match=f"^odd: {words}"):
        check_settings("odd", Odd(**wrong))


def test_whole_numbers_are_numbers_and_tuples_are_lists():
    assert make_method("sync", {"sigma": 1, "ridge": None}).settings.sigma == 1
    assert make_method("kin", {"ancestors": (1, 0.5)}).settings.ancestors == (1, 0.5)


def test_settings_it_does_not_have():
    with pytest.raises(UnseenError, match="conse has no setting 'tops'"):
        make_method("conse", {"tops": 3})


@dataclass(frozen=True)
class Question:
    """As a command has them.

    Args:
        k: How many labels
            a photo gets.
        place: Where it was taken.
    """

    k: Annotated[int, AT_LEAST_1] = 5
    place: Path | None = None
    names: list[str] = field(default_factory=list)


def test_a_dataclass_says_all_that_an_option_needs():
    k, place, names = list_settings(Question)
    assert (k.name, k.kind, k.default, k.help, k.limit.least) == ("k", int, 5, "How many labels a photo gets.", 1)
    assert (place.kind, place.optional, place.help) == (Path, True, "Where it was taken.")
    assert (names.kind, names.several, names.default) == (str, True, [])
    check_settings("question", Question(place=Path("x"), names=["a"]))
    with pytest.raises(UnseenError, match="question: place must be a path, not 3"):
        check_settings("question", Question(place=3, names=["a"]))


@dataclass(frozen=True)
class Inner(Record):
    score: float = field(metadata={"key": "hit@1"})


@dataclass(frozen=True)
class Outer(Record):
    inner: Inner | None
    note: str | None = None


def test_records_come_back_from_json():
    saved = {"inner": {"hit@1": 2.0}, "of_the_future": 1}
    record = Outer.from_json(saved)
    assert record == Outer(Inner(2.0), extra={"of_the_future": 1}) and record.to_json() == saved
    assert Outer.from_json({"inner": None}).to_json() == {"inner": None}
