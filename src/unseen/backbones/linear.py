"""Any linear classifier over any features: of sounds, texts, sensors, or of photos that another program looks at.

    unseen.from_linear(weight, bias, class_ids)      arrays, or a fitted estimator of scikit-learn
    load_backbone("linear:FILE")                     .npz or .safetensors with weight, bias and classes
    load_backbone("linear:FILE@efficientnet-lite0")  the same over another network's features: it takes photos again

Without another network it takes rows of features instead of photos. A bundle keeps its weights.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from unseen.backbones.base import Backbone, Weights, load_strictly
from unseen.errors import UnseenError
from unseen.runtime.arrays import ARRAY_DAMAGE

NAME = "linear"  # of every such network: its weights are in the bundle, so nothing else must be found again
KEYS = {  # what a file may call them
    "weight": ("weight", "coef_", "coef"),
    "bias": ("bias", "intercept_", "intercept"),
    "classes": ("classes", "class_ids", "classes_"),
}
SAVE = "np.savez(file, weight=..., bias=..., classes=...)"


class NoPhotos:
    """Stands in for the photo transform of a network that takes features: any use of it is refused with a reason."""

    def to_dict(self) -> dict[str, Any]:
        return {}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NoPhotos)

    def __hash__(self) -> int:
        return hash(NoPhotos)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # what copying and pickling ask for
            raise AttributeError(name)
        raise UnseenError(
            "This network is a linear layer over features, it takes no photos: give it rows of features, "
            "with model.classify_features(x) or a file of features."
        )


class LinearModule(nn.Module):
    """Features in (B x D), the same features out, and a linear layer over them; timm's protocol for heads."""

    def __init__(self, features: int, classes: int):
        super().__init__()
        self.layer = nn.Linear(features, classes)

    def forward_features(self, x: Tensor) -> Tensor:
        if x.ndim != 2 or x.shape[1] != self.layer.in_features:
            raise UnseenError(
                f"The network takes rows of {self.layer.in_features} features, not an array of shape {tuple(x.shape)}."
            )
        return x

    def forward_head(self, x: Tensor, pre_logits: bool = False) -> Tensor:
        return x if pre_logits else self.layer(x)

    def get_classifier(self) -> nn.Linear:
        return self.layer


class HeadModule(nn.Module):
    """Another network up to its features, and a linear layer over them in place of its own."""

    def __init__(self, network: Backbone, classes: int):
        super().__init__()
        self.network = network
        self.layer = nn.Linear(network.num_features, classes)

    def forward_features(self, x: Tensor) -> Tensor:
        return self.network.forward_pre_logits(x)

    def forward_head(self, x: Tensor, pre_logits: bool = False) -> Tensor:
        return x if pre_logits else self.layer(x)

    def get_classifier(self) -> nn.Linear:
        return self.layer


class LinearBackbone(Backbone):
    """A linear layer alone, over features that come from elsewhere."""

    takes_photos = False
    kept_in_bundle = True


class HeadBackbone(Backbone):
    """A linear layer over the features of another network."""

    kept_in_bundle = True


def from_linear(
    weight: Any, bias: Any = None, class_ids: Sequence[Any] | None = None, network: Backbone | None = None
) -> Backbone:
    r"""A linear classifier over features of any kind as a backbone: class i scores :math:`w_i \cdot f + b_i`.

    Args:
        weight: M x D: an array or a tensor. Or a fitted linear estimator of scikit-learn, which has all three.
        bias: M numbers; none count as 0.
        class_ids: The ids of the M classes, in the order of the rows; of an estimator, its `classes_` by default.
        network: Whose features these are, such as `unseen.load_backbone()`: then photos can be classified.

    An estimator for two classes has one row w, which scores the second of them; here it becomes
    :math:`(-w/2, w/2)`, which gives the same probabilities.

    >>> import numpy as np
    >>> import unseen
    >>> animals = unseen.Taxonomy.from_edges([("dog", "animal"), ("cat", "animal"), ("fox", "animal")])
    >>> backbone = unseen.from_linear(np.eye(2, 5), np.zeros(2), ["dog", "cat"])
    >>> backbone.num_features, backbone.class_ids
    (5, ('dog', 'cat'))
    >>> bundle = unseen.train("structural", animals, "glove", backbone)
    >>> bundle.solution.classifiers.shape  # four classes, five features and a bias
    (4, 6)
    """
    if hasattr(weight, "steps"):
        raise UnseenError(
            "A pipeline changes its features before it classifies: give its last step, from_linear(pipeline[-1]), "
            "and features that have passed the steps before, pipeline[:-1].transform(x)."
        )
    if isinstance(weight, (str, Path)):
        raise UnseenError(f"{weight}: a file is loaded with load_backbone('{NAME}:{weight}').")
    if hasattr(weight, "classes_") and not hasattr(weight, "coef_"):
        raise UnseenError(
            f"{type(weight).__name__} has no coef_: a linear estimator is needed, such as LogisticRegression, "
            "LinearSVC, SGDClassifier or RidgeClassifier."
        )
    if hasattr(weight, "coef_"):
        if bias is not None:
            raise UnseenError("An estimator brings its own bias: omit bias.")
        class_ids = weight.classes_ if class_ids is None and hasattr(weight, "classes_") else class_ids
        weight, bias = weight.coef_, getattr(weight, "intercept_", None)
    if class_ids is None:
        raise UnseenError("Say which class each row of weight is: from_linear(weight, bias, class_ids).")
    ids = [str(id) for id in class_ids]
    rows = _matrix(weight, "weight")
    shift = np.zeros(len(rows), np.float32) if bias is None else _matrix(bias, "bias").reshape(-1)
    if len(shift) == 1 < len(rows):  # scikit-learn's fit_intercept=False
        shift = np.repeat(shift, len(rows))
    if len(rows) == 1 and len(ids) == 2:
        rows, shift = np.concatenate([-rows, rows]) / 2, np.concatenate([-shift, shift]) / 2
    if len(rows) != len(ids):
        raise UnseenError(
            f"weight has {len(rows)} rows, but {len(ids)} class ids were given: it needs one row for each class, "
            "not one for each pair of classes."
        )
    if shift.shape != (len(rows),):
        raise UnseenError(f"bias has {len(shift)} numbers, but weight has {len(rows)} rows.")
    state = {"layer.weight": torch.from_numpy(rows), "layer.bias": torch.from_numpy(shift)}
    return _make(state, ids, network)


