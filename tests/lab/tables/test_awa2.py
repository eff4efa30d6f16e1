"""AWA2 as it is distributed: folders by English name, attributes by number."""

from __future__ import annotations

import json

import numpy as np
import pytest
from PIL import Image
from torch import nn

import unseen
from unseen.networks.folders import match_folders
from unseen.util.errors import UnseenError
from unseen_lab.data.attributes import Attributes, find_awa2
from unseen_lab.data.authors import paper_list
from unseen_lab.data.awa2 import AWA2_CLASSES, AWA2_TEST, AWA2_TRAIN

COLOURS = {"blue+whale": "blue", "horse": "red", "giraffe": "yellow"}  # of photos of test classes


@pytest.fixture(scope="module")
def awa2(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data") / "Animals_with_Attributes2"
    for name, colour in {**COLOURS, "siamese+cat": "gray"}.items():
        (folder / "JPEGImages" / name).mkdir(parents=True)
        for number in (10001, 10002):
            Image.new("RGB", (16, 16), colour).save(folder / "JPEGImages" / name / f"{name}_{number}.jpg")
    return folder


@pytest.fixture(scope="module")
def model():
    """A network that sees a photo's mean colour and knows two classes; three others have classifiers of their own."""
    ids = [*(AWA2_CLASSES[name] for name in COLOURS), AWA2_CLASSES["siamese+cat"], AWA2_CLASSES["lion"]]
    hierarchy = unseen.Hierarchy.imagenet().subgraph(ids)
    network = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(3, 2))
    network = unseen.from_module(network, [AWA2_CLASSES["siamese+cat"], AWA2_CLASSES["lion"]])
    bundle = unseen.train(hierarchy, network, "structural", "glove").bundle
    rows = {"blue+whale": (-1, -1, 1, 0), "horse": (1, -1, -1, 0), "giraffe": (1, 1, -2, 0)}
    for name, row in rows.items():
        bundle.solution.classifiers[hierarchy.index(AWA2_CLASSES[name])] = row
    return unseen.load(bundle, network)


@pytest.mark.parametrize("inside", [True, False])
def test_folders_by_name_are_evaluated(awa2, model, inside, tmp_path, monkeypatch):
    monkeypatch.setenv("UNSEEN_CACHE", str(tmp_path))
    candidates = [AWA2_CLASSES[name] for name in COLOURS]
    folder = awa2 / "JPEGImages" if inside else awa2
    result = model.evaluate(folder, candidates, workers=0)
    assert (result.classes, result.images, result.skipped_classes) == (3, 6, 1)  # no photo of the training class
    assert result.class_["hit@1"] == 100
    assert {row["id"] for row in result.per_class} == set(candidates)


def test_a_few_of_its_names_do_not_make_a_folder_awa2():
    """A user's own folders of a mouse and a mole may be of a computer and of the shore."""
    names = ["mouse", "mole", "bat", "ox", "pig"]
    ids = {name: AWA2_CLASSES[name] for name in names}
    hierarchy = unseen.Hierarchy.from_edges([(id, "animal") for id in ids.values()], dict.fromkeys(ids.values(), "pet"))
    for some in (names[:2], [*names, "keyboard"]):
        assert match_folders(some, hierarchy, set(ids.values())) == {}
    assert match_folders(names, hierarchy, set(ids.values())) == ids


def test_the_split_is_the_authors(authors_lists):
    split = json.loads((authors_lists / "awa2-split.json").read_text())
    assert paper_list("awa2-test") == split["test"] == list(AWA2_TEST.values())
    assert paper_list("awa2-train") == split["train"] == list(AWA2_TRAIN.values())
    assert len(AWA2_CLASSES) == 50


def test_another_folder_is_refused(tmp_path):
    (tmp_path / "n02064816").mkdir()
    with pytest.raises(UnseenError, match=r"is not AWA2 as it is distributed.*JPEGImages/blue\+whale"):
        find_awa2(tmp_path)


def test_attributes(awa2, model, tmp_path):
    names = list(AWA2_CLASSES)
    (tmp_path / "classes.txt").write_text("".join(f"{i + 1:8}\t{name}\n" for i, name in enumerate(names)))
    matrix = np.random.default_rng(0).uniform(0, 100, (50, 85)).round(2)
    matrix[0, 3] = -1  # not asked
    np.savetxt(tmp_path / "predicate-matrix-continuous.txt", matrix, "%.2f")
    attributes, hierarchy = Attributes(tmp_path), model.bundle.hierarchy
    encoded = attributes.encode(hierarchy)
    assert encoded.shape == (len(hierarchy), 85) and attributes.dim == 85
    horse = encoded[hierarchy.index(AWA2_CLASSES["horse"])]
    assert np.allclose(horse, np.maximum(matrix[names.index("horse")], 0), atol=1e-4)
    assert (encoded >= 0).all() and (encoded.any(axis=1).sum()) == 5  # the rest of the hierarchy has none
    (tmp_path / "classes.txt").write_text("1 horse\n")
    with pytest.raises(UnseenError, match=r"names 1 classes, .* has 50 rows"):
        Attributes(tmp_path)
