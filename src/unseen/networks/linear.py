"""Any linear classifier over any features: of sounds, texts, sensors, or of photos that another program reads.

`from_linear` takes arrays or an estimator; `linear:FILE` is a .npz or .safetensors with weight, bias and classes;
`linear:FILE@NETWORK` is the same over another network's features, so that it takes photos. A bundle keeps its weights.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import safe_open
from torch import Tensor, nn

from unseen.networks.base import Network, Options, Weights, load_strictly
from unseen.util.arrays import load_numpy
from unseen.util.errors import UnseenError
from unseen.util.files import DAMAGE

NAME = "linear"  # of every such network: its weights are in the bundle, so nothing else must be found again
WEIGHT, BIAS = ("weight", "coef_", "coef"), ("bias", "intercept_", "intercept")  # names in a file, the first preferred
CLASSES = ("classes", "class_ids", "classes_")
SAVE = "np.savez(file, weight=..., bias=..., classes=np.array(ids, dtype=str))"


@dataclass(frozen=True)
class NoPhotos:
    """The photo transform of a network that takes features: any use raises an error that says so."""

    def to_dict(self) -> dict[str, Any]:
        return {}

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # for copying and pickling
            raise AttributeError(name)
        raise UnseenError("This network takes no photos: give it rows of features, as model.answers(x) does.")


class LinearModule(nn.Module):
    """A linear layer over rows of features (B x D), or over the features of a network below."""

    def __init__(self, features: int, classes: int, network: Network | None = None):
        super().__init__()
        self.layer, self.network = nn.Linear(features, classes), network

    def get_classifier(self) -> nn.Linear:
        return self.layer

    def forward_head(self, x: Tensor, pre_logits: bool = False) -> Tensor:
        return x if pre_logits else self.layer(x)

    def forward_features(self, x: Tensor) -> Tensor:
        if self.network is not None:
            return self.network.forward_pre_logits(x)
        features = self.layer.in_features
        if x.ndim != 2 or x.shape[1] != features:
            raise UnseenError(f"The network takes rows of {features} features, not an array of {tuple(x.shape)}.")
        return x


def from_linear(
    weight: Any, bias: Any = None, class_ids: Sequence[Any] | None = None, network: Network | None = None
) -> Network:
    r"""A linear classifier over features of any kind as a network: class i scores :math:`w_i \cdot f + b_i`.

    Args:
        weight: M x D: an array or a tensor. Or a fitted linear estimator of scikit-learn, which has all three.
        bias: M numbers; without them 0.
        class_ids: The ids of the M classes, in the order of the rows; of an estimator, its `classes_` by default.
        network: Whose features these are, such as `unseen.load_network()`: then photos can be classified.

    An estimator for two classes has one row w, which scores the second of them; here it becomes
    :math:`(-w/2, w/2)`, which gives the same probabilities.

    >>> import numpy as np
    >>> import unseen
    >>> network = unseen.from_linear(np.eye(2, 5), np.zeros(2), ["dog", "cat"])
    >>> network.num_features, network.class_ids
    (5, ('dog', 'cat'))
    """
    if isinstance(weight, (str, Path)):
        raise UnseenError(f"{weight}: a file is loaded with load_network('{NAME}:{weight}').")
    if hasattr(weight, "coef_"):
        if bias is not None:
            raise UnseenError("An estimator brings its own bias: omit bias.")
        class_ids = getattr(weight, "classes_", None) if class_ids is None else class_ids
        weight, bias = weight.coef_, getattr(weight, "intercept_", None)
    elif hasattr(weight, "fit"):
        raise UnseenError(
            f"{type(weight).__name__} has no coef_: give a linear estimator that is fitted; of a pipeline its last "
            "step, pipeline[-1], and features that have passed the steps before, pipeline[:-1].transform(x)."
        )
    if class_ids is None:
        raise UnseenError("Say which class each row of weight is: from_linear(weight, bias, class_ids).")
    ids, rows = [str(id) for id in class_ids], np.atleast_2d(_numbers(weight, "weight"))
    shift = _numbers(0 if bias is None else bias, "bias").reshape(-1)
    if len(shift) == 1 < len(rows):  # scikit-learn's fit_intercept=False has one 0
        shift = np.repeat(shift, len(rows))
    if len(rows) == 1 and len(ids) == 2:
        rows, shift = np.concatenate([-rows, rows]) / 2, np.concatenate([-shift, shift]) / 2
    if rows.ndim != 2 or len(rows) != len(ids) or len(shift) != len(ids):
        fit = f"weight of shape {rows.shape} and {len(shift)} biases do not fit {len(ids)} class ids"
        raise UnseenError(f"{fit}: weight needs one row for each class, not one for each pair of classes.")
    return _build({"layer.weight": torch.from_numpy(rows), "layer.bias": torch.from_numpy(shift)}, ids, network)


def load_linear(file: str, options: Options, network: Network | None) -> Network:
    """The layer in a file, over the features of `network` if there is one; without a file, from a bundle's weights."""
    if not file:
        if options.weights is None or options.classes is None:
            raise UnseenError(f"Name the file with weight, bias and classes: {NAME}:FILE, .npz or .safetensors.")
        return _build(options.weights, options.classes, network)
    if options.weights is not None:
        raise UnseenError(f"{NAME}:{file} has its weights already: omit other weights.")
    arrays = _read(Path(file))
    weight, bias, ids = (next((arrays[key] for key in keys if key in arrays), None) for keys in (WEIGHT, BIAS, CLASSES))
    if weight is None:
        raise UnseenError(f"{file}: has no `weight`, but {', '.join(sorted(arrays)) or 'nothing'}. Save one: {SAVE}.")
    if ids is None and options.classes is None:
        raise UnseenError(f"{file}: does not say which class each row is. Save the ids as `classes`, or give them.")
    try:
        return from_linear(weight, bias, ids if options.classes is None else options.classes, network)
    except UnseenError as error:
        raise UnseenError(f"{file}: {error}") from None


