"""Any nn.Module as a network: its last linear layer is found or named, and that layer's input are the features."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from unseen.networks.base import Network
from unseen.photos.transforms import PhotoTransform
from unseen.util.errors import UnseenError
from unseen.util.files import DAMAGE
from unseen.util.names import first_line
from unseen.util.trust import check_trusted, describe_error, import_object

PROBES = 8  # pictures of noise on which the layer found is compared with what the network says
TOLERANCE = 0.01  # of the range of an output
SAVE_ALONE = "Save the tensors alone: torch.save(model.state_dict(), file)."
_imported: set[str] = set()  # the user's own networks that this process has run


class HookedNetwork(Network):
    """A network around a module without the protocol: a hook catches the input of its classifier."""

    def __init__(self, module: nn.Module, layer: str, class_ids: Sequence[str], transform: PhotoTransform, name: str):
        self.layer = layer
        super().__init__(module, class_ids, transform, name)

    def get_classifier(self) -> nn.Linear:
        return self.module.get_submodule(self.layer or "")  # "" is the module itself

    def forward_features(self, x: Tensor) -> Tensor:
        """B x 3 x H x W -> B x D, the input of the classifier."""
        caught, thread = [], threading.get_ident()

        def catch(_, inputs):
            if threading.get_ident() == thread:  # another thread may be in the same network
                caught.append(inputs[0])

        hook = self.get_classifier().register_forward_pre_hook(catch)
        try:
            self.module(x)
        finally:
            hook.remove()
        return caught[-1]

    def forward_head(self, x: Tensor, pre_logits: bool = False) -> Tensor:
        return x if pre_logits else self.get_classifier()(x)


def from_module(
    module: nn.Module,
    class_ids: Sequence[str],
    transform: PhotoTransform | None = None,
    layer: str | None = None,
    name: str | None = None,
) -> Network:
    """Your own network, put into evaluation mode.

    Args:
        module: A network that takes B x 3 x H x W and ends in a linear layer with M outputs.
        class_ids: The ids of its M outputs, in their order.
        transform: How photos are prepared; by default 224 px, with ImageNet's mean and deviation.
        layer: The name of the last linear layer, where several have M outputs.
        name: How the network is called; by default after its class.

    >>> import unseen
    >>> from torch import nn
    >>> network = nn.Sequential(nn.Conv2d(3, 8, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 2))
    >>> network = unseen.from_module(network, ["dog", "cat"], unseen.PhotoTransform(64))
    >>> network.num_features, network.class_ids, network.transform.size
    (8, ('dog', 'cat'), 64)
    """
    assumed, transform = transform is None, PhotoTransform(224) if transform is None else transform
    for value, kind in ((module, nn.Module), (transform, PhotoTransform)):
        if not isinstance(value, kind):
            raise UnseenError(f"{kind.__name__} expected, not {type(value).__name__}.")
    layer = find_classifier(module, transform.size, len(class_ids), layer)
    network = HookedNetwork(module, layer, class_ids, transform, name or f"module/{type(module).__name__}")
    network.transform_assumed = assumed
    _check_head(network)
    return network


def _check_head(network: HookedNetwork) -> None:
    """Refuse a layer that does not say what the network says: its logits must put the classes in the same order as the
    network's own output does, be that logits, probabilities or their logarithm."""
    size, like = network.transform.size, next(network.module.parameters(), torch.zeros(()))
    noise = torch.randn(PROBES, 3, size, size, generator=torch.Generator().manual_seed(0))
    probes = (noise * torch.logspace(-1, 1, PROBES).view(-1, 1, 1, 1)).to(like.device, like.dtype)
    with torch.no_grad():
        output = _find_output(network.module(probes), len(network.class_ids))
        if output is None:  # in a form of its own: nothing to compare with
            return
        logits = network.forward_head(network.forward_features(probes)).float()
    if not (output.isfinite().all() and logits.isfinite().all()):
        return  # each photo that this happens to is reported as unreadable
    told = output.float().gather(1, logits.argsort(dim=1))
    slack = TOLERANCE * (told.amax(1) - told.amin(1)).clamp_min(torch.finfo(torch.float32).tiny)
    agree = int((torch.diff(told, dim=1) >= -slack[:, None]).all(dim=1).sum())
    if agree < PROBES:
        same = int((logits.argmax(1) == output.argmax(1)).sum())
        raise UnseenError(
            f"The layer {network.layer!r} is not what the network's answers come from: its scores order the classes "
            f"otherwise for {PROBES - agree} of {PROBES} pictures of noise (the best class is the same for {same}). "
            "Something follows it, such as a prior that is subtracted or a second head that is averaged: fold that "
            "into the weight and bias of one last nn.Linear, or name another layer."
        )


def _find_output(output: Any, classes: int) -> Tensor | None:
    """The tensor (B x classes) among what a network returns: alone, first in a tuple, or as `logits`."""
    if isinstance(output, Mapping):
        output = output.get("logits", next(iter(output.values()), None))
    elif not isinstance(output, Tensor):
        logits = getattr(output, "logits", None)
        output = output[0] if logits is None and isinstance(output, (tuple, list)) and output else logits
    return output if isinstance(output, Tensor) and output.shape == (PROBES, classes) else None


