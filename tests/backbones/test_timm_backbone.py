"""timm's networks: real ones with made-up weights, since the hub may be out of reach."""

from __future__ import annotations

import importlib

import pytest
import torch
from safetensors.torch import save_file

from unseen.assets import imagenet_1k
from unseen.backbones import PhotoTransform, load_backbone
from unseen.backbones.timm_backbone import transform_of
from unseen.errors import UnseenError


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
    backbone = load_backbone(f"timm/{name}", weights=path)
    assert backbone.name == f"timm/{name}" and backbone.class_ids == imagenet_1k()
    size = backbone.transform.size
    batch = torch.randn(2, 3, size, size)
    with torch.no_grad():
        expected = theirs.forward_head(theirs.forward_features(batch), pre_logits=True)
        assert torch.allclose(backbone.features(batch), expected, atol=1e-5)
        assert torch.allclose(backbone(batch), theirs(batch), atol=1e-5)
    assert backbone.classifiers().shape == (1000, theirs.num_features + 1) or "mobilenet" in name


def test_own_classes_with_own_weights(timm, tmp_path):
    theirs = timm.create_model("resnet18", pretrained=False, num_classes=3)
    torch.save({"state_dict": theirs.state_dict()}, tmp_path / "own.pth")
    backbone = load_backbone("timm/resnet18.a1_in1k", ["a", "b", "c"], tmp_path / "own.pth")
    assert backbone.classifiers().shape == (3, 513)
    with pytest.raises(UnseenError, match="another shape"):
        load_backbone("timm/resnet18.a1_in1k", weights=tmp_path / "own.pth")


def test_a_network_of_other_classes_needs_their_ids(timm, monkeypatch):
    small = timm.create_model("resnet18", pretrained=False, num_classes=11)
    headless = timm.create_model("resnet18", pretrained=False, num_classes=0)
    monkeypatch.setattr(timm, "create_model", lambda *_, **__: small)
    with pytest.raises(UnseenError, match=r"has 11 classes.*classes="):
        load_backbone("timm/resnet18")
    with pytest.raises(UnseenError, match="11 outputs, but 2 class ids"):
        load_backbone("timm/resnet18", classes=["a", "b"])
    assert len(load_backbone("timm/resnet18", classes=list("abcdefghijk")).class_ids) == 11
    monkeypatch.setattr(timm, "create_model", lambda *_, **__: headless)
    with pytest.raises(UnseenError, match="no classifier"):
        load_backbone("timm/resnet18")


def test_the_transform_is_timms(timm):
    config = timm.get_pretrained_cfg("resnet50.a1_in1k").to_dict()
    mean, std = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
    assert transform_of(config) == PhotoTransform(224, mean, std, "bicubic", resize=235)
    lite = timm.get_pretrained_cfg("tf_efficientnet_lite0.in1k").to_dict()
    ours = load_backbone("efficientnet-lite0").transform
    assert (transform_of(lite).size, transform_of(lite).resize) == (ours.size, ours.resize)
    for change, reason in (({"input_size": (1, 28, 28)}, "three channels"), ({"crop_mode": "border"}, "crop mode")):
        with pytest.raises(UnseenError, match=reason):
            transform_of({**lite, **change})


def test_no_connection_says_how_to_give_the_weights(timm, offline, monkeypatch, tmp_path):
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(
        UnseenError, match=r"weights='model.safetensors', from https://huggingface.co/timm/resnet18.a1_in1k"
    ):
        load_backbone("timm/resnet18.a1_in1k")


def test_wrong_names_are_told(timm):
    with pytest.raises(UnseenError, match=r"has no network 'resnet51'. Similar names: .*resnet50"):
        load_backbone("timm/resnet51")
    with pytest.raises(UnseenError, match="tag"):
        load_backbone("timm/resnet18.no_such_tag")


def test_without_timm_the_extra_is_named(monkeypatch):
    real = importlib.import_module

    def without_timm(name, *rest):
        if name == "timm":
            raise ImportError("No module named 'timm'", name="timm")
        return real(name, *rest)

    monkeypatch.setattr("unseen.backbones.hub.import_module", without_timm)
    with pytest.raises(UnseenError, match=r"pip install 'unseen\[timm\]'"):
        load_backbone("timm/resnet18")
