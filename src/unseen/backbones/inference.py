"""A quicker way to the same features, for networks of convolutions with a batch-norm behind each."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval


def quick_features(network: nn.Module, photos_in_cache: int) -> Callable[[Tensor], Tensor]:
    """A function B x 3 x H x W -> B x D that computes the features two to four times as fast."""
    folded = _fold(network)
    return _in_parts(lambda x: folded.forward_head(folded.forward_features(x), pre_logits=True), photos_in_cache)


def quick_trunk(network: nn.Module, photos_in_cache: int) -> Callable[[Tensor], Tensor]:
    """A function B x 3 x H x W -> what the last stage sees, as fast."""
    return _in_parts(_fold(network).forward_trunk, photos_in_cache)


def _fold(network: nn.Module) -> Any:
    """A copy of the network with each batch-norm folded into its convolution."""
    folded: Any = copy.deepcopy(network).eval().requires_grad_(False)
    for module in list(folded.modules()):
        layers = list(module.named_children())
        for (conv_name, conv), (norm_name, norm) in itertools.pairwise(layers):
            if isinstance(conv, nn.Conv2d) and isinstance(norm, nn.BatchNorm2d):
                setattr(module, conv_name, fuse_conv_bn_eval(conv, norm))
                setattr(module, norm_name, nn.Identity())
    return folded.to(memory_format=torch.channels_last)


def _in_parts(compute: Callable[[Tensor], Tensor], photos_in_cache: int) -> Callable[[Tensor], Tensor]:
    """On a CPU, few photos at a time stay in its cache."""

    def in_parts(photos: Tensor) -> Tensor:
        photos = photos.contiguous(memory_format=torch.channels_last)
        parts = photos.split(photos_in_cache) if photos.device.type == "cpu" else [photos]
        return torch.cat([compute(part) for part in parts])

    return in_parts
