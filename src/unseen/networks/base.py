"""The interface of networks: photos -> features, and a linear layer over them."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from unseen.data import imagenet_1k
from unseen.photos.transforms import PhotoTransform
from unseen.util.errors import UnseenError
from unseen.util.names import list_some

Weights = Mapping[str, Tensor | np.ndarray]
CLASSES_NEEDED = "{}: give the ids of its classes, in the order of its {} outputs."


class Options(NamedTuple):
    """What a user may give beside the name of a network."""

    classes: Sequence[str] | None = None  # the ids of its outputs
    weights: Weights | None = None  # instead of the published ones
    layer: str | None = None  # the name of the last linear layer
    transform: PhotoTransform | None = None

    def class_ids(self, name: str, outputs: int) -> tuple[str, ...]:
        """One id for each output: those given, or ImageNet's for a network with its 1,000 classes."""
        if self.classes is None and outputs != len(imagenet_1k()):
            raise UnseenError(CLASSES_NEEDED.format(name, outputs))
        return check_class_ids(imagenet_1k() if self.classes is None else self.classes, outputs)


class Network(nn.Module):
    r"""A network with its class ids and its photo transform, under timm's protocol for heads.

    `forward_features` then `forward_head(pre_logits=True)` give the features f (B x D) that the last linear layer sees;
    that layer scores class i by :math:`w_i \cdot f + b_i`, and `class_ids[i]` says which class that is.
    `unseen.load_network` and `unseen.from_module` make one.

    Args:
        module: An nn.Module that follows the protocol, with its own names of weights.
        class_ids: The ids of its M outputs, in their order.
        transform: How photos are prepared for it.
        name: A bundle loads it again by this name.

    >>> import torch
    >>> import unseen
    >>> network = torch.nn.Sequential(torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(3, 2))
    >>> network = unseen.from_module(network, ["dog", "cat"])
    >>> photos = torch.rand(4, 3, 224, 224)
    >>> network.features(photos).shape, network(photos).shape  # D = 3, M = 2
    (torch.Size([4, 3]), torch.Size([4, 2]))
    >>> network.classifiers().shape  # with the bias
    (2, 4)
    """

    module: Any  # an nn.Module that follows the protocol
    layer: str | None = None  # the name of the last linear layer, where the module does not say
    weights_file: Path | None = None  # where the weights came from, if the user named a file
    takes_photos = True  # or rows of features
    transform_assumed = False  # whether the photo transform is a guess
    kept_in_bundle = False  # whether a bundle holds the weights, since no name leads back to them

    @property
    def below(self) -> Network | None:
        """The network whose features this one takes, if it is a layer over another's (`linear:FILE@NETWORK`)."""
        below = getattr(self.module, "network", None)
        return below if isinstance(below, Network) else None

    def __init__(self, module: nn.Module, class_ids: Sequence[str], transform: Any, name: str):
        super().__init__()
        self._cache: dict[str, tuple] = {}
        self.module = module
        self.name, self.transform = name, transform
        self.eval()
        self.class_ids = check_class_ids(class_ids, self.get_classifier().out_features)

    @property
    def num_features(self) -> int:
        return self.get_classifier().in_features

    @property
    def device(self) -> torch.device:
        return self.get_classifier().weight.device

    def get_classifier(self) -> nn.Linear:
        return self.module.get_classifier()

    def classifiers(self) -> np.ndarray:
        """The seen classifiers [weight, bias], M x (D + 1) float32, in the order of `class_ids`; no bias is 0."""
        layer = self.get_classifier()
        weight = layer.weight.detach().float().cpu()
        bias = torch.zeros(len(weight)) if layer.bias is None else layer.bias.detach().float().cpu()
        return torch.cat([weight, bias[:, None]], dim=1).numpy()

    def forward_features(self, x: Tensor) -> Tensor:
        return self.module.forward_features(x)

    def forward_head(self, x: Tensor, pre_logits: bool = False) -> Tensor:
        return self.module.forward_head(x, pre_logits=pre_logits)

    def forward_pre_logits(self, x: Tensor) -> Tensor:
        """B x 3 x H x W -> B x D, with gradient, in the network's present mode."""
        return self.forward_head(self.forward_features(x), pre_logits=True)

    def forward(self, x: Tensor) -> Tensor:
        """B x 3 x H x W -> logits B x M."""
        return self.forward_head(self.forward_features(x))

    def features(self, batch: Tensor) -> Tensor:
        """B x 3 x H x W -> B x D float32 on the network's device, in evaluation mode, without gradient."""
        training = self.training
        if training:
            self.eval()
        try:
            with torch.inference_mode():
                features = self.forward_pre_logits(batch.to(self.device, self.get_classifier().weight.dtype))
            return features.float().clone()  # cloned out here, it may take part in a gradient again
        finally:
            if training:
                self.train()

    def features_of(self, pixels: np.ndarray) -> np.ndarray:
        """The same, from an array to an array."""
        return self.features(torch.from_numpy(pixels)).cpu().numpy()

    def cached(self, key: str, make: Callable[[], Any]) -> Any:
        """Something made from the weights, made again when they have changed: a change in place increments a tensor's
        version. Training empties the cache, since some optimisers change weights behind autograd's back."""
        state = self.module.state_dict(keep_vars=True).values()
        version = tuple((tensor.data_ptr(), 0 if tensor.is_inference() else tensor._version) for tensor in state)
        if self._cache.get(key, (None,))[0] != version:
            with torch.inference_mode(False), torch.no_grad():
                self._cache[key] = version, make()
        return self._cache[key][1]

    def __getstate__(self) -> dict:
        return {**self.__dict__, "_cache": {}}

    def train(self, mode: bool = True) -> Network:
        if mode:
            self._cache.clear()
        return super().train(mode)

    def weights(self) -> dict[str, Tensor]:
        """The module's state dict on the CPU: what a file of weights holds."""
        return {name: tensor.detach().cpu().contiguous() for name, tensor in self.module.state_dict().items()}

    def load_weights(self, weights: Weights, where: str = "The weights") -> None:
        """Load `weights()` of a network of the same shape; refuse anything missing, unknown or of another shape."""
        load_strictly(self.module, weights, where)

    @property
    def checksum(self) -> str:
        """SHA-256 over the sorted (name, type, shape, bytes) of the weights."""

        def compute() -> str:
            digest = hashlib.sha256()
            for name, tensor in sorted(self.weights().items()):
                digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
                digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
            return digest.hexdigest()

        return self.cached("checksum", compute)


