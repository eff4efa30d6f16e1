"""Why a class answers as it does."""

from __future__ import annotations

import json

import numpy as np
import pytest

from support.bundles import BEAGLE, DOG, HORSE, OKAPI, POODLE, SEEN, ZEBRA, small_bundle
from unseen.answers.explain import explain
from unseen.methods.base import normalise_rows
from unseen.util.errors import UnseenError


@pytest.mark.parametrize("method", ["kin", "structural", "conse"])
def test_shares_add_up_and_are_sorted(method):
    bundle = small_bundle(method)
    found = explain(bundle, OKAPI, n=len(SEEN))
    shares = [near.share for near in found.neighbours]
    assert sum(shares) == pytest.approx(1, abs=1e-3) and shares == sorted(shares, reverse=True)
    assert {near.id for near in found.neighbours} == set(SEEN)
    assert len(explain(bundle, OKAPI, n=2).neighbours) == 2
    json.dumps(found.to_dict())


def test_a_poodle_borrows_from_the_beagle_and_an_okapi_from_hoofed_animals():
    bundle = small_bundle("kin", "glove+text")
    assert explain(bundle, POODLE).neighbours[0].id == BEAGLE
    assert {near.id for near in explain(bundle, OKAPI, n=2).neighbours} == {ZEBRA, HORSE}


def test_ways_go_over_the_common_ancestor():
    bundle = small_bundle("kin")
    found = explain(bundle, POODLE)
    assert found.path[0] in bundle.hierarchy.roots and found.path[-1] == POODLE
    near = next(near for near in found.neighbours if near.id == BEAGLE)
    assert near.path == tuple(bundle.hierarchy.path(POODLE, BEAGLE)) and DOG in near.path
    assert found.definition.startswith("an intelligent dog")


def test_similarity_is_the_cosine_of_classifiers():
    bundle = small_bundle("structural")
    found = explain(bundle, OKAPI)
    row = bundle.hierarchy.index(OKAPI)
    known, predicted = normalise_rows(bundle.known), normalise_rows(bundle.solution.classifiers[row : row + 1])[0]
    for near in found.neighbours:
        assert near.similarity == pytest.approx(float(known[SEEN.index(near.id)] @ predicted), abs=1e-4)
    assert found.trust is None and not found.seen
    assert explain(small_bundle("kin"), ZEBRA).seen


def test_a_method_without_classifiers_goes_by_the_names():
    bundle = small_bundle("conse")
    assert explain(bundle, POODLE).neighbours[0].similarity is None
    vectors = bundle.vectors.matrix
    similarity = vectors[bundle.seen] @ vectors[bundle.hierarchy.index(POODLE)]
    assert explain(bundle, POODLE).neighbours[0].id == SEEN[int(np.argmax(similarity))]


def test_an_unknown_class_is_told():
    with pytest.raises(UnseenError, match="'none' is not an id of this hierarchy"):
        explain(small_bundle("kin"), "none")