def load_linear(
    file: str, classes: Sequence[str] | None, state: Weights | None, network: Backbone | None = None
) -> Backbone:
    """What `linear:FILE` names, over the features of `network` if one is given; without a file, what a bundle kept."""
    if not file:
        if state is None or classes is None:
            raise UnseenError(f"Name the file with weight, bias and classes: {NAME}:FILE, .npz or .safetensors.")
        return _make(state, classes, network)
    if state is not None:
        raise UnseenError(f"{NAME}:{file} has its weights already: omit weights.", "weights")
    found = read_linear(file)
    ids = found.get("classes") if classes is None else classes
    if ids is None:
        raise UnseenError(
            f"{file}: does not say which class each row is. Save the ids as `classes`, or give them with classes=...",
            "classes=...",
        )
    try:
        return from_linear(found["weight"], found.get("bias"), ids, network)
    except UnseenError as error:
        raise UnseenError(f"{file}: {error}") from None


def read_linear(file: str | Path) -> dict[str, Any]:
    """weight, bias and classes of a .npz or .safetensors file, as far as it has them; no code in it is ever run."""
    path = Path(file)
    if not path.is_file():
        raise UnseenError(f"{path}: there is no such file.")
    if path.suffix == ".npz":
        held = _read_npz(path)
    elif path.suffix == ".safetensors":
        held = _read_safetensors(path)
    else:
        raise UnseenError(f"{path}: a linear classifier is read from .npz or .safetensors. Save one: {SAVE}.")
    found = {meaning: held[key] for meaning, keys in KEYS.items() for key in reversed(keys) if key in held}
    if "weight" not in found:
        raise UnseenError(f"{path}: has no `weight`, but {', '.join(sorted(held)) or 'nothing'}. Save one: {SAVE}.")
    return found


def _read_npz(path: Path) -> dict[str, Any]:
    try:
        with np.load(path, allow_pickle=False) as file:
            return {key: file[key] for key in file.files}
    except ARRAY_DAMAGE as error:
        raise UnseenError(f"{path}: is not a readable .npz file ({error}).") from None
    except ValueError as error:  # an array of Python objects
        raise UnseenError(
            f"{path}: holds Python objects, and loading them could run code ({error}). "
            "Save the classes as text: classes=np.array(ids, dtype=str)."
        ) from None


def _read_safetensors(path: Path) -> dict[str, Any]:
    """Tensors, with `classes` from the file's metadata: a JSON list."""
    try:
        with safe_open(path, framework="pt") as file:
            metadata: Mapping[str, str] = file.metadata() or {}
            held: dict[str, Any] = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
        listed = {key: json.loads(metadata[key]) for key in KEYS["classes"] if key in metadata}
    except (SafetensorError, ValueError, RecursionError) as error:
        raise UnseenError(f"{path}: is not a readable safetensors file ({error}).") from None
    # The last layer of a network keeps its name there: fc.weight.
    short = {key.rpartition(".")[2]: value for key, value in held.items()}
    return (held if len(short) < len(held) else short) | listed


def _matrix(values: Any, what: str) -> np.ndarray:
    """Float32 of one or two axes, finite."""
    if hasattr(values, "toarray"):  # scipy's sparse matrices
        values = values.toarray()
    if isinstance(values, Tensor):
        values = values.detach().float().cpu().numpy()
    try:
        found = np.atleast_1d(np.asarray(values, np.float32))
    except (TypeError, ValueError):
        raise UnseenError(f"{what} must hold numbers, not {type(values).__name__}.") from None
    if what == "weight":
        found = np.atleast_2d(found)
    if found.ndim > 2 or not found.size:
        raise UnseenError(f"{what} must be a matrix, a row for each class; its shape is {found.shape}.")
    if not np.isfinite(found).all():
        raise UnseenError(f"{what} holds NaN or infinity.")
    return found


def _make(state: Weights, ids: Sequence[str], network: Backbone | None) -> Backbone:
    """The layer with these weights; a bundle's hold those of the network below too."""
    if "layer.weight" not in state:
        raise UnseenError(f"The weights of a {NAME} network are layer.weight and layer.bias.")
    classes, features = state["layer.weight"].shape
    if network is None:
        module = LinearModule(features, classes)
        load_strictly(module, state, "The weights of the linear layer")
        return LinearBackbone(module, ids, NoPhotos(), NAME)
    if features != network.num_features:
        raise UnseenError(f"weight is for {features} features, but {network.name} gives {network.num_features}.")
    module = HeadModule(network, classes)
    load_strictly(module, {**module.state_dict(), **state}, "The weights of the linear layer")
    backbone = HeadBackbone(module, ids, network.transform, f"{NAME}@{network.name}")
    backbone.transform_assumed = network.transform_assumed
    return backbone
