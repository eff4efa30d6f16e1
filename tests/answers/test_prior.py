"""How probable classes are before anyone looks at the photo."""

from __future__ import annotations

import json

import numpy as np
import pytest

from support.bundles import small_bundle, small_network, small_photo
from unseen import Hierarchy, Model
from unseen.answers.algebra import logsumexp
from unseen.answers.ask import Ask
from unseen.answers.prior import COMMON, UNIFORM, WEIGHT, ColumnPrior, Prior, commonness
from unseen.answers.probability import measure_spread, plain_probabilities
from unseen.answers.scores import MISSED
from unseen.util.errors import UnseenError

TREE = Hierarchy.from_edges(
    [("poodle", "dog"), ("beagle", "dog"), ("dog", "pet"), ("cat", "pet"), ("guard dog", "dog"), ("guard dog", "tool")]
)


@pytest.fixture(scope="module")
def model() -> Model:
    return Model(small_bundle("kin"), small_network(), device="cpu")


def weights_of(prior, tree: Hierarchy = TREE) -> dict[str, float]:
    found = Prior.read(prior, tree).class_weights(tree, np.arange(len(tree)))
    return {} if found is None else dict(zip(tree.ids, found.tolist(), strict=True))


# -- common names ----------------------------------------------------------------------------------------------------


def test_common_words_are_common_and_other_names_neutral():
    hierarchy = Hierarchy.imagenet()
    dog, okapi = commonness(hierarchy, hierarchy.indices(["n02084071", "n02439398"]))
    assert dog > 3 > 2 > okapi
    assert np.isnan(commonness(TREE, np.arange(len(TREE)))).all()  # every class of one's own tree was chosen
    assert not ColumnPrior(COMMON, TREE, np.array([0]), np.arange(1, 5)).moves


def test_unknown_names_are_as_common_as_the_mean():
    hierarchy = Hierarchy.imagenet().subgraph(["n02084071", "n02439398"])
    hierarchy.source = {"kind": "imagenet"}
    own = hierarchy.extend([_node("fg", "n02439033" if "n02439033" in hierarchy else hierarchy.roots[0])])
    own.source = {"kind": "imagenet"}
    rows = own.indices(["n02084071", "n02439398", "fg"])
    common = ColumnPrior(COMMON, own, rows[:0], rows).common
    assert common[2] == 0 and common[0] > 0 > common[1] and abs(common.sum()) < 1e-6
    expected = WEIGHT * np.diff(commonness(own, rows[:2]))[0]
    assert np.diff(common[:2])[0] == pytest.approx(expected, abs=1e-6)


def _node(id: str, parent: str):
    from unseen import Node

    return Node(id, id, [parent])


def test_scores_are_moved_in_units_of_their_spread(model):
    features = model.features([small_photo(0), small_photo(1)])
    plain, moved = (model.scorer(Ask(candidates="unseen", prior=prior)) for prior in (UNIFORM, COMMON))
    before, after = (scorer.scores(features) for scorer in (plain, moved))
    common = moved.prior.common
    np.testing.assert_allclose(after, before + before.std(axis=1, keepdims=True) * common, atol=1e-5)
    np.testing.assert_array_equal(model.scores(features, "unseen"), plain.in_given_order(before, 0))  # never moved


def test_the_balance_of_seen_and_unseen_stays():
    scores = np.random.default_rng(0).normal(size=(5, 30)).astype(np.float32)
    prior = ColumnPrior(UNIFORM, TREE, np.arange(0), np.arange(0))
    prior.common = np.linspace(-1, 2, 20, dtype=np.float32)
    moved, sharp = prior.shift(scores, 10), 1.9 / measure_spread(scores[:, 10:])
    np.testing.assert_array_equal(moved[:, :10], scores[:, :10])
    after, before = (logsumexp(sharp * some[:, 10:]) for some in (moved, scores))
    np.testing.assert_allclose(after, before, rtol=1e-4)
    assert (moved[:, 29] > scores[:, 29]).all() and (moved[:, 10] < scores[:, 10]).all()


# -- weights ---------------------------------------------------------------------------------------------------------


