"""Linear classifiers over features of any kind: scikit-learn's, arrays, files."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from sklearn.linear_model import LogisticRegression, RidgeClassifier, SGDClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

import unseen
from support.bundles import FEATURES, small_network, small_photo
from unseen.networks.linear import NAME, from_linear
from unseen.networks.loading import load_network
from unseen.util.errors import UnseenError

IDS = ["cat", "dog", "owl"]
ANIMALS = unseen.Hierarchy.from_edges(
    [("cat", "mammal"), ("dog", "mammal"), ("fox", "mammal"), ("owl", "bird"), ("mammal", "animal"), ("bird", "animal")]
)


@pytest.fixture(scope="module")
def points():
    rng = np.random.default_rng(0)
    labels = np.repeat(IDS, 30)
    return (rng.standard_normal((90, 5)) + 3 * np.eye(3, 5)[np.repeat([0, 1, 2], 30)]).astype(np.float32), labels


@pytest.mark.parametrize(
    "estimator", [LogisticRegression(), LinearSVC(), SGDClassifier(random_state=0), RidgeClassifier()]
)
def test_an_estimator_scores_as_before(estimator, points):
    x, labels = points
    estimator.fit(x, labels)
    network = from_linear(estimator)
    assert network.class_ids == tuple(IDS) and not network.takes_photos
    scores = network(torch.from_numpy(x)).detach().numpy()
    assert np.allclose(scores, estimator.decision_function(x), atol=1e-3)
    assert torch.equal(network.features(torch.from_numpy(x)), torch.from_numpy(x))


def test_two_classes_have_one_row_and_the_same_probabilities(points):
    x, labels = points
    estimator = LogisticRegression().fit(x[:60], labels[:60])
    assert estimator.coef_.shape == (1, 5)
    network = from_linear(estimator)
    scores = network(torch.from_numpy(x)).detach()
    assert network.class_ids == ("cat", "dog")
    assert np.allclose(torch.softmax(scores, 1).numpy(), estimator.predict_proba(x), atol=1e-6)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ((np.eye(3), None, IDS[:2]), "do not fit 2 class ids"),
        ((np.eye(3), [1, 2], IDS), "2 biases do not fit 3 class ids"),
        ((np.eye(3),), "which class each row"),
        ((np.full((3, 2), np.nan), None, IDS), "weight is empty, or holds NaN"),
        ((np.zeros((3, 2, 2)), None, IDS), r"shape \(3, 2, 2\)"),
        ((["a", "b"], None, IDS), "must hold numbers"),
        ((np.eye(3), None, ["cat", "cat", "dog"]), "more than once: cat"),
        (("head.npz",), r"load_network\('linear:head.npz'\)"),
        ((DecisionTreeClassifier().fit([[0], [1]], [0, 1]),), "has no coef_"),
        ((LogisticRegression().fit([[0], [1]], [0, 1]), [1.0]), "omit bias"),
        ((make_pipeline(StandardScaler(), LogisticRegression()),), r"pipeline\[-1\]"),
    ],
)
def test_what_cannot_work_is_refused_with_a_reason(given, reason):
    with pytest.raises(UnseenError, match=reason):
        from_linear(*given)


@pytest.mark.parametrize("form", ["npz", "scikit-learn", "safetensors", "layer"])
def test_a_file(form, tmp_path):
    weight, bias = np.arange(6, dtype=np.float32).reshape(3, 2), np.ones(3, np.float32)
    if form == "npz":
        np.savez(file := tmp_path / "head.npz", weight=weight, bias=bias, classes=IDS)
    elif form == "scikit-learn":
        np.savez(file := tmp_path / "head.npz", coef_=weight, intercept_=bias, classes_=np.array(IDS))
    else:
        prefix = "fc." if form == "layer" else ""
        tensors = {f"{prefix}weight": torch.from_numpy(weight), f"{prefix}bias": torch.from_numpy(bias)}
        save_file(tensors, file := tmp_path / "head.safetensors", {"classes": json.dumps(IDS)})
    network = load_network(f"linear:{file}")
    assert network.checksum == from_linear(weight, bias, IDS).checksum and network.class_ids == tuple(IDS)
    assert load_network(f"linear:{file}", ["x", "y", "z"]).class_ids == ("x", "y", "z")


def test_files_with_mistakes(tmp_path):
    np.savez(tmp_path / "objects.npz", weight=np.eye(3), classes=np.array(IDS, object))
    np.savez(tmp_path / "nothing.npz", other=np.eye(3))
    np.savez(tmp_path / "no-classes.npz", weight=np.eye(3))
    (tmp_path / "text.npz").write_text("hello")
    (tmp_path / "text.safetensors").write_text("hello")
    (tmp_path / "model.pkl").write_bytes(pickle.dumps({"weight": 1}))
    packed = bytearray((tmp_path / "no-classes.npz").read_bytes())
    packed[packed.index(b"PK\x01\x02") + 10] = 99  # packed in a way that there is not
    (tmp_path / "packed.npz").write_bytes(packed)
    save_file({"weight": torch.eye(3)}, tmp_path / "deep.safetensors", {"classes": "[" * 20_000})
    for name, reason in (
        ("objects.npz", "Object arrays.*dtype=str"),
        ("nothing.npz", "has no `weight`, but other"),
        ("no-classes.npz", "Save the ids as `classes`"),
        ("text.npz", "not a readable npz"),
        ("text.safetensors", "not a readable safetensors"),
        ("packed.npz", "not a readable npz"),
        ("deep.safetensors", "not a readable safetensors"),
        ("model.pkl", "is read from .npz or .safetensors"),
        ("missing.npz", "no such file"),
        ("", "Name the file"),
    ):
        with pytest.raises(UnseenError, match=reason):
            load_network(f"linear:{tmp_path / name}" if name else "linear:")


def test_a_bundle_keeps_the_layer_and_needs_no_photos(points, tmp_path):
    x, labels = points
    network = from_linear(LogisticRegression().fit(x, labels))
    unseen.train(ANIMALS, network, "structural", "glove", out=tmp_path / "bundle")
    model = unseen.load(tmp_path / "bundle")
    assert model.network.checksum == network.checksum and model.bundle.network.name == NAME
    best = [answer[0].id for answer in model.answers(x, 1, "seen")]
    assert np.mean(np.array(best) == labels) > 0.9
    with pytest.raises(UnseenError, match="takes no photos"):
        model.classify("photo.jpg")
    with pytest.raises(UnseenError, match="rows of 5 features"):
        model.network.features(torch.zeros(2, 3, 8, 8))


def test_a_layer_over_the_features_of_a_network(tmp_path):
    base = small_network()
    photo = small_photo()
    head = from_linear(np.eye(3, FEATURES), None, IDS, base)
    assert head.takes_photos and head.transform == base.transform and head.name == f"linear@{base.name}"
    batch = base.transform(photo)[None]
    assert torch.allclose(head(batch), base.features(batch)[:, :3])
    with pytest.raises(UnseenError, match=r"for 5 features, but .* gives 8"):
        from_linear(np.eye(3, 5), None, IDS, base)


def test_code_of_the_users_own_is_not_run_below_a_layer(tmp_path):
    np.savez(tmp_path / "head.npz", weight=np.eye(3), classes=IDS)
    for name in (f"linear:{tmp_path / 'head.npz'}@antigravity:run", "linear@antigravity:run"):
        with pytest.raises(UnseenError, match="build antigravity:run yourself"):
            load_network(name, IDS)


def test_a_head_for_a_built_in_network_is_found_again(tmp_path):
    np.savez(tmp_path / "head.npz", weight=np.eye(3, 1280), bias=np.zeros(3), classes=IDS)
    network = load_network(f"linear:{tmp_path / 'head.npz'}@efficientnet-lite0")
    unseen.train(ANIMALS, network, "structural", "glove", out=tmp_path / "bundle")
    (tmp_path / "head.npz").unlink()
    model = unseen.load(tmp_path / "bundle")
    assert model.network.checksum == network.checksum and model.bundle.network.name == "linear@efficientnet-lite0"
    assert len(model.classify(small_photo(), k=2)) == 2
