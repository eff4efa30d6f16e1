"""Classifiers of torchvision (an extra): `torchvision/resnet50`, with published weights or those of a file."""

from __future__ import annotations

import difflib
import urllib.error
from collections.abc import Sequence
from typing import Any

from unseen.assets import imagenet_1k
from unseen.backbones.base import Backbone, Weights, check_class_ids, load_strictly
from unseen.backbones.custom import HookedBackbone, find_classifier
from unseen.backbones.hub import import_extra
from unseen.errors import UnseenError
from unseen.photos.transforms import PhotoTransform


def load_torchvision(name: str, classes: Sequence[str] | None, weights: Weights | None, layer: str | None) -> Backbone:
    """`name` without "torchvision/". Without weights of a file those that torchvision recommends are downloaded."""
    models = import_extra("torchvision.models", "torchvision", f"torchvision/{name}")
    # Detectors and the like have names in folders: "detection.ssd300_vgg16" is not among these.
    known = models.list_models(module=models)
    if name not in known:
        near = difflib.get_close_matches(name, known, 3) or known[:3]
        raise UnseenError(f"torchvision has no classifier {name!r}. Similar names: {', '.join(near)}.")
    published = models.get_model_weights(name).DEFAULT
    if classes is None:
        classes = imagenet_1k()
    if weights is None:
        check_class_ids(classes, len(imagenet_1k()))
    # The published weights of these two were trained on pixels of another scale, which they make themselves.
    extra = {"transform_input": True} if weights is None and name in ("googlenet", "inception_v3") else {}
    module = models.get_model(name, weights=None, num_classes=len(classes), **extra)
    state = _download(name, published) if weights is None else weights
    load_strictly(module, state, f"The weights given for torchvision/{name}")
    transform = transform_of(published.transforms())
    layer = layer or find_classifier(module, transform.size, len(classes))
    return HookedBackbone(module, layer, classes, transform, f"torchvision/{name}")


def transform_of(preset: Any) -> PhotoTransform:
    """What torchvision publishes with a set of weights, as our transform."""
    return PhotoTransform(
        preset.crop_size[0],
        mean=tuple(preset.mean),
        std=tuple(preset.std),
        interpolation=preset.interpolation.value,
        resize=max(preset.resize_size[0], preset.crop_size[0]),
    )


def _download(name: str, published: Any) -> Weights:
    try:
        return published.get_state_dict(progress=False, check_hash=True, weights_only=True)
    except (urllib.error.URLError, OSError) as error:  # no connection, and nothing in the cache
        raise UnseenError(
            f"The weights of torchvision/{name} could not be downloaded ({error}). Without a connection, give the "
            f"file: weights='model.pth', from {published.url}.",
            "weights='model.pth'",
        ) from None
