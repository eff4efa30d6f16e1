"""Networks of timm (an extra): `timm/resnet50.a1_in1k`, with weights from its hub or from a local file."""

from __future__ import annotations

import difflib
import math
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import torch
from torch import nn

from unseen.assets import imagenet_1k
from unseen.backbones.base import Backbone, Weights, check_class_ids, load_strictly
from unseen.backbones.custom import HookedBackbone, find_classifier
from unseen.backbones.hub import impatient_hub, import_extra
from unseen.errors import UnseenError
from unseen.photos.transforms import PhotoTransform


def load_timm(name: str, classes: Sequence[str] | None, weights: Weights | None, layer: str | None) -> Backbone:
    """`name` without "timm/". `weights` are those of a file; without them they come from timm's hub or its cache."""
    module = _create(name, len(classes) if classes is not None and weights is not None else None, weights is None)
    if weights is not None:
        load_strictly(module, weights, f"The weights given for timm/{name}")
    config = module.pretrained_cfg
    tag = f".{config['tag']}" if config.get("tag") else ""
    full_name = f"timm/{config.get('architecture', name)}{tag}"
    outputs = getattr(module, "num_classes", 0)
    if not outputs:
        raise UnseenError(
            f"{full_name} has no classifier: choose a network trained to classify, such as timm/resnet50.a1_in1k."
        )
    if classes is None:
        if outputs != len(imagenet_1k()):
            raise UnseenError(
                f"{full_name} has {outputs} classes, not ImageNet's 1,000: give their ids, in its order, with classes=."
            )
        classes = imagenet_1k()
    check_class_ids(classes, outputs)
    transform = transform_of(config)
    # A quarter faster on a CPU for convolutional networks, with the same result.
    module.to(memory_format=torch.channels_last)
    layer = layer or _layer_of(module) or find_classifier(module, transform.size, outputs)
    return HookedBackbone(module, layer, classes, transform, full_name)


def transform_of(config: dict) -> PhotoTransform:
    """timm's `pretrained_cfg` as our transform, at the size of training, as timm's own examples have it."""
    channels, height, width = config["input_size"]
    if channels != 3 or height != width:
        raise UnseenError(
            f"Networks for square photos of three channels are supported, not for {channels} x {height} x {width}."
        )
    mode = config.get("crop_mode") or "center"
    if mode not in ("center", "squash"):
        raise UnseenError(f"timm's crop mode {mode!r} is not supported; 'center' and 'squash' are.")
    crop = config.get("crop_pct") or 0.875
    return PhotoTransform(
        height,
        mean=config["mean"],
        std=config["std"],
        interpolation=config.get("interpolation") or "bicubic",
        resize=math.floor(height / crop),
        squash=mode == "squash",
    )


def _layer_of(module: Any) -> str | None:
    """The name of what timm calls the classifier, if it is one linear layer."""
    head = module.get_classifier()
    return next(
        (name for name, child in module.named_modules() if child is head and isinstance(child, nn.Linear)), None
    )


def _create(name: str, outputs: int | None, pretrained: bool) -> Any:
    """timm's module, which has more than an nn.Module: `pretrained_cfg`, `get_classifier()`."""
    timm = import_extra("timm", "timm", f"timm/{name}")
    if not timm.is_model(name):
        near = difflib.get_close_matches(name, timm.list_models(), 3) or timm.list_models()[:3]
        raise UnseenError(f"timm {timm.__version__} has no network {name!r}. Similar names: {', '.join(near)}.")
    try:
        options: dict[str, Any] = {} if outputs is None else {"num_classes": outputs}
        with impatient_hub() if pretrained else nullcontext():
            return timm.create_model(name, pretrained=pretrained, **options)
    except RuntimeError as error:
        raise UnseenError(f"timm/{name}: {error}") from error
    except OSError as error:  # no connection, and nothing in the cache
        raise UnseenError(
            f"The weights of timm/{name} could not be downloaded ({error}). Without a connection, give the file: "
            f"weights='model.safetensors', from https://huggingface.co/timm/{name}.",
            "weights='model.safetensors'",
        ) from None
