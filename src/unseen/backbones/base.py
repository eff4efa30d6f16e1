"""What every network looks like to the rest of the package: photos -> features, and a linear layer over them."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from unseen.errors import UnseenError

Weights = Mapping[str, Tensor | np.ndarray]


class Backbone(nn.Module):
    r"""A network with its class ids and its photo transform, under timm's protocol for heads.

    `forward_features` then `forward_head(pre_logits=True)` give the features f (B x D) that the last linear layer sees;
    that layer scores class i by :math:`w_i \cdot f + b_i`, and `class_ids[i]` says which class that is.
    `unseen.load_backbone` and `unseen.from_module` make one.

    Args:
        module: The network as it came, with its own names of weights; it must itself follow the protocol.
        class_ids: The ids of its M outputs, in their order.
        transform: How photos are prepared for it.
        name: By which a bundle finds it again.

    >>> import torch
    >>> import unseen
    >>> network = torch.nn.Sequential(torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(3, 2))
    >>> backbone = unseen.from_module(network, ["dog", "cat"])
    >>> photos = torch.rand(4, 3, 224, 224)
    >>> backbone.features(photos).shape  # 4 photos, D = 3
    torch.Size([4, 3])
    >>> backbone(photos).shape  # M = 2
    torch.Size([4, 2])
    >>> backbone.classifiers().shape  # with the bias
    (2, 4)
    """

    module: Any  # an nn.Module that follows the protocol
    weights_file: Path | None = None  # where the weights came from, if the user named a file
    takes_photos = True  # or rows of features
    transform_assumed = False  # whether the photo transform is a guess, since nobody told
    kept_in_bundle = False  # whether a bundle holds the weights, since no name leads back to them

    def __init__(self, module: nn.Module, class_ids: Sequence[str], transform: Any, name: str):
        super().__init__()
        self._made: dict[str, tuple] = {}
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
        """B x 3 x H x W -> B x D, with gradient, in the mode (training or not) that the network is in."""
        return self.forward_head(self.forward_features(x), pre_logits=True)

    def forward(self, x: Tensor) -> Tensor:
        """B x 3 x H x W -> logits B x M."""
        return self.forward_head(self.forward_features(x))

    def features(self, batch: Tensor) -> Tensor:
        """B x 3 x H x W -> B x D float32 on the network's device, as in evaluation, without gradient."""
        training = self.training
        if training:
            self.eval()
        try:
            with torch.inference_mode():
                features = self._extractor()(batch.to(self.device, self.get_classifier().weight.dtype))
            return features.float().clone()  # cloned out here, it may take part in a gradient again
        finally:
            if training:
                self.train()

    def _extractor(self) -> Callable[[Tensor], Tensor]:
        """Photos -> features by the fastest way that the network offers."""
        if not hasattr(self.module, "for_inference"):
            return self.forward_pre_logits
        return self._remember("extractor", self.module.for_inference)

    def _remember(self, what: str, make: Callable[[], Any]) -> Any:
        """Something made from the weights, made again only when they have changed: a change in place counts up a
        tensor's version. Training forgets it all, since some optimisers change weights behind autograd's back."""
        state = self.module.state_dict(keep_vars=True).values()
        version = tuple((tensor.data_ptr(), 0 if tensor.is_inference() else tensor._version) for tensor in state)
        if self._made.get(what, (None,))[0] != version:
            with torch.inference_mode(False), torch.no_grad():
                self._made[what] = version, make()
        return self._made[what][1]

    def __getstate__(self) -> dict:
        return {**self.__dict__, "_made": {}}  # made again where it is needed

    def train(self, mode: bool = True) -> Backbone:
        if mode:
            self._made.clear()
        return super().train(mode)

    def weights(self) -> dict[str, Tensor]:
        """The network's state dict under its own names, on the CPU: what a file of weights holds."""
        return {name: tensor.detach().cpu().contiguous() for name, tensor in self.module.state_dict().items()}

    def load_weights(self, weights: Weights, where: str = "The weights") -> None:
        """Take over `weights()` of a network of the same shape; anything missing, left over or misshapen is refused."""
        load_strictly(self.module, weights, where)

    @property
    def checksum(self) -> str:
        """SHA-256 over the sorted (name, type, shape, bytes) of the weights."""
        return self._remember("checksum", self._checksum)

    def _checksum(self) -> str:
        digest = hashlib.sha256()
        for name, tensor in sorted(self.weights().items()):
            digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
            digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
        return digest.hexdigest()


def check_class_ids(class_ids: Sequence[str], outputs: int) -> tuple[str, ...]:
    """The ids of the network's outputs, in their order: one for each, none twice."""
    ids = tuple(map(str, class_ids))
    if len(ids) != outputs:
        raise UnseenError(
            f"The network has {outputs} outputs, but {len(ids)} class ids were given. "
            "Give one id for each output, in the order of the outputs."
        )
    twice = [class_id for class_id, count in Counter(ids).items() if count > 1]
    if twice:
        raise UnseenError(f"Class ids must differ; given more than once: {', '.join(twice[:5])}.")
    return ids


def load_strictly(module: nn.Module, weights: Weights, where: str) -> None:
    """Load a state dict of tensors or arrays, or refuse it saying what does not fit."""
    own = module.state_dict()
    if not own.keys() & weights.keys():  # saved from DistributedDataParallel, or from a Backbone itself
        weights = {name.removeprefix("module."): value for name, value in weights.items()}
    # Counters of batches do not change what the network computes, and old files lack them.
    problems = {
        "missing": [name for name in own if name not in weights and not name.endswith("num_batches_tracked")],
        "unknown": [name for name in weights if name not in own],
        "of another shape": [
            f"{name} {tuple(weights[name].shape)} for {tuple(own[name].shape)}"
            for name in own
            if name in weights and weights[name].shape != own[name].shape
        ],
    }
    if any(problems.values()):
        told = [
            f"{len(names)} {what} ({', '.join(names[:3])}{', ...' * (len(names) > 3)})"
            for what, names in problems.items()
            if names
        ]
        raise UnseenError(f"{where} do not fit the network: {'; '.join(told)}.")
    module.load_state_dict({name: torch.as_tensor(value) for name, value in weights.items()}, strict=False)
