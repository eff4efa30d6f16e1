"""timm's networks: real ones with made-up weights, since the published ones may be out of reach."""

from __future__ import annotations

import importlib
import re

import pytest
import torch
from safetensors.torch import save_file

from unseen.data import imagenet_1k
from unseen.networks.loading import load_network
from unseen.networks.model_zoos import timm_transform
from unseen.photos.transforms import PhotoTransform
from unseen.util.errors import UnseenError
from unseen.util.names import how_to_install


@pytest.fixture(scope="module")
def timm():
    return pytest.importorskip("timm")


@pytest.fixture
def offline(monkeypatch):
    """As on a machine without a connection, at once and not after minutes of trying."""
    monkeypatch.setattr(pytest.importorskip("huggingface_hub.constants"), "HF_HUB_OFFLINE", True)


@pytest.mark.parametrize(
    "name", ["resnet18.a1_in1k", "mobilenetv3_small_050.lamb_in1k", "vit_tiny_patch16_224.augreg_in21k_ft_in1k"]
)
@pytest.mark.parametrize("kind", ["safetensors", "pth"])
def test_a_network_with_weights_from_a_file(timm, tmp_path, name, kind):
    theirs = timm.create_model(name, pretrained=False).eval()
    path = tmp_path / f"weights.{kind}"
    save_file(theirs.state_dict(), path) if kind == "safetensors" else torch.save(theirs.state_dict(), path)
    network = load_network(f"timm/{name}", weights=path)
    assert network.name == f"timm/{name}" and network.class_ids == imagenet_1k()
    size = network.transform.size
    batch = torch.randn(2, 3, size, size)
    with torch.no_grad():
        expected = theirs.forward_head(theirs.forward_features(batch), pre_logits=True)
        assert torch.allclose(network.features(batch), expected, atol=1e-5)
        assert torch.allclose(network(batch), theirs(batch), atol=1e-5)
    assert network.classifiers().shape == (1000, theirs.num_features + 1) or "mobilenet" in name


def test_a_network_of_other_classes_needs_their_ids(timm, monkeypatch):
    small = timm.create_model("resnet18", pretrained=False, num_classes=11)
    headless = timm.create_model("resnet18", pretrained=False, num_classes=0)
    monkeypatch.setattr(timm, "create_model", lambda *_, **__: small)
    with pytest.raises(UnseenError, match="give the ids of its classes, in the order of its 11 outputs"):
        load_network("timm/resnet18")
    with pytest.raises(UnseenError, match="11 outputs, but 2 class ids"):
        load_network("timm/resnet18", classes=["a", "b"])
    assert len(load_network("timm/resnet18", classes=list("abcdefghijk")).class_ids) == 11
    monkeypatch.setattr(timm, "create_model", lambda *_, **__: headless)
    with pytest.raises(UnseenError, match="no classifier"):
        load_network("timm/resnet18")


def test_the_transform_is_timms(timm):
    config = timm.get_pretrained_cfg("resnet50.a1_in1k").to_dict()
    mean, std = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
    assert timm_transform(config) == PhotoTransform(224, mean, std, "bicubic", resize=235)
    lite = timm.get_pretrained_cfg("tf_efficientnet_lite0.in1k").to_dict()
    ours = load_network("efficientnet-lite0").transform
    assert (timm_transform(lite).size, timm_transform(lite).resize) == (ours.size, ours.resize)
    for change, reason in (({"input_size": (1, 28, 28)}, "three channels"), ({"crop_mode": "border"}, "crop mode")):
        with pytest.raises(UnseenError, match=reason):
            timm_transform({**lite, **change})


def test_no_connection_says_how_to_give_the_weights(timm, offline, monkeypatch, tmp_path):
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(UnseenError, match=r"from https://huggingface.co/timm/resnet18.a1_in1k, and give it"):
        load_network("timm/resnet18.a1_in1k")


def test_wrong_names_of_timm_are_refused(timm):
    with pytest.raises(UnseenError, match=r"has no classifier 'resnet51'. Similar names: .*resnet50"):
        load_network("timm/resnet51")
    with pytest.raises(UnseenError, match="tag"):
        load_network("timm/resnet18.no_such_tag")


@pytest.mark.parametrize(
    ("name", "module", "extra"),
    [
        ("timm/resnet18", "timm", "timm"),
        ("hf:somewhere", "transformers", "hf"),
    ],
)
def test_a_missing_package_is_named_with_its_extra(name, module, extra, monkeypatch):
    real = importlib.import_module

    def without(wanted, *rest):
        if wanted.split(".")[0] == module:
            raise ImportError(f"No module named {module!r}", name=module)
        return real(wanted, *rest)

    monkeypatch.setattr("unseen.networks.model_zoos.import_module", without)
    with pytest.raises(UnseenError, match=rf"needs {module}.*{re.escape(how_to_install(extra))}"):
        load_network(name, ["a"])
