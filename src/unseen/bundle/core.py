"""A bundle: what training leaves, and all that the rest of the package reads.

    BUNDLE/
      bundle.json              method, settings, seed, versions, provenance, checksums of the files below; written last
      classes.json             the hierarchy: ids, names, parents; which classes are seen; which were added later
      classifiers.safetensors  a row for every class (N x E), the projection of features, trust
      state.safetensors        the fitted method and the class vectors: what predicts classes that are added later
      network.safetensors      the network's weights, only after stage 2
      log.jsonl  README.md     the training log and a card
      retraining/              checkpoint and log of a training that is to replace the bundle, while it runs

Arrays are safetensors and the rest JSON: nothing in a bundle is ever executed. Every file is checked on load. A bundle
may name a module of the user's own, for its network or its method: it is imported only on `trust_code`.
"""

from __future__ import annotations

import platform
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unseen.assets import imagenet_21k
from unseen.bundle.backbone_info import BackboneInfo
from unseen.bundle.evidence import taught_head
from unseen.bundle.files import FORMAT
from unseen.bundle.lessons import Lesson
from unseen.bundle.places import check_replaces
from unseen.bundle.records import CalibrationRecord, FinetuneRecord, Records, TrainingRecord
from unseen.bundle.storage import check_shapes, read_fields, store_bundle
from unseen.errors import UnseenError
from unseen.methods import Method, Solution, get_method, make_method
from unseen.methods.problem import Problem
from unseen.methods.registry import check_code
from unseen.runtime.modules import announce
from unseen.semantics import ClassVectors
from unseen.taxonomy import Taxonomy
from unseen.taxonomy.sources import BUILT_IN
from unseen.taxonomy.wordnet import is_wordnet_id

if TYPE_CHECKING:
    from unseen.backbones import Backbone


