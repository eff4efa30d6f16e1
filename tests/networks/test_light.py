"""A photo labelled without torch: the same answer, from a translation of the network that may be missing or damaged."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

import unseen
from support.bundles import small_photo
from unseen.networks.light import find_light, keep_light
from unseen.util.files import cache_folder

ANIMALS = [("n02123045", "cat"), ("n02124075", "cat"), ("n02085620", "dog"), ("n02085782", "dog")]
ANIMALS += [("wildcat", "cat"), ("wolf", "dog"), ("cat", "animal"), ("dog", "animal")]

LABEL = """
import json, sys
import unseen
model = unseen.load(sys.argv[1])
answers = [model.classify(sys.argv[2]), *model.classify([sys.argv[2]] * 2, among=["wolf", "wildcat"])]
print(json.dumps(["torch" in sys.modules, [answer.to_dict() for answer in answers]]))
"""


@pytest.fixture(scope="module")
def network():
    return unseen.load_network()


@pytest.fixture(scope="module")
def saved(network, tmp_path_factory):
    """A bundle over the built-in network, and a photo."""
    folder = tmp_path_factory.mktemp("light")
    hierarchy = unseen.Hierarchy.from_edges(ANIMALS)
    settings = unseen.TrainSettings(skip_missing=True)
    model = unseen.train(hierarchy, network, "structural", "glove", settings, out=folder / "animals")
    photo = folder / "photo.png"
    small_photo(size=(300, 260)).save(photo)
    return model.bundle.path, photo


def label(bundle, photo) -> tuple[bool, list[dict]]:
    """What another process makes of the photo, and whether it imported torch."""
    done = subprocess.run([sys.executable, "-c", LABEL, bundle, photo], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return tuple(json.loads(done.stdout))


@pytest.mark.slow
def test_the_next_process_labels_photos_without_torch(saved, network):
    pytest.importorskip("onnxruntime")
    with_torch, expected = label(*saved)
    assert with_torch
    assert keep_light(network)
    with_torch, answers = label(*saved)
    assert not with_torch
    for ours, theirs in zip(answers, expected, strict=True):
        assert [one["id"] for one in ours["labels"]] == [one["id"] for one in theirs["labels"]]
        assert ours["verdict"]["id"] == theirs["verdict"]["id"]
        assert ours.get("none") == pytest.approx(theirs.get("none"), abs=1e-4)
        for one, other in zip(ours["labels"], theirs["labels"], strict=True):
            assert one["probability"] == pytest.approx(other["probability"], abs=1e-4)
    place = cache_folder() / "networks" / network.checksum
    content = bytearray(place.read_bytes())
    content[len(content) // 2] ^= 64  # a weight, which onnxruntime would compute with
    place.write_bytes(content)
    assert label(*saved) == (True, expected)
    assert keep_light(network)  # makes it again
    assert find_light(network.checksum, network.transform, network.num_features) is not None
    place.unlink()


def test_only_built_in_networks_are_translated():
    import torch

    layers = torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(3, 2)
    own = unseen.from_module(torch.nn.Sequential(*layers), ["dog", "cat"])
    assert not keep_light(own)
    assert find_light(own.checksum, own.transform, own.num_features) is None


def test_where_torch_is_imported_it_is_used(saved):
    model = unseen.load(saved[0])
    assert model._light is None
    assert model.classify(saved[1]).labels


def test_numpy_scores_as_torch_does(saved):
    model, random = unseen.load(saved[0]), np.random.default_rng(0)
    features = np.abs(random.normal(size=(3, 1280))).astype(np.float32)
    for one in (model, model.among(["wolf", "wildcat", "dog"])):
        with_torch, with_numpy = one.scorer(), one.scorer(light=True)
        np.testing.assert_allclose(with_numpy.scores(features), with_torch.scores(features), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(
            with_numpy.probabilities(features), with_torch.probabilities(features), rtol=1e-3, atol=1e-6
        )