def test_a_weight_holds_for_all_below_and_the_nearest_decides():
    found = weights_of({"pet": 0, "dog": 2, "Poodle": 0.5, "tool": 3})
    assert found == {"poodle": 0.5, "dog": 2, "beagle": 2, "pet": 0, "cat": 0, "guard dog": 3, "tool": 3}
    assert weights_of("common") == weights_of("uniform") == {}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("w.csv", "dog,2\n\ncat,0\n"),
        ("w.csv", '\ufeffname,weight\n"dog", 2\ncat,0\n'),
        ("w.tsv", "id\tweight\ndog\t2.0\ncat\t0\n"),
        ("w.json", json.dumps({"dog": 2, "cat": 0})),
    ],
)
def test_files(tmp_path, name, text):
    (tmp_path / name).write_text(text, encoding="utf-8")
    prior = Prior.read(str(tmp_path / name), TREE)
    assert prior == Prior(True, (("dog", 2.0), ("cat", 0.0))) == Prior.read(f"common+{tmp_path / name}", TREE)
    assert Prior.read(f"uniform+{tmp_path / name}", TREE) == Prior(False, prior.weights)
    assert Prior.from_json(json.loads(json.dumps(prior.to_json()))) == prior


@pytest.mark.parametrize(
    ("prior", "says"),
    [
        ("comon", "no prior named 'comon', and no such file. Choose from: common, uniform"),
        ("uniform+nowhere.csv", "no such file"),
        ({"dogg": 1}, "'dogg' is neither an id nor a name.*Did you mean dog"),
        ({"dog": -1}, "the weight of 'dog' must be a number from 0 on, not -1"),
        ({"dog": float("nan")}, "must be a number from 0 on"),
        ({"dog": float("inf")}, "must be a number from 0 on"),
        ({"dog": "many"}, "must be a number from 0 on, not 'many'"),
        ({"dog": 1, "Dog": 2}, r"'Dog' \(dog\) has two weights, 1 and 2"),
        ({}, "holds no weights"),
    ],
)
def test_mistakes(prior, says):
    with pytest.raises(UnseenError, match=says):
        Prior.read(prior, TREE)


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("w.csv", "dog 2\n", "'dog 2' is not a name and a weight"),
        ("w.csv", "guard, dog,2\n", "put a name with a comma into quotes"),
        ("w.csv", "name,weight\n", "holds no weights"),
        ("w.json", "[1]", "a JSON object was expected"),
        ("w.json", "{", "cannot be read as weights"),
    ],
)
def test_files_with_mistakes(tmp_path, name, text, says):
    (tmp_path / name).write_text(text)
    with pytest.raises(UnseenError, match=says):
        Prior.read(tmp_path / name, TREE)


def test_weights_multiply_probabilities_and_0_excludes(model):
    photo, ids = small_photo(), model.bundle.ids
    everything = {label.id: label for label in model.classify(photo, 99)}
    first, second = list(everything)[:2]
    without = model.classify(photo, 99, prior={first: 0})
    assert first not in {label.id for label in without}
    assert sum(label.probability for label in without) == pytest.approx(1, abs=1e-4)
    more = {label.id: label for label in model.classify(photo, 99, prior={second: 5})}
    assert more[second].probability > everything[second].probability
    assert more[second].score == pytest.approx(everything[second].score)  # the method's
    row = model.bundle.hierarchy.index(first)
    ranks = model.scorer(Ask(prior={first: 0})).ranks(model.features([photo]), np.array([row]))
    assert ranks.greater.tolist() == [MISSED] and ids[row] == first
    everyone = dict.fromkeys(model.bundle.hierarchy.roots, 0)
    with pytest.raises(UnseenError, match="excludes every candidate"):
        model.classify(photo, prior=everyone)


def test_columns_of_excluded_classes_are_empty(model):
    first, second = [model.bundle.ids[row] for row in model.candidates("leaves")][:2]
    p = model.predict_proba([small_photo()], [second, first], prior={first: 0})
    assert p.tolist() == [[1.0, 0.0]]


def test_a_prior_is_stored_with_the_model(model, tmp_path):
    changed = Model(model.bundle, small_network(), device="cpu")
    best = changed.classify(small_photo(), 1)[0].id
    changed.prior = {best: 0}
    changed.save(tmp_path / "bundle")
    loaded = Model(type(model.bundle).load(tmp_path / "bundle"), small_network(), device="cpu")
    assert loaded.prior == changed.prior and str(loaded.prior) == "common+weights of 1 node"
    assert best not in {label.id for label in loaded.classify(small_photo(), 99)}
    assert best in {label.id for label in loaded.classify(small_photo(), 99, prior="common")}
    assert model.prior == COMMON and best in {label.id for label in model.classify(small_photo(), 99)}


def test_plain_probabilities_follow_the_weights(model):
    row = int(model.candidates("leaves")[0])
    scorer = model.scorer(Ask(prior=Prior(False, ((model.bundle.ids[row], 4.0),))))
    plain = model.scorer(Ask(prior="uniform"))
    features = model.features([small_photo()])
    after, before = (plain_probabilities(one.scores(features))[0] for one in (scorer, plain))
    at = scorer.columns.tolist().index(row)
    assert (after[at] / before[at]) / (np.delete(after, at) / np.delete(before, at)).mean() > 2