def find_classifier(module: nn.Module, size: int, outputs: int, layer: str | None = None) -> str:
    """The name of the linear layer that scores the classes: run the network once, and see which layers take part."""
    linear = {name: child for name, child in module.named_modules() if isinstance(child, nn.Linear)}
    inputs = _watch(module, linear, size)
    ran = ", ".join(f"{name!r} with {linear[name].out_features} outputs" for name in inputs) or "none"
    if layer is not None and layer not in linear:
        raise UnseenError(f"The network has no linear layer named {layer!r}. It has: {ran}.")
    if layer is not None and layer not in inputs:
        raise UnseenError(f"The layer {layer!r} takes no part in classifying a photo. These do: {ran}.")
    if not inputs:
        convolutions = [(name, child) for name, child in module.named_modules() if isinstance(child, nn.Conv2d)]
        last = [name for name, child in convolutions if (child.kernel_size, child.out_channels) == ((1, 1), outputs)]
        instead = f", but in the 1 x 1 convolution {last[0]!r}" if last else ""
        raise UnseenError(
            f"The network does not end in a linear layer{instead}: pool over the positions, then nn.Linear."
        )
    names = [name for name in inputs if linear[name].out_features == outputs] if layer is None else [layer]
    if not names:
        raise UnseenError(f"No linear layer has {outputs} outputs, one for each class id. The network has: {ran}.")
    if len(names) > 1:
        several = ", ".join(map(repr, names))
        raise UnseenError(f"Several linear layers have {outputs} outputs: {several}. Name one: layer={names[-1]!r}.")
    shapes = inputs[names[0]]
    if len(shapes) > 1 or len(shapes[0]) != 2:
        raise UnseenError(
            f"The layer {names[0]!r} does not take one row of features for each photo, but for two photos "
            f"{' and '.join(map(str, shapes))}. Name another layer, or pool before it."
        )
    return names[0]


def _watch(module: nn.Module, linear: dict[str, nn.Linear], size: int) -> dict[str, list[tuple[int, ...]]]:
    """Layer -> the shapes of its inputs, in the order in which the layers ran."""
    shapes: dict[str, list[tuple[int, ...]]] = {}

    def watch(name: str):
        return lambda _, inputs: shapes.setdefault(name, []).append(tuple(inputs[0].shape))

    hooks = [child.register_forward_pre_hook(watch(name)) for name, child in linear.items()]
    try:
        like = next(module.parameters(), torch.zeros(()))
        with torch.no_grad():
            module.eval()(torch.zeros(2, 3, size, size, device=like.device, dtype=like.dtype))
    except Exception as error:
        raise UnseenError(does_not_take("The network", size, error)) from error
    finally:
        for hook in hooks:
            hook.remove()
    return shapes


def does_not_take(where: str, size: int, error: Exception) -> str:
    reason = first_line(error)
    return f"{where} does not take photos of 3 x {size} x {size}: {reason}. Give the PhotoTransform(size) it expects."


def check_network_code(spec: str, owner: str, trust_code: bool) -> None:
    """Refuse a network that a bundle (`owner`) names if it would run code that the user has not agreed to run."""
    if spec not in _imported:
        advice = f"load the network yourself: network=load_network({spec!r}, class_ids)"
        check_trusted(spec, f"{owner} names the network {spec}", trust_code, advice)


def import_network(spec: str) -> nn.Module:
    """What `package.module:callable` returns."""
    build = import_object(spec)
    _imported.add(spec)
    try:
        network = build() if callable(build) and not isinstance(build, nn.Module) else build
    except Exception as error:  # the user's own code
        raise UnseenError(f"{spec}: calling it without arguments failed: {describe_error(error)}.") from error
    if not isinstance(network, nn.Module):
        raise UnseenError(f"{spec}: must be or return an nn.Module, not {type(network).__name__}.")
    return network


def read_weights(path: str | Path) -> dict[str, Tensor]:
    """The tensors of a .safetensors file, or of a torch file, without running any code in it."""
    path = Path(path)
    if not path.is_file():
        raise UnseenError(f"{path}: there is no such file of weights.")
    kind = "safetensors" if path.suffix == ".safetensors" else "torch"
    with open(path, "rb") as file:  # torch.save writes a zip archive, formerly a pickle
        if kind == "torch" and not file.read(4).startswith((b"PK\x03\x04", b"\x80")):
            raise UnseenError(f"{path}: is not a file of weights. {SAVE_ALONE}")
    try:
        state = load_file(path) if kind == "safetensors" else torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError:
        raise UnseenError(f"{path}: contains more than tensors, and loading it could run code. {SAVE_ALONE}") from None
    except DAMAGE as error:
        raise UnseenError(f"{path}: is not a readable {kind} file ({first_line(error)}).") from None
    for key in ("state_dict", "model_state_dict", "model"):  # where training checkpoints hold the weights
        if isinstance(state, dict) and isinstance(state.get(key), dict):
            state = state[key]
    if not isinstance(state, dict) or not state or not all(isinstance(value, Tensor) for value in state.values()):
        raise UnseenError(f"{path}: does not contain a state dict (name -> tensor). {SAVE_ALONE}")
    return dict(state)
