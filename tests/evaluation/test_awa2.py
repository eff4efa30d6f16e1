"""AWA2 as it is distributed: folders by English name, attributes by number."""

from __future__ import annotations

import json

import numpy as np
import pytest
from PIL import Image
from torch import nn

import unseen
from unseen.errors import UnseenError
from unseen.evaluation.awa2 import Attributes, by_id, find_awa2
from unseen.scoring.awa2_classes import CLASSES, TEST, TRAIN
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


class Store:
    def __init__(self, **photos: int):
        self.photos = {name.replace("_", "+"): count for name, count in photos.items()}

    def classes(self) -> dict[str, int]:
        return self.photos


def test_names_that_a_hierarchy_has_itself_are_its_own(model):
    own = unseen.Taxonomy.from_edges([("horse", "animal"), ("n02374451", "animal")])
    store = Store(horse=3, blue_whale=2)
    assert by_id(store, own) is store
    assert by_id(store, model.bundle.taxonomy).classes() == {"n02374451": 3, CLASSES["blue+whale"]: 2}


def test_a_few_of_its_names_do_not_make_a_folder_awa2():
    """A user's own folders of a mouse and a mole may be of a computer and of the shore."""
    taxonomy = unseen.Taxonomy.imagenet().subgraph([CLASSES[name] for name in ("mouse", "mole", "bat", "ox", "pig")])
    for store in (Store(mouse=2, mole=3), Store(mouse=1, mole=1, bat=1, ox=1, pig=1, keyboard=1)):
        assert by_id(store, taxonomy) is store
    whole = by_id(Store(mouse=1, mole=1, bat=1, ox=1, pig=1), taxonomy)
    assert CLASSES["mouse"] in whole.classes() and "mouse" not in whole.classes()


def test_photos_by_name_and_by_id_are_added_up(model):
    store = Store(horse=3, blue_whale=2, n02374451=4)
    assert by_id(store, model.bundle.taxonomy).classes() == {"n02374451": 7, CLASSES["blue+whale"]: 2}


def test_the_split_is_the_authors(authors_lists):
    split = json.loads((authors_lists / "awa2-split.json").read_text())
    assert paper_list("awa2-test") == split["test"] == list(TEST.values())
    assert paper_list("awa2-train") == split["train"] == list(TRAIN.values())
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
