"""AWA2 as it is distributed: folders by English name, attributes by number."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image
from torch import nn

import unseen
from unseen.errors import UnseenError
from unseen.evaluation.awa2 import CLASSES, TEST, TRAIN, Attributes, by_id, find_awa2
from unseen.scoring.candidates import paper_list

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
    ids = [*(CLASSES[name] for name in COLOURS), CLASSES["siamese+cat"], CLASSES["lion"]]
    taxonomy = unseen.Taxonomy.imagenet().subgraph(ids)
    network = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(3, 2))
    backbone = unseen.from_module(network, [CLASSES["siamese+cat"], CLASSES["lion"]])
    bundle = unseen.train("structural", taxonomy, "glove", backbone)
    rows = {"blue+whale": (-1, -1, 1, 0), "horse": (1, -1, -1, 0), "giraffe": (1, 1, -2, 0)}
    for name, row in rows.items():
        bundle.solution.classifiers[taxonomy.index(CLASSES[name])] = row
    return unseen.load(bundle, backbone)


@pytest.mark.parametrize("inside", [True, False])
def test_folders_by_name_are_evaluated(awa2, model, inside, tmp_path, monkeypatch):
    monkeypatch.setenv("UNSEEN_CACHE", str(tmp_path))
    candidates = [CLASSES[name] for name in COLOURS]
    folder = awa2 / "JPEGImages" if inside else awa2
    result = unseen.evaluate(model, folder, candidates, workers=0, show_progress=False)
    assert (result.classes, result.images, result.skipped_classes) == (3, 6, 1)  # no photo of the training class
    assert result.class_["hit@1"] == 100
    assert {row["id"] for row in result.per_class} == set(candidates)


def test_names_that_a_hierarchy_has_itself_are_its_own(model):
    own = unseen.Taxonomy.from_edges([("horse", "animal"), ("n02374451", "animal")])

    class Store:
        def classes(self):
            return {"horse": 3}

    store = Store()
    assert by_id(store, own) is store
    assert by_id(store, model.bundle.taxonomy).classes() == {"n02374451": 3}


def test_the_split_is_the_authors(authors_lists):
    assert list(TEST.values()) == paper_list("awa2-test")
    assert list(TRAIN.values()) == paper_list("awa2-train")
    assert len(CLASSES) == 50


def test_another_folder_is_refused(tmp_path):
    (tmp_path / "n02064816").mkdir()
    with pytest.raises(UnseenError, match=r"is not AWA2 as it is distributed.*JPEGImages/blue\+whale"):
        find_awa2(tmp_path)


def test_attributes(awa2, model, tmp_path):
    names = list(CLASSES)
    (tmp_path / "classes.txt").write_text("".join(f"{i + 1:8}\t{name}\n" for i, name in enumerate(names)))
    matrix = np.random.default_rng(0).uniform(0, 100, (50, 85)).round(2)
    matrix[0, 3] = -1  # not asked
    np.savetxt(tmp_path / "predicate-matrix-continuous.txt", matrix, "%.2f")
    attributes, taxonomy = Attributes(tmp_path), model.bundle.taxonomy
    encoded = attributes.encode(taxonomy)
    assert encoded.shape == (len(taxonomy), 85) and attributes.dim == 85
    horse = encoded[taxonomy.index(CLASSES["horse"])]
    assert np.allclose(horse, np.maximum(matrix[names.index("horse")], 0), atol=1e-4)
    assert (encoded >= 0).all() and (encoded.any(axis=1).sum()) == 5  # the rest of the hierarchy has none
    (tmp_path / "classes.txt").write_text("1 horse\n")
    with pytest.raises(UnseenError, match=r"names 1 classes, .* has 50 rows"):
        Attributes(tmp_path)
