"""Behaviour stays: classifiers of every method, answers, tables, and the JSON of every command, as data/ has them.

What is deliberately changed is made anew in a commit of its own: see `make.py`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from filelock import FileLock

from golden import commands, topics

CLASSIFIERS, ANSWERS, TABLES, COMMANDS = 1e-5, 2e-4, 1e-3, 1e-4  # tolerances
ITERATED = {"sync": 1e-4}  # of methods that end where the last digit decides
NEAR = 5e-4  # of the confidence: there a verdict may be either of two
TIES = 0.03  # share of photos whose verdict or last guess may be another one that ties


def check(topic: str, new: Any, tolerance: float, old: Any = None) -> None:
    old = topics.read(topic) if old is None else old
    found = list(topics.differences(old, new, tolerance))
    assert not found, f"{topics.file_of(topic).name}: {len(found)} differences\n" + "\n".join(found[:30])


def test_each_file_is_of_a_topic():
    names = {f"classifiers/{name}" for name in [*topics.METHODS, "kin-default"]}
    names |= {f"answers/{name}" for name in [*topics.SETTINGS, "samples", "features", "probabilities"]}
    names |= {f"tables/{name}" for name in topics.TABLES} | {"photos"}
    names |= {f"commands/{name}" for group in commands.GROUPS.values() for name in group}
    files = topics.GOLDENS.rglob("*.json")
    assert {file.relative_to(topics.GOLDENS).with_suffix("").as_posix() for file in files} == names


@pytest.mark.parametrize("method", topics.METHODS)
def test_classifiers(method):
    check(f"classifiers/{method}", topics.classifiers(method), ITERATED.get(method, CLASSIFIERS))


def test_classifiers_of_the_default_bundle():
    check("classifiers/kin-default", topics.kin_default(), CLASSIFIERS)


def test_answers_about_the_sample_photos():
    old, new = topics.read("answers/samples"), topics.sample_answers()
    for setting, answers in new["settings"].items():
        settle_ties(setting, old["settings"][setting], answers, topics.sample_features())
    settle_ties("any", old["classify"], new["classify"], topics.sample_features())
    check("answers/samples", new, ANSWERS, old)


@pytest.fixture(scope="session")
def chosen(shared_photos) -> tuple[Path, tuple[str, ...]]:
    names = tuple(topics.read("photos")["photos"])
    missing = [name for name in names if not (shared_photos / name).is_file()]
    if missing:
        pytest.skip(f"{len(missing)} of the {len(names)} photos are not in {shared_photos}, such as {missing[0]}")
    return shared_photos, names


@pytest.fixture
def features(chosen) -> np.ndarray:
    return topics.photo_features(*chosen)


def test_features_of_real_photos(shared_photos, features):
    check("answers/features", topics.summary(features, 100), ANSWERS)


@pytest.mark.parametrize("setting", topics.SETTINGS)
def test_answers_about_real_photos(shared_photos, features, setting):
    old, new = (
        topics.read(f"answers/{setting}"),
        topics.answers(setting, features[: topics.ANSWERED]),
    )
    settle_ties(setting, old, new, features)
    check(f"answers/{setting}", new, ANSWERS, old)


def test_a_photo_is_answered_as_its_features_are(shared_photos, chosen):
    folder, names = chosen
    found = topics.default_model().stream([folder / name for name in names[: topics.ANSWERED : 20]])
    new, old = [topics.answer_row(answer, True) for answer in found], topics.read("answers/any")[::20]
    settle_ties("any", old, new, topics.photo_features(*chosen)[: topics.ANSWERED : 20])
    check("answers/any", new, ANSWERS, old)


def settle_ties(setting: str, old: list[dict], new: list[dict], features: np.ndarray) -> None:
    """What a harmless difference in the last digits may change becomes the old one: a verdict that a confidence a
    little lower or higher gives, and for a few photos a verdict or one guess that ties with another."""
    confidence, ties = topics.SETTINGS[setting].get("confidence", 0.9), set()
    for place, (then, now) in enumerate(zip(old, new, strict=True)):
        (was, probability), (became, other) = then["verdict"], now["verdict"]
        if was != became:
            for close in (confidence - NEAR, confidence + NEAR):
                (again,) = topics.answers(setting, features[place : place + 1], confidence=close)
                if again["verdict"][0] == was:
                    now["verdict"] = again["verdict"]
            if now["verdict"][0] != was and None not in (was, became) and abs(probability - other) <= ANSWERS:
                now["verdict"] = then["verdict"]
                ties.add(place)
        titles, others = ([title for title, _ in answer.get("guesses", [])] for answer in (then, now))
        if len(set(titles) ^ set(others)) == 2 and len(titles) == len(others):
            now["guesses"] = then["guesses"]
            ties.add(place)
    assert len(ties) <= max(1, TIES * len(old)), f"other verdicts or guesses for {len(ties)} photos: {sorted(ties)}"


def test_probabilities_of_real_photos(shared_photos, features):
    check("answers/probabilities", topics.probabilities(features[: topics.ANSWERED]), ANSWERS)


@pytest.mark.parametrize("name", topics.TABLES)
def test_tables(shared_photos, authors_lists, chosen, features, name):
    check(f"tables/{name}", topics.table(name, features, chosen[1]), TABLES)


def results(group: str) -> dict[str, Any]:
    """Of all commands of a group, which one worker runs for all."""
    folder = Path(os.environ["UNSEEN_CACHE"]) / "golden"
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / f"{group}.lock"):
        return commands.run_group(folder, group)


@pytest.mark.parametrize("topic", commands.QUICK)
def test_commands(topic):
    check(f"commands/{topic}", results("quick")[topic], COMMANDS)


@pytest.mark.slow
@pytest.mark.parametrize("topic", commands.SLOW)
def test_slow_commands(topic):
    check(f"commands/{topic}", results("slow")[topic], COMMANDS)
