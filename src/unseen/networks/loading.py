"""Networks by name."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from pathlib import Path

from unseen.data import imagenet_1k
from unseen.networks import efficientnet_lite
from unseen.networks.base import Config, Network, Options, Weights, check_class_ids
from unseen.networks.custom import from_module, import_network, read_weights
from unseen.networks.linear import load_linear
from unseen.networks.model_zoos import load_hugging_face, load_timm
from unseen.networks.onnx_network import load_onnx
from unseen.photos.transforms import PhotoTransform
from unseen.util.errors import UnseenError
from unseen.util.trust import import_object

BUILT_IN: dict[str, Config | str] = {**efficientnet_lite.CONFIGS, "resnet50": "unseen_lab.networks.resnet50:CONFIG"}
FAMILIES = {"timm/": load_timm, "hf:": load_hugging_face, "onnx:": load_onnx}
LINEAR = ("linear:", "linear@")


def load_network(
    name: str = "efficientnet-lite0",
    classes: Sequence[str] | None = None,
    weights: str | Path | Weights | None = None,
    layer: str | None = None,
    transform: PhotoTransform | None = None,
) -> Network:
    """A network by name, with its classes.

    Args:
        name: Built in: efficientnet-lite0 (-lite1 and -lite2 with the extra `lite`), resnet50 (its weights come by
            `tools/convert_resnet50.py`). With the extra of their name: timm/MODEL, hf:FOLDER (or
            hf:OWNER/MODEL), onnx:FILE. A linear layer over features: linear:FILE, or linear:FILE@NETWORK over those of
            a network. Your own: package.module:callable.
        classes: The ids of its outputs, in their order; networks trained on ImageNet-1k have theirs.
        weights: A file (.safetensors, or a torch state dict) or a state dict, instead of the published weights.
        layer: The last linear layer of your own network, where it cannot be found.
        transform: How its photos are prepared, where the network does not say.

    >>> import unseen
    >>> network = unseen.load_network("efficientnet-lite0")
    >>> network.num_features, len(network.class_ids), network.transform.size
    (1280, 1000, 224)
    """
    state = read_weights(weights) if isinstance(weights, (str, Path)) else weights
    options = Options(classes, state, layer, transform)
    prefix = next((prefix for prefix in FAMILIES if name.startswith(prefix)), None)
    if name in BUILT_IN:
        network = _load_built_in(name, options)
    elif prefix is not None:
        network = FAMILIES[prefix](name.removeprefix(prefix), options)
    elif name == "linear" or name.startswith(LINEAR):
        network = _load_linear(name, options)
    elif is_own(name):
        network = _load_own(name, options)
    else:
        raise UnseenError(_unknown(name))
    if transform is not None:
        network.transform, network.transform_assumed = transform, False
    if isinstance(weights, (str, Path)):
        network.weights_file = Path(weights)  # so that a bundle finds it again
    return network


def is_built_in(name: str) -> bool:
    """Whether a network, or the one below its linear layer, comes with the package, so that its name leads nowhere."""
    return name == "linear" or name.removeprefix("linear@") in BUILT_IN


def is_own(name: str) -> bool:
    """Whether a name is package.module:callable, which `load_network` imports and calls."""
    return ":" in name and not name.startswith((*FAMILIES, *LINEAR))


def _load_built_in(name: str, options: Options) -> Network:
    built_in, weights = BUILT_IN[name], options.weights
    config = import_object(built_in) if isinstance(built_in, str) else built_in  # of the laboratory
    if weights is None:
        _check_order(name, imagenet_1k(), options.classes)
        weights = config.weights()
    ids = imagenet_1k() if options.classes is None else options.classes
    network = Network(config.build(len(ids)), ids, config.transform, name)
    network.load_weights(weights, f"The weights given for {name}")
    return network


def _load_linear(name: str, options: Options) -> Network:
    place, _, below = name.partition("@")
    if is_own(below):  # a bundle could name it, and nobody would have agreed to run it
        raise UnseenError(f"{name}: build {below} yourself and use from_linear(weight, bias, class_ids, network).")
    network = load_network(below, layer=options.layer, transform=options.transform) if below else None
    return load_linear(place.partition(":")[2], options, network)


def _load_own(name: str, options: Options) -> Network:
    network = import_network(name)
    if isinstance(network, Network):
        _check_order(name, network.class_ids, options.classes)
        network.name = name  # so that a bundle finds it again
    elif options.classes is None:
        raise UnseenError(f"{name}: give the ids of its classes, in the order of its outputs.")
    else:
        network = from_module(network, options.classes, options.transform, options.layer, name)
    if options.weights is not None:
        network.load_weights(options.weights, f"The weights given for {name}")
    return network


def _check_order(name: str, expected: Sequence[str], given: Sequence[str] | None) -> None:
    """Class order is part of a network: refuse ids that differ from its own, or come in another order."""
    if given is None or tuple(given) == tuple(expected):
        return
    given = check_class_ids(given, len(expected))
    output = next(i for i, pair in enumerate(zip(expected, given, strict=True)) if pair[0] != pair[1])
    problem = "are in another order than" if set(expected) == set(given) else "are not"
    raise UnseenError(
        f"{name}: the class ids given {problem} the network's: output {output} is {expected[output]}, not "
        f"{given[output]}. Omit the classes, or give the weights of a network trained on these."
    )


def _unknown(name: str) -> str:
    if name.startswith("module/"):
        return f"{name} was a network in memory: build it again and give it itself, as from_module(network, class_ids)."
    suffix = Path(name).suffix
    if suffix in (".pt", ".pth", ".bin", ".safetensors"):
        return f"{name} is a file of weights: name the network it belongs to, and give the file as its weights."
    family = "hf" if (Path(name) / "config.json").is_file() else {".onnx": "onnx", ".npz": "linear"}.get(suffix)
    if family is not None:
        return f"{name} is a file or folder: did you mean {family}:{name}?"
    near = difflib.get_close_matches(name, BUILT_IN, 1)
    meant = f" Did you mean {near[0]}?" if near else ""
    return (
        f"There is no network {name!r}.{meant} Built in: {', '.join(BUILT_IN)}. Of timm: timm/{name}. "
        "Others: hf:FOLDER, onnx:FILE, linear:FILE. Your own: package.module:callable."
    )
