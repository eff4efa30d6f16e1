"""A bundle: the result of a training, which the rest of the package reads; `bundle.file` stores it in one file.

Arrays are safetensors and the rest is JSON: loading a bundle checks it and executes nothing in it. A bundle may name a
module of the user's own, for its network or its method: only `trust_code` imports it.
"""

from __future__ import annotations

import hashlib
import logging
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timezone
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unseen import __version__
from unseen.bundle.file import FORMAT, check_facts, check_output, check_shapes, read_fields, write_bundle
from unseen.bundle.records import CalibrationRecord, FinetuneRecord, NetworkInfo, Taught, TrainingRecord, write_details
from unseen.data import imagenet_21k
from unseen.hierarchy.core import Hierarchy
from unseen.hierarchy.wordnet import BUILT_IN, wordnet_rows
from unseen.methods import Method, Solution, make_method
from unseen.methods.base import Problem
from unseen.methods.registry import check_code
from unseen.networks.run import Below, OnnxNetwork, PhotoNetwork
from unseen.photos.transforms import PhotoTransform
from unseen.util.errors import UnseenError
from unseen.util.files import DAMAGE
from unseen.vectors.class_vectors import ClassVectors

if TYPE_CHECKING:
    from unseen.networks.base import Network

logger = logging.getLogger(__name__)
NOT_KEPT = (
    "{} cannot be turned into an ONNX graph ({}): the bundle answers rows of features; for photos it needs torch and "
    "the network itself."
)
NEEDS_TORCH = (
    "{} needs its network in torch, which cannot be imported here ({}). Install torch; or stay on the CPU and without "
    "heat maps, with a bundle that holds its network."
)
INSIDE = ("onnx", "below")  # facts of the network that the bundle holds, which its file records apart
FORGED = (*DAMAGE, TypeError, AttributeError, LookupError, ArithmeticError)  # errors from facts of a wrong type


