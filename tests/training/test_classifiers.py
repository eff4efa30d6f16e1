"""The pure core of stage 1: the same as `train`, with nothing loaded, saved or said."""

from __future__ import annotations

import numpy as np
import pytest

import unseen
from support.bundles import SEEN, small_backbone, small_bundle, small_taxonomy
from unseen.errors import UnseenError
from unseen.methods import make_method
from unseen.runtime.run import Run
from unseen.semantics import class_vectors, load_vectors


@pytest.fixture(scope="module")
def vectors():
    return class_vectors(small_taxonomy(), load_vectors("glove"))


@pytest.mark.parametrize("method", ["kin", "structural", "conse"])
def test_it_gives_what_train_gives(vectors, method, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    bundle = unseen.fit_classifiers(small_taxonomy(), vectors, small_backbone(), method)
    trained = small_bundle(method)
    assert np.array_equal(bundle.solution.classifiers, trained.solution.classifiers)
    assert (bundle.method, bundle.settings, bundle.seen_ids) == (trained.method, trained.settings, trained.seen_ids)
    assert bundle.path is None and bundle.training.seconds >= 0
    assert list(tmp_path.iterdir()) == [] and capfd.readouterr() == ("", "")


def test_a_method_with_settings_and_a_seed(vectors):
    method = make_method("dgp", {"epochs": 3, "hidden": 16})
    one, other = (
        unseen.fit_classifiers(small_taxonomy(), vectors, small_backbone(), method, run=Run(seed=seed, device="cpu"))
        for seed in (0, 1)
    )
    assert one.settings["hidden"] == 16 and one.solution.record.epochs == 3 and (one.seed, other.seed) == (0, 1)
    assert not np.array_equal(one.solution.classifiers, other.solution.classifiers)


def test_seen_classes_may_be_chosen(vectors):
    network, chosen = small_backbone(), [SEEN[3], SEEN[0]]
    bundle = unseen.fit_classifiers(small_taxonomy(), vectors, network, "structural", seen=chosen)
    assert bundle.seen_ids == chosen
    assert np.array_equal(bundle.known, network.classifiers()[[3, 0]])
    with pytest.raises(UnseenError, match="does not know 1 of the seen classes: n02439398"):
        unseen.fit_classifiers(small_taxonomy(), vectors, network, "structural", seen=["n02439398"])


def test_train_takes_a_method_too():
    assert small_bundle(make_method("structural", {"decay": 0.7})).settings == {"decay": 0.7}
    with pytest.raises(UnseenError, match="structural has its settings already: omit decay"):
        small_bundle(make_method("structural"), decay=0.7)
