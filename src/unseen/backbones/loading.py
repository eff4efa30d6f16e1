"""Networks: photos -> features, and the classifiers of the seen classes.

load_backbone("efficientnet-lite0")                              built in; -lite1 and -lite2 with the extra `lite`
load_backbone("resnet50")                                        the paper's; its weights are converted once
load_backbone("timm/resnet50.a1_in1k")                           any classifier of timm, with the extra `timm`
load_backbone("torchvision/resnet50")                            any classifier of torchvision, with its extra
load_backbone("hf:FOLDER")                                       any image classifier of transformers, extra `hf`
load_backbone("onnx:FILE", classes=ids)                          an ONNX model that ends in a linear layer, extra `onnx`
load_backbone("linear:FILE")                                     a linear classifier over features that you compute
load_backbone("my_package.nets:build", classes=ids)              whatever your own function returns
from_module(network, class_ids)                                  a network in memory
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from pathlib import Path

from unseen.assets import imagenet_1k
from unseen.backbones.base import Backbone, Weights, check_class_ids
from unseen.backbones.custom import from_module, import_network, read_weights
from unseen.backbones.efficientnet_lite import VARIANTS, EfficientNetLite, published_weights, transform_of
from unseen.backbones.hugging_face import load_hugging_face
from unseen.backbones.linear import load_linear
from unseen.backbones.onnx_backbone import load_onnx
from unseen.backbones.resnet50 import RESNET50, ResNet50, resnet50_transform, resnet50_weights
from unseen.backbones.timm_backbone import load_timm
from unseen.backbones.torchvision_backbone import load_torchvision
from unseen.errors import UnseenError
from unseen.photos.transforms import PhotoTransform

BUILT_IN = (*VARIANTS, RESNET50)
# How the names of networks begin that are neither built in nor the user's own code.
FAMILIES = ("timm/", "torchvision/", "hf:", "onnx:", "linear:", "linear@")


def load_backbone(
    name: str = "efficientnet-lite0",
    classes: Sequence[str] | None = None,
    weights: str | Path | Weights | None = None,
    layer: str | None = None,
    transform: PhotoTransform | None = None,
) -> Backbone:
    """A network by name, with its classes.

    Args:
        name: Built in: efficientnet-lite0 (-lite1 and -lite2 with the extra `lite`), resnet50 (its weights come by
            `tools/convert_resnet50.py`). With the extra of their name: timm/MODEL, torchvision/MODEL, hf:FOLDER (or
            hf:OWNER/MODEL), onnx:FILE. A linear layer over features: linear:FILE, or linear:FILE@NETWORK over those of
            a network. Your own: package.module:callable.
        classes: The ids of its outputs, in their order; the networks trained on ImageNet-1k know theirs.
        weights: A file (.safetensors, or a torch state dict) or a state dict, instead of the published weights.
        layer: The last linear layer of your own network, where it cannot be found.
        transform: How its photos are prepared, where the network does not say.

    >>> import unseen
    >>> backbone = unseen.load_backbone("efficientnet-lite0")
    >>> backbone.num_features, len(backbone.class_ids), backbone.transform.size
    (1280, 1000, 224)
    """
    state = read_weights(weights) if isinstance(weights, (str, Path)) else weights
    if name in BUILT_IN:
        backbone = _load_built_in(name, classes, state)
    elif name.startswith("timm/"):
        backbone = load_timm(name.removeprefix("timm/"), classes, state, layer)
    elif name.startswith("torchvision/"):
        backbone = load_torchvision(name.removeprefix("torchvision/"), classes, state, layer)
    elif name.startswith("hf:"):
        backbone = load_hugging_face(name.removeprefix("hf:"), classes, state, layer, transform)
    elif name.startswith("onnx:"):
        backbone = load_onnx(name.removeprefix("onnx:"), classes, layer, transform)
    elif name == "linear" or name.startswith(("linear:", "linear@")):
        place, _, below = name.partition("@")
        if is_own(below):  # a bundle could name it, and nobody would have been asked
            raise UnseenError(f"{name}: build {below} yourself and use from_linear(weight, bias, class_ids, network).")
        network = load_backbone(below, layer=layer, transform=transform) if below else None
        backbone = load_linear(place.partition(":")[2], classes, state, network)
    elif is_own(name):
        backbone = _load_own(name, classes, state, layer, transform)
    else:
        raise UnseenError(_unknown(name))
    if transform is not None:
        backbone.transform, backbone.transform_assumed = transform, False
    if isinstance(weights, (str, Path)):
        backbone.weights_file = Path(weights)  # so that a bundle finds it again
    return backbone


def is_own(name: str) -> bool:
    """Whether a name is package.module:callable, which `load_backbone` imports and calls."""
    return ":" in name and name not in BUILT_IN and not name.startswith(FAMILIES)


def _load_built_in(name: str, classes: Sequence[str] | None, weights: Weights | None) -> Backbone:
    of_the_paper = name == RESNET50
    if weights is None:
        _check_order(name, imagenet_1k(), classes)
        weights = resnet50_weights() if of_the_paper else published_weights(name)
    ids = imagenet_1k() if classes is None else classes
    network = ResNet50(len(ids)) if of_the_paper else EfficientNetLite(VARIANTS[name], len(ids))
    backbone = Backbone(network, ids, resnet50_transform() if of_the_paper else transform_of(name), name)
    backbone.load_weights(weights, f"The weights given for {name}")
    return backbone


def _load_own(name, classes, weights, layer, transform) -> Backbone:
    made = import_network(name)
    if isinstance(made, Backbone):
        _check_order(name, made.class_ids, classes)
        made.name = name  # so that a bundle finds it again
        backbone = made
    elif classes is None:
        raise UnseenError(
            f"{name}: say which classes it knows, in the order of its outputs, with classes=...", "classes=..."
        )
    else:
        backbone = from_module(made, classes, transform, layer, name)
    if weights is not None:
        backbone.load_weights(weights, f"The weights given for {name}")
    return backbone


def _check_order(name: str, own: Sequence[str], given: Sequence[str] | None) -> None:
    """Class order is part of a network: ids that differ from its own, or stand in another order, are refused."""
    if given is None or tuple(given) == tuple(own):
        return
    given = check_class_ids(given, len(own))
    place = next(i for i, pair in enumerate(zip(own, given, strict=True)) if pair[0] != pair[1])
    what = "are in another order than" if set(own) == set(given) else "are not"
    raise UnseenError(
        f"{name}: the class ids given {what} the network's: output {place} is {own[place]}, not {given[place]}. "
        "Omit classes, or give the weights of a network trained on these."
    )


def _unknown(name: str) -> str:
    if name.startswith("module/"):
        return f"{name} was a network in memory: build it again and give it itself, as from_module(network, class_ids)."
    if Path(name).suffix in (".pt", ".pth", ".bin", ".safetensors"):
        return f"{name} is a file of weights: give it as weights=, and name the network it belongs to."
    prefix = {".onnx": "onnx", ".npz": "linear"}.get(Path(name).suffix)
    if prefix is not None:
        return f"{name} is a file: did you mean {prefix}:{name}?"
    if (Path(name) / "config.json").is_file():
        return f"{name} is a folder: did you mean hf:{name}?"
    near = difflib.get_close_matches(name, BUILT_IN, 1)
    meant = f" Did you mean {near[0]}?" if near else ""
    return (
        f"There is no network {name!r}.{meant} Built in: {', '.join(BUILT_IN)}. "
        f"Of timm: timm/{name}. Others: torchvision/NAME, hf:FOLDER, onnx:FILE, linear:FILE. "
        "Your own: package.module:callable."
    )
