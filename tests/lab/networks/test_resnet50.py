"""The paper's network: its shape with random weights, its conversion, and, where the weights are here, real photos."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from unseen.data import find_asset
from unseen.networks.base import Network
from unseen.networks.loading import load_network
from unseen.networks.translate import for_photos
from unseen.photos import list_photos
from unseen.util.errors import UnseenError
from unseen_lab.networks.resnet50 import FILE, ResNet50

TOOLS = Path(__file__).resolve().parents[3] / "tools"


@pytest.fixture(scope="module")
def random_network() -> ResNet50:
    """With statistics that are not 0 and 1, or a batch-norm that is folded wrongly would not show."""
    generator = torch.Generator().manual_seed(0)
    network = ResNet50(7).eval()
    for name, value in network.state_dict().items():
        if name.endswith("running_var"):
            value.uniform_(0.5, 1.5, generator=generator)
        elif name.endswith("running_mean"):
            value.normal_(0, 0.1, generator=generator)
    return network


def batch_of_noise(size: int = 64, count: int = 2) -> torch.Tensor:
    return torch.randn(count, 3, size, size, generator=torch.Generator().manual_seed(0))


def test_shapes_and_protocol(random_network):
    batch = batch_of_noise(96)
    with torch.no_grad():
        maps = random_network.forward_features(batch)
        features = random_network.forward_head(maps, pre_logits=True)
        logits = random_network(batch)
    assert maps.shape == (2, 2048, 3, 3) and features.shape == (2, 2048)
    assert torch.allclose(random_network.get_classifier()(features), logits)
    assert sum(weight.numel() for weight in ResNet50(1000).parameters()) == 25_557_032  # as everyone counts it


@pytest.mark.slow
def test_onnx_runtime_gives_the_same_features(random_network):
    own_weights = load_network("resnet50", list("abcdefg"), random_network.state_dict())
    batch = batch_of_noise(224)
    with torch.no_grad():
        slow = own_weights.forward_pre_logits(batch).numpy()
    fast = for_photos(own_weights).features_of(batch.numpy())
    np.testing.assert_allclose(fast, slow, rtol=1e-3, atol=1e-3 * np.abs(slow).max())
    assert own_weights.class_ids == tuple("abcdefg") and own_weights.classifiers().shape == (7, 2049)


@pytest.mark.slow
def test_names_are_timms(random_network):
    timm = pytest.importorskip("timm")
    theirs = timm.create_model("resnet50", pretrained=False, num_classes=7).state_dict()
    assert {name: value.shape for name, value in theirs.items()} == {
        name: value.shape for name, value in random_network.state_dict().items()
    }


def test_missing_weights_name_the_one_command(monkeypatch, tmp_path):
    monkeypatch.setenv("UNSEEN_ASSETS", str(tmp_path))
    monkeypatch.setenv("UNSEEN_CACHE", str(tmp_path / "cache"))
    with pytest.raises(UnseenError, match=r"run: python tools/convert_resnet50\.py") as caught:
        load_network("resnet50")
    assert str(tmp_path / "cache" / "assets") in str(caught.value)
    assert (TOOLS / "convert_resnet50.py").exists()


def published(network: ResNet50, convert) -> dict[str, np.ndarray]:
    """Random arrays under Keras's names and in its layout, in the shapes of the network."""
    random = np.random.default_rng(0)
    state = network.state_dict()
    names = [
        "conv1",
        *(
            f"res{stage}{'abcdef'[block]}_branch{branch}"
            for stage, count in zip(range(2, 6), (3, 4, 6, 3), strict=True)
            for block in range(count)
            for branch in ("2a", "2b", "2c", *(["1"] if block == 0 else []))
        ),
    ]
    arrays = {"fc1000/kernel": random.normal(size=(2048, 7)), "fc1000/bias": random.normal(size=7)}
    for name in names:
        out, into, height, width = state[f"{convert.layer_name(name)[0]}.weight"].shape
        norm = "bn_conv1" if name == "conv1" else name.replace("res", "bn", 1)
        arrays[f"{name}/kernel"] = random.normal(size=(height, width, into, out))
        for array in (f"{name}/bias", *(f"{norm}/{statistic}" for statistic in convert.NORM)):
            arrays[array] = random.uniform(0.5, 1.5, size=out)
    return {name: array.astype(np.float32) for name, array in arrays.items()}


@pytest.mark.slow
def test_the_converter_fills_every_weight_and_keeps_the_function(random_network, monkeypatch):
    monkeypatch.syspath_prepend(str(TOOLS))
    import convert_resnet50 as convert

    arrays = published(random_network, convert)
    state = {name: torch.from_numpy(np.array(array, order="C")) for name, array in convert.convert(arrays).items()}
    network = ResNet50(7).eval()
    expected = {name for name in network.state_dict() if not name.endswith("num_batches_tracked")}
    assert state.keys() == expected
    network.load_state_dict(state, strict=False)
    photos = batch_of_noise(32)
    kernel = torch.from_numpy(arrays["conv1/kernel"]).permute(3, 2, 0, 1)
    scale, shift, mean, variance = (torch.from_numpy(arrays[f"bn_conv1/{name}"]) for name in convert.NORM)
    theirs = F.conv2d(photos.flip(1), kernel, torch.from_numpy(arrays["conv1/bias"]), stride=2, padding=3)  # BGR
    theirs = F.batch_norm(theirs, mean, variance, scale, shift, eps=convert.EPSILON)
    with torch.no_grad():
        ours = network.bn1(network.conv1(photos))
    assert torch.allclose(ours, theirs, atol=1e-3)


@pytest.fixture(scope="module")
def resnet50() -> Network:
    if find_asset(FILE) is None:
        pytest.skip(f"{FILE} is not in the folder UNSEEN_ASSETS: tools/convert_resnet50.py makes it")
    return load_network("resnet50")


@pytest.mark.slow
def test_accuracy_on_photos_of_seen_classes(resnet50, shared_photos):
    """Weights, colours, class order and transform are all as published, or this falls."""
    listed = list(list_photos(shared_photos / "seen-val"))[::10]
    features = torch.cat([resnet50.features(resnet50.transform.open(photo.path)[None]) for photo in listed])
    weights = torch.from_numpy(resnet50.classifiers())
    best = (features @ weights[:, :-1].T + weights[:, -1]).argmax(1).tolist()
    right = sum(resnet50.class_ids[i] == photo.class_id for i, photo in zip(best, listed, strict=True))
    assert right / len(listed) >= 0.8
