"""Any nn.Module as a backbone: its last linear layer is found or named; the features are what that layer is given."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from unseen.backbones.base import Backbone
from unseen.errors import UnseenError
from unseen.photos.transforms import PhotoTransform
from unseen.runtime.modules import describe_error, find_file, import_object

SAVE_ALONE = "Save the tensors alone: torch.save(model.state_dict(), file)."
_imported: set[str] = set()  # networks of the user's own that this process has run


class HookedBackbone(Backbone):
    """A backbone around a module that knows nothing of the protocol: a hook catches what its classifier is given."""

    def __init__(self, module: nn.Module, layer: str, class_ids: Sequence[str], transform: PhotoTransform, name: str):
        self.layer = layer
        super().__init__(module, class_ids, transform, name)

    def get_classifier(self) -> nn.Linear:
        return self.module.get_submodule(self.layer)

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
) -> Backbone:
    """Your own network as a backbone; it is put into evaluation mode.

    Args:
        module: A network that takes B x 3 x H x W and ends in a linear layer with M outputs.
        class_ids: The ids of its M outputs, in their order.
        transform: How photos are prepared; by default 224 px, with ImageNet's mean and deviation.
        layer: The name of the last linear layer, where several have M outputs.
        name: How the network is called; by default after its class.

    >>> import unseen
    >>> from torch import nn
    >>> network = nn.Sequential(nn.Conv2d(3, 8, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 2))
    >>> backbone = unseen.from_module(network, ["dog", "cat"], unseen.PhotoTransform(64))
    >>> backbone.num_features, backbone.class_ids, backbone.transform.size
    (8, ('dog', 'cat'), 64)
    """
    if not isinstance(module, nn.Module):
        raise UnseenError(f"A network is an nn.Module, not {type(module).__name__}.")
    assumed, transform = transform is None, PhotoTransform(224) if transform is None else transform
    if not isinstance(transform, PhotoTransform):
        raise UnseenError(
            f"transform must be a PhotoTransform(size, mean=, std=, ...), not {type(transform).__name__}."
        )
    layer = find_classifier(module, transform.size, len(class_ids), layer)
    backbone = HookedBackbone(module, layer, class_ids, transform, name or f"module/{type(module).__name__}")
    backbone.transform_assumed = assumed
    return backbone


def find_classifier(module: nn.Module, size: int, outputs: int, layer: str | None = None) -> str:
    """The name of the linear layer that scores the classes: run the network once, and see which layers take part."""
    linear = {name: child for name, child in module.named_modules() if isinstance(child, nn.Linear)}
    if layer is not None and layer not in linear:
        raise UnseenError(f"The network has no linear layer named {layer!r}. It has: {_some(linear) or 'none'}.")
    inputs = _watch(module, linear, size)
    ran = ", ".join(f"{name or '(the network itself)'} with {linear[name].out_features} outputs" for name in inputs)
    if layer is not None:
        found = [layer]
        if layer not in inputs:
            raise UnseenError(
                f"The layer {layer!r} takes no part when the network looks at a photo. These do: {ran or 'none'}."
            )
    else:
        found = [name for name in inputs if linear[name].out_features == outputs]
    if not inputs:
        raise UnseenError(
            f"The network does not end in a linear layer{_convolution(module, outputs)}. "
            "Predicted classifiers are weights of one: pool over the positions, then nn.Linear."
        )
    if not found:
        raise UnseenError(
            f"No linear layer has {outputs} outputs, as many as class ids were given. The network has: {ran}."
        )
    if len(found) > 1:
        raise UnseenError(
            f"Several linear layers have {outputs} outputs: {_some(found)}. Name the last one: layer={found[-1]!r}."
        )
    shapes = inputs[found[0]]
    if len(shapes) > 1 or len(shapes[0]) != 2:
        raise UnseenError(
            f"The layer {found[0]!r} is not given one row of features for each photo, but for two photos "
            f"{' and '.join(map(str, shapes))}. Name another with layer=, or pool before it."
        )
    return found[0]


def _watch(module: nn.Module, linear: dict[str, nn.Linear], size: int) -> dict[str, list[tuple[int, ...]]]:
    """Layer -> the shapes of what it was given, in the order in which the layers ran."""
    seen: dict[str, list[tuple[int, ...]]] = {}

    def watch(name: str):
        return lambda _, inputs: seen.setdefault(name, []).append(tuple(inputs[0].shape))

    hooks = [child.register_forward_pre_hook(watch(name)) for name, child in linear.items()]
    try:
        like = next(module.parameters(), torch.zeros(()))
        with torch.no_grad():
            module.eval()(torch.zeros(2, 3, size, size, device=like.device, dtype=like.dtype))
    except Exception as error:
        raise UnseenError(
            f"The network does not take photos of 3 x {size} x {size}: {error}. "
            "Say what it expects with transform=PhotoTransform(size)."
        ) from error
    finally:
        for hook in hooks:
            hook.remove()
    return seen


def _convolution(module: nn.Module, outputs: int) -> str:
    for name, child in module.named_modules():
        if isinstance(child, nn.Conv2d) and child.kernel_size == (1, 1) and child.out_channels == outputs:
            return f", but in the 1 x 1 convolution {name!r}"
    return ""


def _some(names) -> str:
    names = list(names)
    return ", ".join(map(repr, names[:8])) + (f" and {len(names) - 8} more" if len(names) > 8 else "")


def check_network_code(spec: str, owner: str, trust_code: bool, say: Callable[[str], None]) -> None:
    """Refuse a network that somebody else named, a bundle for example, if it would run code that nobody here asked for.

    One that this process was told to run before passes; others with `trust_code`, after `say` was told which file is
    imported. `owner` is who named it.
    """
    if spec in _imported:
        return
    module = spec.partition(":")[0]
    file = find_file(spec)
    if file is None:
        raise UnseenError(
            f"{owner} names the network {spec}, but there is no Python module {module!r} here, nor is it installed: go "
            "to the folder where it lies, or build the network in Python and pass it as backbone=..."
        )
    if not trust_code:
        raise UnseenError(
            f"{owner} names the network {spec}, which is not part of unseen: loading it would import {module} from "
            f"{file} and run it. If you trust that code, pass trust_code=True (in Python, loading the network yourself "
            f"will do as well: backbone=load_backbone({spec!r}, class_ids))",
            "trust_code=True",
        )
    say(f"Importing {module} from {file}.")


def import_network(spec: str) -> nn.Module:
    """What `package.module:callable` returns."""
    made = import_object(spec)
    _imported.add(spec)
    if isinstance(made, nn.Module):
        return made
    if not callable(made):
        raise UnseenError(
            f"{spec}: is {type(made).__name__}, not something that can be called and returns an nn.Module."
        )
    try:
        network = made()
    except Exception as error:
        raise UnseenError(f"{spec}: calling it without arguments failed: {describe_error(error)}.") from error
    if not isinstance(network, nn.Module):
        raise UnseenError(f"{spec}: must return an nn.Module, not {type(network).__name__}.")
    return network


def _from_torch(path: Path) -> bool:
    """Whether a file begins as torch.save begins one: a zip archive, formerly a pickle."""
    with open(path, "rb") as file:
        return file.read(4).startswith((b"PK\x03\x04", b"\x80"))


def read_weights(path: str | Path) -> dict[str, Tensor]:
    """The tensors of a .safetensors file, or of a torch file, which is read without running any code in it."""
    path = Path(path)
    if not path.is_file():
        raise UnseenError(f"{path}: there is no such file of weights.")
    if path.suffix == ".safetensors":
        try:
            return load_file(path)
        except SafetensorError as error:
            raise UnseenError(f"{path}: is not a readable safetensors file ({error}).") from None
    if not _from_torch(path):
        raise UnseenError(f"{path}: is not a file of weights. {SAVE_ALONE}")
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError:
        raise UnseenError(f"{path}: contains more than tensors, and loading it could run code. {SAVE_ALONE}") from None
    except Exception as error:  # torch raises RuntimeError, EOFError, KeyError and others for damaged files
        raise UnseenError(f"{path}: is not a readable torch file ({error or type(error).__name__}).") from None
    for wrapped in (
        "state_dict",
        "model_state_dict",
        "model",
    ):  # training checkpoints hold the weights under one of these
        if isinstance(state, dict) and isinstance(state.get(wrapped), dict):
            state = state[wrapped]
    if not isinstance(state, dict) or not state or not all(isinstance(value, Tensor) for value in state.values()):
        raise UnseenError(
            f"{path}: does not contain a state dict (name -> tensor). Save one: torch.save(model.state_dict(), file)."
        )
    return dict(state)
