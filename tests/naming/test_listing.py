"""A list of names: which sense of each, which are new, and what the model then chooses among."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from unseen.examples import fruits, photo
from unseen.hierarchy.core import Hierarchy
from unseen.naming.listing import Listed, SenseFinder, find_list, split_hint
from unseen.naming.reading import read_list
from unseen.util.errors import UnseenError


@pytest.fixture(scope="module")
def finder() -> SenseFinder:
    return SenseFinder(Hierarchy.imagenet())


@pytest.mark.parametrize(
    ("names", "definition"),
    [
        ("crane, heron, stork", "wading bird"),
        ("crane, bulldozer, excavator", "lifts and moves"),
        ("mouse, rat, squirrel", "rodents"),
        ("mouse, keyboard, monitor", "electronic device"),
        ("kiwi, apple, orange", "fruit"),
        ("kiwi, emu, ostrich", "flightless bird"),
        ("bat, owl, moth", "mammal"),
        ("plate, fork, cup", "dish on which food"),
        ("otter, seal, walrus", "carnivorous mammal"),  # and no furs
        ("cat, dog, rocket", "feline mammal"),  # and no guy
        ("crane (machine), heron", "lifts and moves"),
        ("dog, lamp", "genus Canis"),  # and no andiron, though that is a thing as a lamp is
    ],
)
def test_the_commonest_sense_that_fits_the_others(finder, names, definition):
    senses = {text: finder.senses(text) for text in read_list(names)}
    first = finder.best(next(iter(senses)), senses)
    assert definition in finder.where(first.id).definition(first.id)


def test_an_id_a_plural_and_what_nobody_knows(finder):
    assert finder.senses("n02012849") == ["n02012849"]
    assert finder.senses("poodles") == finder.senses("poodle")
    assert finder.senses("wheelie bin") == []
    assert finder.senses("robin (car)") == []  # a new class, below car
    assert split_hint("crane (machine)") == ("crane", "machine")


def test_new_names_are_predicted_in_memory_and_the_model_stays():
    model = fruits()
    before = len(model)
    among = model.among(["lemon", "cranberry (berry)", "lime", "lemon"])
    assert [(item.id, item.new) for item in among.listed] == [("lemon", False), ("cranberry", True), ("lime", False)]
    assert among.classes and set(among.classes) == {"lemon", "cranberry", "lime"}
    assert among.classify(photo("crimson"))[0].id == "cranberry"
    assert np.allclose(among.predict_proba([photo("crimson")]).sum(), 1)
    assert len(model) == before and model.listed == ()
    assert model.among(["lemon", "cranberry (berry)", "lime", "lemon"]) is among  # kept for the next photo


def test_mistakes_are_named():
    bundle = fruits().bundle
    with pytest.raises(UnseenError, match="the list is empty"):
        find_list(bundle, [])
    with pytest.raises(UnseenError, match=r"'zeppelin' is not in this hierarchy.*'zeppelin \(PARENT\)'"):
        find_list(bundle, ["lemon", "zeppelin"])
    with pytest.raises(UnseenError, match="Did you mean raspberry"):
        find_list(bundle, ["rasberry"])
    with pytest.raises(UnseenError, match="give one of them"):
        fruits().classify(photo("crimson"), candidates="unseen", among="lemon, lime")


def test_a_text_is_a_list_too():
    model = fruits()
    assert model.among("lemon, lime").classes == model.among(["lemon", "lime"]).classes
    assert model.classify(photo("crimson"), among="lemon, raspberry")[0].id == "raspberry"


def test_notes_say_what_a_name_was_taken_for(finder):
    def listed(names: str):
        senses = {text: finder.senses(text) for text in read_list(names)}
        return finder.best(next(iter(senses)), senses)

    crane = listed("crane, okapi, giraffe, truck")
    assert crane.close and not crane.certain
    assert (
        "wading bird" in crane.note and "write n03126707 or crane (lifting device) for: lifts and moves" in crane.note
    )
    assert listed("crane (lifting device), okapi").id == "n03126707"  # as the note says
    assert listed("okapi, crane").certain and "n02439398" in listed("okapi, crane").note
    new = Listed("quokka", "quokka", True, (finder.wordnet.sense("n03094503"),), score=0.3)
    assert not new.certain and "a kind of container" in new.note and "as in 'quokka (bird)'" in new.note
    assert replace(new, score=0.9).certain and new.to_dict()["score"] == 0.3


def test_two_names_of_one_class_are_one():
    bundle = fruits().bundle
    _, (lemon,) = find_list(bundle, ["lemon", "Lemon"])
    assert lemon.also == ("Lemon",) and "Also named: Lemon." in lemon.note