@dataclass
class Bundle:
    """A classifier for each of the N classes of a hierarchy, with everything needed to use and to audit them.

    `unseen.train` makes bundles; `unseen.load` turns one into a classifier for photos.

        score of class u for the features f (D) = projection(f) . classifiers[u]        both are parts of `solution`

    >>> from unseen.examples import fruits
    >>> file = fruits().bundle.save("my-bundle")
    >>> Bundle.load(file).seen_ids
    ['strawberry', 'lime']
    """

    hierarchy: Hierarchy  # N nodes
    seen: np.ndarray  # M, int64: rows of the hierarchy, in the network's class order
    known: np.ndarray  # M x P, float32: the network's own classifiers of the seen classes, [weight, bias]
    vectors: ClassVectors  # class vectors (N x S)
    solution: Solution  # the result of the method: classifiers (N x E) and projection (D -> E)
    method: str
    settings: dict[str, Any]  # of the method
    network: NetworkInfo
    seed: int = 0
    log: list[dict[str, Any]] = field(default_factory=list)  # of the training
    added: list[str] = field(default_factory=list)  # classes added after the training
    connecting: list[str] = field(default_factory=list)  # nodes of WordNet that link the added ones
    precision: str = "fp32"  # how the classifiers are stored: fp32 or fp16
    network_weights: dict[str, np.ndarray] | None = None  # finetuned ones
    onnx: bytes | None = field(default=None, repr=False)  # the network photos -> features, for ONNX Runtime
    training: TrainingRecord = field(default_factory=TrainingRecord)
    finetuning: FinetuneRecord | None = None
    calibration: CalibrationRecord | None = None
    guessed: list[str] = field(default_factory=list)  # added classes whose text vector is the mean of their parents'
    taught: dict[str, Taught] = field(default_factory=dict)  # class id -> what is kept of its photos
    prior: dict[str, Any] | None = None  # what `unseen.Model.prior` was set to; None: common
    made: dict[str, Any] = field(default_factory=lambda: _circumstances())  # when, and with which versions
    path: Path | None = None  # where it is saved
    origin: Path | None = None  # path of the bundle this one was derived from
    listed: tuple[Any, ...] = ()  # names of a list, if photos show nothing else; see `unseen.naming.listing`; not saved
    trust_code: bool = field(default=True, repr=False, compare=False)  # whether modules that it names may be imported

    def __len__(self) -> int:
        return len(self.hierarchy)

    @cached_property
    def ids(self) -> tuple[str, ...]:
        return self.hierarchy.ids

    @cached_property
    def seen_ids(self) -> list[str]:
        return [self.ids[row] for row in self.seen]

    @cached_property
    def is_seen(self) -> np.ndarray:
        """N, bool."""
        mask = np.zeros(len(self), dtype=bool)
        mask[self.seen] = True
        return mask

    @cached_property
    def is_novel(self) -> np.ndarray:
        """N, bool: nothing at or below the node is seen."""
        node, ancestor, _ = self.hierarchy.ancestor_pairs()  # a node is among its ancestors
        mask = np.ones(len(self), dtype=bool)
        mask[ancestor[self.is_seen[node]]] = False
        return mask

    @property
    def head(self) -> np.ndarray:
        """M x P: the network's seen classifiers today: after stage 2 the predicted ones; those of taught classes have
        moved towards their photos."""
        if self.finetuning is not None:
            return np.asarray(self.solution.classifiers[self.seen], np.float32)
        from unseen.bundle.teach import taught_head

        taught = {position: self.taught[id] for position, id in enumerate(self.seen_ids) if id in self.taught}
        return taught_head(self.known, taught) if taught else self.known

    @property
    def is_class(self) -> np.ndarray:
        """N, bool: the nodes that an answer may name.

        In the user's own hierarchy these are all nodes. In a built-in one, WordNet's nodes outside ImageNet-21K only
        connect the others, unless the user named them.
        """
        mask = np.ones(len(self), dtype=bool)
        if self.hierarchy.source.get("kind") in BUILT_IN:
            imagenet = set(imagenet_21k())
            others = wordnet_rows(self.ids) < 0
            mask[:] = [id in imagenet or other for id, other in zip(self.ids, others.tolist(), strict=True)]
        mask[self.hierarchy.indices(self.connecting)] = False
        named = [i for i in self.hierarchy.source.get("named", ()) if i in self.hierarchy]
        mask[self.hierarchy.indices([*self.added, *named])] = True
        return mask | self.is_seen

    def make_method(self, trust_code: bool = False) -> Method:
        """The method with its settings. `trust_code` imports the module that the bundle names for a method of your own,
        unless it is registered in this process; the log says which file that is."""
        check_code(self.method, self._where, trust_code or self.trust_code)
        try:
            return make_method(self.method, self.settings)
        except UnseenError as error:
            raise UnseenError(f"{self._where} was made by another version of {self.method}: {error}") from None

    def problem(self, hierarchy: Hierarchy | None = None, vectors: ClassVectors | None = None) -> Problem:
        """The problem that this bundle solves, without photos; on a grown hierarchy if one is given."""
        grown = hierarchy or self.hierarchy
        return Problem(grown, vectors or self.vectors, grown.indices(self.seen_ids), self.known)

    # -- the network ---------------------------------------------------------------------------------------------

    def open_network(self) -> OnnxNetwork | None:
        """The network that the bundle holds, for ONNX Runtime on a CPU; None if it holds none."""
        info = self.network
        if self.onnx is None or info.transform is None:
            return None
        if hashlib.sha256(self.onnx).hexdigest() != info.onnx:
            raise UnseenError(f"{self._where} holds another network than it says: train it again")
        position = {id: number for number, id in enumerate(info.class_ids)}
        head = np.full((len(position), info.num_features + 1), np.nan, np.float32)  # NaN: not in the hierarchy
        try:
            head[[position[id] for id in self.seen_ids]] = self.known
            below = None if info.below is None else Below(**info.below)
            facts = info.name, info.class_ids, PhotoTransform(**info.transform), info.checksum, head, below
            return OnnxNetwork(self.onnx, *facts)
        except (UnseenError, *FORGED) as error:
            raise UnseenError(f"{self._where}, its network: {error}") from None

    def keep_network(self, network: Network | OnnxNetwork) -> None:
        """Hold the network as an ONNX graph, so that nobody who uses the bundle needs torch or the network's code."""
        from unseen.networks.translate import translate

        self.onnx, problem = translate(network)
        if self.onnx is not None:
            self.network = replace(self.network, onnx=hashlib.sha256(self.onnx).hexdigest())
        elif network.takes_photos:
            logger.warning("%s", NOT_KEPT.format(network.name, problem))

    def load_network(self, trust_code: bool = False) -> Network | OnnxNetwork:
        """The network that these classifiers were made for, with its finetuned weights if there are any; in torch,
        for training, heat maps and GPUs.

        Only built-in networks, and weights in the bundle, are loaded without `trust_code`, here or when the bundle was
        loaded: other names lead to code, files or downloads that whoever made the bundle chose.
        """
        from unseen.networks.custom import check_network_code
        from unseen.networks.loading import is_built_in, is_own, load_network

        info = self.network
        if info.name.startswith("module/"):
            raise UnseenError(
                f"{self._where} was made for a network in memory ({info.name.removeprefix('module/')}), which it does "
                "not hold: build it again and pass it: unseen.load(bundle, network=from_module(network, class_ids))"
            )
        weights: Any = self.network_weights or info.weights
        if is_own(info.name):
            check_network_code(info.name, self._where, trust_code or self.trust_code)
        elif not (trust_code or self.trust_code or (is_built_in(info.name) and not isinstance(weights, str))):
            file = f" and the file {weights}" if isinstance(weights, str) else ""
            raise UnseenError(
                f"{self._where} names the network {info.name}{file}: loading it may read files and download weights "
                "that whoever made the bundle chose. If you trust them, pass trust_code=True, on the command line "
                "--trust-code; or load the network yourself: unseen.load(bundle, network=load_network(name))"
            )
        if isinstance(weights, str) and not Path(weights).is_file():
            raise UnseenError(
                f"{self._where} was made for {info.name} with the weights {info.weights}, which are not there: put the "
                "file back, or pass the network: unseen.load(bundle, network=load_network(name, weights=file))"
            )
        transform = PhotoTransform(**info.transform) if info.transform else None
        try:
            network = load_network(info.name, info.class_ids, weights, info.layer, transform)
        except UnseenError as error:  # a module or a file that is gone
            raise UnseenError(f"{self._where}, its network: {error}") from None
        except ImportError as error:
            raise UnseenError(NEEDS_TORCH.format(self._where, error)) from None
        self.check_network(network)
        return network

    @property
    def _where(self) -> str:
        return f"bundle {self.path}" if self.path else "this bundle"

    def take_network(self, network: Network | OnnxNetwork) -> None:
        """Put finetuned weights, if there are any, into a network that the user built; refuse a network that does not
        fit."""
        weights = self.network_weights
        if weights is not None and network.checksum != self.network.checksum and not isinstance(network, OnnxNetwork):
            network.load_weights(weights, f"the finetuned network of {self._where}")
        self.check_network(network)

    def check_network(self, network: PhotoNetwork) -> None:
        """Refuse a network whose features these classifiers do not fit."""
        info, where = self.network, self._where
        if network.num_features != info.num_features:
            raise UnseenError(
                f"{where} was made for {info.name} with {info.num_features} features; "
                f"{network.name} gives {network.num_features}. Train a bundle for this network."
            )
        if list(network.class_ids) != list(info.class_ids):
            raise UnseenError(f"{where} and {network.name} disagree on the seen classes or their order")
        if network.checksum != info.checksum:
            raise UnseenError(
                f"{where} was made for other weights of {info.name}: checksum {info.checksum[:12]}, "
                f"not {network.checksum[:12]}. Use the network that it was trained with, or train a new bundle."
            )

    # -- saving and loading --------------------------------------------------------------------------------------

    def change(self, **fields: Any) -> Bundle:
        """A copy with other fields. Without `overwrite` it replaces this bundle in its file, but no other bundle."""
        return replace(self, **fields, path=None, origin=self.path or self.origin)

    def check_output(self, path: str | Path, overwrite: bool = False) -> None:
        """Refuse a path that `save` would refuse, for this bundle or a copy with other fields, before work begins."""
        check_output(Path(path), self.path or self.origin, overwrite)

    def save(self, path: str | Path, precision: str | None = None, overwrite: bool = False) -> Path:
        """Write the bundle to one file, completely or not at all; `overwrite` replaces another bundle there.

        `precision` is fp32 or fp16, and stays as it was by default. It applies to the stored classifiers alone: answers
        are computed in fp32.
        """
        self.check_output(path, overwrite)
        self.precision = precision or self.precision
        write_bundle(self, Path(path))
        self.path = Path(path)
        return self.path

    @classmethod
    def load(cls, path: str | Path, verify: bool = True, trust_code: bool = False) -> Bundle:
        """The bundle in a file. `verify` compares its checksum. `trust_code` lets it import the modules of your own
        that it names when its network or its method is needed."""
        try:
            bundle = cls(**read_fields(Path(path), verify), trust_code=trust_code)
            check_facts(bundle)
            check_shapes(bundle)
        except FORGED as error:
            raise UnseenError(f"{path} holds what no bundle does ({error}): train it again") from None
        return bundle

    @contextmanager
    def reading_state(self) -> Iterator[None]:
        """Around a method's use of the arrays that it stored: in a forged file they may be anything."""
        try:
            yield
        except FORGED as error:
            if self.path is None and self.origin is None:
                raise
            where = f"bundle {self.path or self.origin}"
            raise UnseenError(f"{where} holds what {self.method} cannot use ({error}): train it again") from error

    def header(self) -> dict[str, Any]:
        """Everything except arrays and classes, as `unseen info BUNDLE` shows it."""
        coverage = self.vectors.coverage
        return {
            "format": FORMAT,
            "method": self.method,
            "settings": self.settings,
            "seed": self.seed,
            "nodes": len(self),
            "seen": len(self.seen),
            "hierarchy": self.hierarchy.source,
            "vectors": {"names": list(self.vectors.names), "provenance": list(self.vectors.provenance)},
            "without_vector": len(coverage.zero) if coverage is not None else None,
            "network": {key: value for key, value in asdict(self.network).items() if key not in INSIDE},
            "projection": {"kind": self.solution.projection.kind, "settings": self.solution.projection.settings()},
            "shape": list(self.solution.classifiers.shape),
            "precision": self.precision,
            "details": write_details(self.solution.record, self),
            "made": self.made,
        }


def _circumstances() -> dict[str, Any]:
    packages = {"unseen": __version__} | {name: version(name) for name in ("torch", "numpy", "scipy")}
    now = datetime.now(timezone.utc).isoformat(timespec="seconds")
    return {"at": now, "python": platform.python_version(), "packages": packages}