def check_class_ids(class_ids: Sequence[str], outputs: int) -> tuple[str, ...]:
    """The ids of the network's outputs, in their order: one for each, none twice."""
    ids = tuple(map(str, class_ids))
    if len(ids) != outputs:
        raise UnseenError(f"The network has {outputs} outputs, but {len(ids)} class ids were given. Each needs one.")
    twice = [class_id for class_id, count in Counter(ids).items() if count > 1]
    if twice:
        raise UnseenError(f"Class ids must differ; given more than once: {', '.join(twice[:5])}.")
    return ids


def load_strictly(module: nn.Module, weights: Weights, where: str) -> None:
    """Load a state dict of tensors or arrays, or refuse it saying what does not fit."""
    expected = module.state_dict()
    if not expected.keys() & weights.keys():  # saved from DistributedDataParallel, or from a Network itself
        weights = {name.removeprefix("module."): value for name, value in weights.items()}
    # Counters of batches do not change what the network computes, and old files lack them.
    problems = {
        "missing": [name for name in expected if name not in weights and not name.endswith("num_batches_tracked")],
        "unknown": [name for name in weights if name not in expected],
        "of another shape": [
            f"{name} {tuple(weights[name].shape)} for {tuple(tensor.shape)}"
            for name, tensor in expected.items()
            if name in weights and weights[name].shape != tensor.shape
        ],
    }
    reasons = [f"{len(names)} {problem} ({list_some(names, 3)})" for problem, names in problems.items() if names]
    if reasons:
        raise UnseenError(f"{where} do not fit the network: {'; '.join(reasons)}.")
    module.load_state_dict({name: torch.as_tensor(value) for name, value in weights.items()}, strict=False)


class Config(NamedTuple):
    """A built-in network."""

    build: Callable[[int], nn.Module]  # from the number of classes
    weights: Callable[[], Weights]  # published, for ImageNet-1k
    transform: PhotoTransform


class ConvNet(nn.Module):
    """A built-in network: photos B x 3 x H x W -> maps -> features B x D -> logits B x M."""

    forward_features: Any  # B x 3 x H x W -> B x D x H/32 x W/32
    get_classifier: Any

    def forward_head(self, x: Tensor, pre_logits: bool = False) -> Tensor:
        x = x.mean((2, 3))
        return x if pre_logits else self.get_classifier()(x)

    def forward(self, x: Tensor) -> Tensor:
        return self.forward_head(self.forward_features(x))


def batch_norm(channels: int) -> nn.BatchNorm2d:
    """With the numbers of TensorFlow, in which the built-in networks were trained."""
    return nn.BatchNorm2d(channels, eps=1e-3, momentum=0.01)