def _read(path: Path) -> dict[str, Any]:
    """The arrays of a .npz or .safetensors file; runs no code in it. In the latter, metadata has `classes` as JSON."""
    if not path.is_file():
        raise UnseenError(f"{path}: there is no such file.")
    if path.suffix not in (".npz", ".safetensors"):
        raise UnseenError(f"{path}: a linear classifier is read from .npz or .safetensors. Save one: {SAVE}.")
    try:
        if path.suffix == ".npz":
            loaded = load_numpy(path)
            return loaded if isinstance(loaded, dict) else {}
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
        ids = {key: json.loads(metadata[key]) for key in CLASSES if key in metadata}
    except (*DAMAGE, NotImplementedError) as error:  # the latter: compressed in an unknown way
        raise UnseenError(f"{path}: is not a readable {path.suffix[1:]} file ({error}). Save one: {SAVE}.") from None
    # The last layer of a network keeps its name there: fc.weight.
    short = {key.rpartition(".")[2]: value for key, value in tensors.items()}
    return (tensors if len(short) < len(tensors) else short) | ids


def _numbers(values: Any, name: str) -> np.ndarray:
    """Finite float32."""
    if isinstance(values, Tensor):
        values = values.detach().float().cpu().numpy()
    values = values.toarray() if hasattr(values, "toarray") else values  # scipy's sparse matrices
    try:
        array = np.atleast_1d(np.asarray(values, np.float32))
    except (TypeError, ValueError):
        raise UnseenError(f"{name} must hold numbers, not {type(values).__name__}.") from None
    if not array.size or not np.isfinite(array).all():
        raise UnseenError(f"{name} is empty, or holds NaN or infinity.")
    return array


def _build(state: Weights, ids: Sequence[str], network: Network | None) -> Network:
    """The network with these weights; a bundle's weights include those of the network below."""
    if "layer.weight" not in state or "layer.bias" not in state:
        raise UnseenError(f"The weights of a {NAME} network are layer.weight and layer.bias.")
    classes, features = state["layer.weight"].shape
    if network is not None and features != network.num_features:
        raise UnseenError(f"weight is for {features} features, but {network.name} gives {network.num_features}.")
    module = LinearModule(features, classes, network)
    load_strictly(module, {**module.state_dict(), **state}, "The weights of the linear layer")
    transform, name = (NoPhotos(), NAME) if network is None else (network.transform, f"{NAME}@{network.name}")
    built = Network(module, ids, transform, name)
    built.takes_photos, built.kept_in_bundle = network is not None, True
    built.transform_assumed = network is not None and network.transform_assumed
    return built
