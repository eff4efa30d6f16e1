"""torchvision's classifiers, with made-up weights: the published ones may be out of reach."""

from __future__ import annotations

import importlib
import urllib.error
import warnings

import pytest
import torch

from unseen.assets import imagenet_1k
from unseen.backbones import PhotoTransform, load_backbone
from unseen.errors import UnseenError


@pytest.fixture(scope="module")
def torchvision_models():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip("torchvision.models")


@pytest.mark.parametrize("name", ["resnet18", "mobilenet_v3_small", "squeezenet1_1"])
def test_own_weights_and_classes(torchvision_models, name, tmp_path):
    theirs = torchvision_models.get_model(name, weights=None, num_classes=3).eval()
    torch.save(theirs.state_dict(), tmp_path / "own.pth")
    if name.startswith("squeezenet"):
        with pytest.raises(UnseenError, match="1 x 1 convolution"):
            load_backbone(f"torchvision/{name}", ["a", "b", "c"], tmp_path / "own.pth")
        return
    backbone = load_backbone(f"torchvision/{name}", ["a", "b", "c"], tmp_path / "own.pth")
    batch = torch.randn(2, 3, 224, 224)
    with torch.no_grad():
        assert torch.allclose(backbone(batch), theirs(batch), atol=1e-5)
    mean, std = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
    assert backbone.transform == PhotoTransform(224, mean, std, "bilinear", resize=256)
    with pytest.raises(UnseenError, match="another shape"):
        load_backbone(f"torchvision/{name}", ["a", "b"], tmp_path / "own.pth")


def test_published_weights_know_imagenet(torchvision_models, monkeypatch):
    published = torchvision_models.get_model_weights("resnet18").DEFAULT
    state = torchvision_models.get_model("resnet18", weights=None).state_dict()
    asked = {}
    monkeypatch.setattr(type(published), "get_state_dict", lambda self, **options: asked.update(options) or state)
    assert load_backbone("torchvision/resnet18").class_ids == imagenet_1k()
    assert asked["weights_only"] is True
    with pytest.raises(UnseenError, match="1000 outputs, but 2 class ids"):
        load_backbone("torchvision/resnet18", ["a", "b"])


def test_no_connection_says_how_to_give_the_weights(torchvision_models, monkeypatch):
    def fail(self, **options):
        raise urllib.error.URLError("no route")

    monkeypatch.setattr(type(torchvision_models.get_model_weights("resnet18").DEFAULT), "get_state_dict", fail)
    with pytest.raises(UnseenError, match=r"no route.*weights='model.pth', from https://download.pytorch.org"):
        load_backbone("torchvision/resnet18")


def test_wrong_names_are_told(torchvision_models):
    with pytest.raises(UnseenError, match=r"no classifier 'resnet51'. Similar names: .*resnet50"):
        load_backbone("torchvision/resnet51")


def test_without_torchvision_the_extra_is_named(monkeypatch):
    real = importlib.import_module

    def without(name, *rest):
        if name.startswith("torchvision"):
            raise ImportError("No module named 'torchvision'", name="torchvision")
        return real(name, *rest)

    monkeypatch.setattr("unseen.backbones.hub.import_module", without)
    with pytest.raises(UnseenError, match=r"needs torchvision.*pip install 'unseen\[torchvision\]'"):
        load_backbone("torchvision/resnet18")