@dataclass
class Bundle:
    """A classifier for each of the N classes of a hierarchy, and all that is needed to use and to audit them.

    `unseen.train` makes bundles, `unseen.load` makes a classifier for photos of one.

        score of class u for the features f (D) = projection(f) . classifiers[u]        both are parts of `solution`

    Args:
        taxonomy: The hierarchy, N nodes.
        seen: M, int64: rows of the taxonomy, in the backbone's class order.
        known: M x P, float32: the network's own classifiers of the seen classes, [weight, bias].
        vectors: What is known of each node in numbers (N x S).
        solution: What the method found: classifiers (N x E) and projection (D -> E).
        method: Its name.
        settings: Its settings.
        backbone: Facts about the network that they were made for.
        seed: Of the training.
        log: Of the training.
        added: Classes that were not there when it was trained.
        connecting: Nodes that came along from WordNet to link those in.
        precision: How the classifiers are stored, fp32 or fp16.
        network: Finetuned weights.
        training: What stage 1 took.
        finetuning: What stage 2 took, after it.
        calibration: What `unseen.calibrate` chose.
        guessed: Added classes whose text vector is the mean of their parents'.
        taught: What is kept of the photos that classes were taught with, by class id.
        made: When, and with which versions.
        path: Where it is saved.
        origin: Where the bundle is saved that this one is a change of.
        trust_code: Whether modules that it names may be imported: one made here yes, one that was loaded if told so.

    >>> import unseen
    >>> from torch import nn
    >>> animals = unseen.Taxonomy.from_edges([("dog", "animal"), ("cat", "animal"), ("fox", "animal")])
    >>> network = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(3, 2))
    >>> backbone = unseen.from_module(network, ["dog", "cat"])
    >>> bundle = unseen.train("structural", animals, "glove", backbone)
    >>> folder = bundle.save("my-bundle")
    >>> unseen.Bundle.load(folder).seen_ids
    ['dog', 'cat']
    """

    taxonomy: Taxonomy
    seen: np.ndarray
    known: np.ndarray
    vectors: ClassVectors
    solution: Solution
    method: str
    settings: dict[str, Any]
    backbone: BackboneInfo
    seed: int = 0
    log: list[dict] = field(default_factory=list)
    added: list[str] = field(default_factory=list)
    connecting: list[str] = field(default_factory=list)
    precision: str = "fp32"
    network: dict[str, np.ndarray] | None = None
    training: TrainingRecord = field(default_factory=TrainingRecord)
    finetuning: FinetuneRecord | None = None
    calibration: CalibrationRecord | None = None
    guessed: list[str] = field(default_factory=list)
    taught: dict[str, Lesson] = field(default_factory=dict)
    made: dict[str, Any] = field(default_factory=lambda: _circumstances())
    path: Path | None = None
    origin: Path | None = None
    trust_code: bool = field(default=True, repr=False, compare=False)

    def __len__(self) -> int:
        return len(self.taxonomy)

    @property
    def ids(self) -> tuple[str, ...]:
        return self.taxonomy.ids

    @property
    def seen_ids(self) -> list[str]:
        return [self.ids[row] for row in self.seen]

    @property
    def is_seen(self) -> np.ndarray:
        """N, bool."""
        mask = np.zeros(len(self), dtype=bool)
        mask[self.seen] = True
        return mask

    @property
    def head(self) -> np.ndarray:
        """M x P: the seen classifiers of the network as it is now: stage 2 trains it under predicted ones, and photos
        may have taught some of them more."""
        if self.finetuning is not None:
            return np.asarray(self.solution.classifiers[self.seen], np.float32)
        lessons = {place: self.taught[id] for place, id in enumerate(self.seen_ids) if id in self.taught}
        return taught_head(self.known, lessons) if lessons else self.known

    @property
    def is_class(self) -> np.ndarray:
        """N, bool: what a photo may be called.

        In a hierarchy of the user's own, all of it. In the built-in ones WordNet's nodes outside ImageNet-21K only
        connect the others, but for those that the user named.
        """
        mask = np.ones(len(self), dtype=bool)
        if self.taxonomy.source.get("kind") in BUILT_IN:
            imagenet = set(imagenet_21k())
            mask[:] = [i in imagenet or not is_wordnet_id(i) for i in self.ids]
        mask[self.taxonomy.indices(self.connecting)] = False
        named = [i for i in self.taxonomy.source.get("named", ()) if i in self.taxonomy]
        mask[self.taxonomy.indices([*self.added, *named])] = True
        return mask | self.is_seen

    def make_method(self, trust_code: bool = False, say: Callable[[str], None] = announce) -> Method:
        """The method with its settings. One of your own must be registered in this process, or else be trusted:
        `trust_code` imports the module that the bundle names, and tells which file that is."""
        check_code(self.method, trust_code or self.trust_code, say)
        try:
            retired = get_method(self.method).retired
            return make_method(self.method, {key: v for key, v in self.settings.items() if key not in retired})
        except UnseenError as error:
            raise UnseenError(f"{self._where} was made by another version of {self.method}: {error}") from None

    def problem(self, taxonomy: Taxonomy | None = None, vectors: ClassVectors | None = None) -> Problem:
        """The problem that this bundle solves, as far as prediction needs it; on a grown hierarchy if one is given."""
        grown = taxonomy or self.taxonomy
        return Problem(grown, vectors or self.vectors, grown.indices(self.seen_ids), self.known)

    # -- the network ---------------------------------------------------------------------------------------------

    def load_backbone(self, trust_code: bool = False, say: Callable[[str], None] = announce) -> Backbone:
        """The network that these classifiers were made for, with its finetuned weights if there are any.

        For a network of your own this imports the module that the bundle names, if it is trusted: here, or when the
        bundle was loaded. `say` is told which file that is.
        """
        from unseen.backbones import PhotoTransform, load_backbone
        from unseen.backbones.custom import check_network_code
        from unseen.backbones.loading import is_own

        info = self.backbone
        if info.name.startswith("module/"):
            raise UnseenError(
                f"{self._where} was made for a network in memory ({info.name.removeprefix('module/')}), which it does "
                "not hold: build it again and pass it: unseen.load(bundle, backbone=from_module(network, class_ids))"
            )
        if is_own(info.name):
            check_network_code(info.name, self._where, trust_code or self.trust_code, say)
        weights: Any = info.weights
        if self.network is not None:
            from torch import from_numpy

            weights = {name: from_numpy(array) for name, array in self.network.items()}
        elif info.weights is not None and not Path(info.weights).is_file():
            raise UnseenError(
                f"{self._where} was made for {info.name} with the weights {info.weights}, which are not there: put the "
                "file back, or pass the network: unseen.load(bundle, backbone=load_backbone(name, weights=file))"
            )
        try:
            transform = None if not info.transform else PhotoTransform(**info.transform)
        except (TypeError, ValueError) as error:
            raise UnseenError(f"{self._where} has a damaged transform ({error}): make the bundle again") from None
        try:
            backbone = load_backbone(info.name, info.class_ids, weights, info.layer, transform)
        except UnseenError as error:  # a module or a file that is gone
            raise UnseenError(f"{self._where}, its network: {error}", *error.arguments) from None
        self.check_backbone(backbone)
        return backbone

    @property
    def _where(self) -> str:
        return f"bundle {self.path}" if self.path else "this bundle"

    def take_backbone(self, backbone: Backbone) -> Backbone:
        """A network that the user built: finetuned weights, if there are any, are put into it; one that does not fit is
        refused."""
        if self.network is not None and backbone.checksum != self.backbone.checksum:
            from torch import from_numpy

            weights = {name: from_numpy(array) for name, array in self.network.items()}
            backbone.load_weights(weights, f"the finetuned network of {self._where}")
        self.check_backbone(backbone)
        return backbone

    def check_backbone(self, backbone: Backbone) -> None:
        """Refuse a network whose features these classifiers do not fit."""
        info, where = self.backbone, self._where
        if backbone.num_features != info.num_features:
            raise UnseenError(
                f"{where} was made for {info.name} with {info.num_features} features; "
                f"{backbone.name} gives {backbone.num_features}. Train a bundle for this network."
            )
        if list(backbone.class_ids) != list(info.class_ids):
            raise UnseenError(f"{where} and {backbone.name} disagree on the seen classes or their order")
        if backbone.checksum != info.checksum:
            raise UnseenError(
                f"{where} was made for other weights of {info.name}: checksum {info.checksum[:12]}, "
                f"not {backbone.checksum[:12]}. Use the network that it was trained with, or train a new bundle."
            )

    # -- saving and loading --------------------------------------------------------------------------------------

    def change(self, **fields: Any) -> Bundle:
        """A copy with other fields. It may be saved over this bundle, and over no other unasked."""
        return replace(self, **fields, path=None, origin=self.path or self.origin)

    def check_output(self, path: str | Path, overwrite: bool = False) -> None:
        """Refuse a place that `save` would refuse, for this bundle or a change of it, before the work begins."""
        check_replaces(Path(path), self.path or self.origin, overwrite)

    def save(self, path: str | Path, precision: str | None = None, overwrite: bool = False) -> Path:
        """Write the bundle into a folder, whole or not at all; another bundle there is replaced only on `overwrite`.

        `precision` is fp32 or fp16, by default what it was before. Only the classifiers are stored so, and no answer is
        computed in fp16.
        """
        self.check_output(path, overwrite)
        self.precision = precision or self.precision
        store_bundle(self, Path(path))
        return Path(path)

    @classmethod
    def load(cls, path: str | Path, verify: bool = True, trust_code: bool = False) -> Bundle:
        """The bundle in a folder. `verify` compares the checksum of every file. `trust_code` lets it import the modules
        of your own that it names, when its network or its method is needed."""
        bundle = cls(**read_fields(Path(path), verify), trust_code=trust_code)
        check_shapes(bundle)
        return bundle

    def header(self) -> dict[str, Any]:
        """All but the arrays and the classes: what `unseen info BUNDLE` tells."""
        coverage = self.vectors.coverage
        taught = [lesson.record(id) for id, lesson in self.taught.items()]
        records = Records(self.solution.record, self.training, self.finetuning, self.calibration, self.guessed, taught)
        return {
            "format": FORMAT,
            "method": self.method,
            "settings": self.settings,
            "seed": self.seed,
            "nodes": len(self),
            "seen": len(self.seen),
            "hierarchy": self.taxonomy.source,
            "vectors": {"names": list(self.vectors.names), "provenance": list(self.vectors.provenance)},
            "without_vector": len(coverage.zero) if coverage is not None else None,
            "backbone": asdict(self.backbone),
            "projection": {"kind": self.solution.projection.kind, "settings": self.solution.projection.settings()},
            "shape": list(self.solution.classifiers.shape),
            "precision": self.precision,
            "details": records.to_details(),
            "made": self.made,
        }


def _circumstances() -> dict[str, Any]:
    packages = {}
    for name in ("unseen", "torch", "numpy", "scipy"):
        try:
            packages[name] = version(name)
        except PackageNotFoundError:
            continue
    now = datetime.now(timezone.utc).isoformat(timespec="seconds")
    return {"at": now, "python": platform.python_version(), "packages": packages}
