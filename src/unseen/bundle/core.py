"""A bundle: what training leaves, and all that the rest of the package reads.

    BUNDLE/
      bundle.json              method, settings, seed, versions, provenance, checksums of the files below; written last
      classes.json             the hierarchy: ids, names, parents; which classes are seen; which were added later
      classifiers.safetensors  a row for every class (N x E), the projection of features, trust
      state.safetensors        the fitted method and the class vectors: what predicts classes that are added later
      network.safetensors      the network's weights, only after stage 2
      log.jsonl  README.md     the training log and a card
      retraining/              checkpoint and log of a training that is to replace the bundle, while it runs

Arrays are safetensors and the rest JSON: nothing in a bundle is ever executed. Every file is checked on load.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file

from unseen.assets import imagenet_21k
from unseen.bundle.card import card
from unseen.bundle.files import FORMAT, NETWORK, pack, read_header, verify_files
from unseen.bundle.places import check_place
from unseen.errors import UnseenError
from unseen.methods import Method, Solution, make_method
from unseen.methods.problem import Problem
from unseen.methods.projections import from_saved
from unseen.runtime.files import sha256, write_atomically, writing
from unseen.semantics import ClassVectors, Coverage
from unseen.taxonomy import Taxonomy
from unseen.taxonomy.sources import BUILT_IN

if TYPE_CHECKING:
    from unseen.backbones import Backbone

PRECISIONS = {"fp32": np.float32, "fp16": np.float16}


@dataclass
class BackboneInfo:
    """Which network the classifiers belong to. `class_ids` is its own class order, by id."""

    name: str
    checksum: str
    num_features: int
    class_ids: list[str]
    layer: str | None = None  # the last linear layer, where the network does not tell
    transform: dict[str, Any] | None = None  # how photos are prepared
    weights: str | None = None  # the file of weights, where they are the user's own
    finetuned: bool = False

    @classmethod
    def of(cls, backbone: Backbone) -> BackboneInfo:
        """What is needed to load a network again, and to tell whether it is still the same."""
        file = backbone.weights_file
        return cls(
            name=backbone.name,
            checksum=backbone.checksum,
            num_features=backbone.num_features,
            class_ids=list(backbone.class_ids),
            layer=getattr(backbone, "layer", None),
            transform=json.loads(json.dumps(backbone.transform.to_dict())),
            weights=str(Path(file).resolve()) if file else None,
        )


@dataclass
class Bundle:
    taxonomy: Taxonomy
    seen: np.ndarray  # M, int64: rows of the taxonomy, in the backbone's class order
    known: np.ndarray  # M x P, float32: the network's own classifiers of the seen classes, [weight, bias]
    vectors: ClassVectors
    solution: Solution
    method: str
    settings: dict[str, Any]
    backbone: BackboneInfo
    seed: int = 0
    log: list[dict] = field(default_factory=list)
    added: list[str] = field(default_factory=list)  # classes that were not there when it was trained
    connecting: list[str] = field(default_factory=list)  # nodes that came along from WordNet to link those in
    precision: str = "fp32"  # how the classifiers are stored
    network: dict[str, np.ndarray] | None = None  # finetuned weights
    made: dict[str, Any] = field(default_factory=lambda: _circumstances())
    path: Path | None = None

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
    def is_class(self) -> np.ndarray:
        """N, bool: what a photo may be called.

        In a hierarchy of the user's own, all of it. In the built-in ones WordNet's nodes outside ImageNet-21K only
        connect the others, but for those that the user named.
        """
        mask = np.ones(len(self), dtype=bool)
        if self.taxonomy.source.get("kind") in BUILT_IN:
            imagenet, wordnet = set(imagenet_21k()), Taxonomy.wordnet()
            mask[:] = [i in imagenet or i not in wordnet for i in self.ids]
        mask[self.taxonomy.indices(self.connecting)] = False
        named = [i for i in self.taxonomy.source.get("named", ()) if i in self.taxonomy]
        mask[self.taxonomy.indices([*self.added, *named])] = True
        return mask | self.is_seen

    def make_method(self) -> Method:
        try:
            return make_method(self.method, self.settings)
        except UnseenError as error:
            raise UnseenError(f"{self._where} was made by another version of {self.method}: {error}") from None

    def problem(self, taxonomy: Taxonomy | None = None, vectors: ClassVectors | None = None) -> Problem:
        """The problem that this bundle solves, as far as prediction needs it; on a grown hierarchy if one is given."""
        grown = taxonomy or self.taxonomy
        return Problem(grown, vectors or self.vectors, grown.indices(self.seen_ids), self.known)

    # -- the network ---------------------------------------------------------------------------------------------

    def load_backbone(self) -> Backbone:
        """The network that these classifiers were made for, with its finetuned weights if there are any.

        For a network of the user's own this imports the module that it was made by.
        """
        from unseen.backbones import PhotoTransform, load_backbone

        info = self.backbone
        if info.name.startswith("module/"):
            raise UnseenError(
                f"{self._where} was made for a network in memory ({info.name.removeprefix('module/')}), which it does "
                "not hold: build it again and pass it: unseen.load(bundle, backbone=from_module(network, class_ids))"
            )
        weights: Any = info.weights
        if self.network is not None:
            from torch import from_numpy

            weights = {name: from_numpy(array) for name, array in self.network.items()}
        elif info.weights is not None and not Path(info.weights).is_file():
            raise UnseenError(
                f"{self._where} was made for {info.name} with the weights {info.weights}, which are not there: put the "
                "file back, or pass the network: unseen.load(bundle, backbone=load_backbone(name, weights=file))"
            )
        transform = None if info.transform is None else PhotoTransform(**info.transform)
        backbone = load_backbone(info.name, info.class_ids, weights, info.layer, transform)
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

    # -- saving --------------------------------------------------------------------------------------------------

    def save(self, path: str | Path, precision: str | None = None, training: bool = False) -> Path:
        """Write the bundle beside its place, then move it there: a failure leaves the old one or the new one, whole.

        `precision` is fp32 or fp16, by default what it was before. Only the classifiers are stored so, and no answer is
        computed in fp16. `training`: it ends the training there, whose checkpoint goes; else an interrupted one is kept
        and nothing is saved.
        """
        path = Path(path)
        self.precision = precision or self.precision
        if self.precision not in PRECISIONS:
            raise UnseenError(f"classifiers are stored as {' or '.join(PRECISIONS)}, not {self.precision!r}")
        check_place(path, training)
        place = path.resolve()  # of a link, the folder that it leads to
        fresh, old = (place.with_name(f".{place.name}.{os.getpid()}.{state}") for state in ("saving", "old"))
        with writing(path):
            try:
                fresh.mkdir(parents=True)
                self._write_files(fresh)
                if place.exists():
                    os.rename(place, old)
                os.rename(fresh, place)
                shutil.rmtree(old, ignore_errors=True)
            finally:
                if old.exists() and not place.exists():  # stopped between the two
                    os.rename(old, place)
                shutil.rmtree(fresh, ignore_errors=True)
        self.path = path
        return path

    def _write_files(self, folder: Path) -> None:
        solution = self.solution
        with np.errstate(over="ignore"):
            classifiers = solution.classifiers.astype(PRECISIONS[self.precision])
        if not np.isfinite(classifiers).all():
            raise UnseenError(f"the classifiers hold numbers that are not finite in {self.precision}: nothing is saved")
        arrays = {"classifiers": classifiers, "known": self.known}
        arrays |= {f"projection.{key}": value for key, value in solution.projection.arrays().items()}
        arrays |= {key: getattr(solution, key) for key in ("answers", "trust") if getattr(solution, key) is not None}
        state = {f"state.{key}": value for key, value in solution.state.items()}
        state |= {f"vectors.{i}": part for i, part in enumerate(self.vectors.parts)}
        classes = {"taxonomy": self.taxonomy.to_json(), "seen": self.seen_ids, "added": self.added}
        classes["connecting"] = self.connecting

        files = {
            "classes.json": _encode(json.dumps(classes, ensure_ascii=False)),
            "classifiers.safetensors": pack(arrays),
            "state.safetensors": pack(state),
            "log.jsonl": "".join(json.dumps(record) + "\n" for record in self.log).encode(),
        }
        if self.network is not None:
            files[NETWORK] = pack(self.network)
        for name, content in files.items():
            write_atomically(folder / name, content)
        header = self.header() | {"files": {name: sha256(folder / name) for name in files}}
        write_atomically(folder / "README.md", _encode(card(header)))
        write_atomically(folder / "bundle.json", _encode(json.dumps(header, indent=1, ensure_ascii=False)))

    def header(self) -> dict[str, Any]:
        """All but the arrays and the classes: what `unseen info BUNDLE` tells."""
        coverage = self.vectors.coverage
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
            "details": self.solution.details,
            "made": self.made,
        }

    # -- loading -------------------------------------------------------------------------------------------------

    @classmethod
    def load(cls, path: str | Path, verify: bool = True) -> Bundle:
        path = Path(path)
        header = read_header(path)
        if verify:
            verify_files(path, header["files"])
        try:
            classes = json.loads((path / "classes.json").read_text(encoding="utf-8"))
            arrays = load_file(path / "classifiers.safetensors")
            state = load_file(path / "state.safetensors")
            weights = load_file(path / NETWORK) if NETWORK in header["files"] else None
            lines = (path / "log.jsonl").read_text(encoding="utf-8").splitlines()
            taxonomy = Taxonomy.from_dict(classes["taxonomy"])
            parts = tuple(state[f"vectors.{i}"] for i in range(len(header["vectors"]["names"])))
            bundle = cls(
                taxonomy=taxonomy,
                seen=taxonomy.indices(classes["seen"]),
                known=arrays["known"],
                vectors=_vectors(taxonomy, parts, header["vectors"]),
                solution=_solution(header, arrays, state),
                method=header["method"],
                settings=header["settings"],
                backbone=BackboneInfo(**header["backbone"]),
                seed=header["seed"],
                log=[json.loads(line) for line in lines],
                added=classes["added"],
                connecting=classes["connecting"],
                precision=header["precision"],
                network=weights,
                made=header["made"],
                path=path,
            )
        except (LookupError, TypeError, ValueError, AttributeError, OSError, SafetensorError) as error:
            raise UnseenError(f"{path} is damaged ({type(error).__name__}: {error}): make the bundle again") from None
        bundle._check_shapes()
        return bundle

    def _check_shapes(self) -> None:
        solution, where = self.solution, self.path
        nodes = {"classifiers": len(solution.classifiers)} | {
            f"vectors.{i}": len(part) for i, part in enumerate(self.vectors.parts)
        }
        nodes |= {
            key: len(getattr(solution, key)) for key in ("answers", "trust") if getattr(solution, key) is not None
        }
        wrong = [f"{key} has {count}" for key, count in nodes.items() if count != len(self)]
        if wrong:
            raise UnseenError(f"{where}: {len(self)} classes, but {', '.join(wrong)} rows: make the bundle again")
        if len(self.known) != len(self.seen):
            raise UnseenError(f"{where}: {len(self.seen)} seen classes, but {len(self.known)} known classifiers")
        self._check_widths()
        self.taxonomy.indices([*self.added, *self.connecting])
        if not (np.isfinite(solution.classifiers).all() and np.isfinite(self.known).all()):
            raise UnseenError(f"{where}: the classifiers hold NaN or infinity: make the bundle again")

    def _check_widths(self) -> None:
        """Whether features of the network can be scored."""
        features = self.backbone.num_features
        if self.known.shape[1:] != (features + 1,):
            raise UnseenError(
                f"{self.path}: {features} features, but known classifiers of shape {self.known.shape}: "
                "make the bundle again"
            )
        try:
            scored = self.solution.projection(np.zeros((1, features), np.float32)) @ self.solution.classifiers[:1].T
            fits = scored.shape == (1, 1)
        except (UnseenError, ValueError, IndexError):
            fits = False
        if not fits:
            raise UnseenError(f"{self.path}: the classifiers do not fit {features} features: make the bundle again")


def _encode(text: str) -> bytes:
    """UTF-8. The name of a file that is not Unicode holds lone surrogates: escaped they are valid JSON too."""
    return text.encode(errors="backslashreplace")


def _solution(header: dict, arrays: dict, state: dict) -> Solution:
    saved = header["projection"]
    prefix = "projection."
    projection = {key[len(prefix) :]: value for key, value in arrays.items() if key.startswith(prefix)}
    return Solution(
        classifiers=arrays["classifiers"].astype(np.float32),
        projection=from_saved(saved["kind"], projection, saved["settings"]),
        state={key[len("state.") :]: value for key, value in state.items() if key.startswith("state.")},
        details=header["details"],
        answers=arrays.get("answers"),
        trust=arrays.get("trust"),
    )


def _vectors(taxonomy: Taxonomy, parts: tuple[np.ndarray, ...], saved: dict) -> ClassVectors:
    names = tuple(saved["names"])
    return ClassVectors(parts, names, saved["provenance"], Coverage.of(taxonomy, parts, names))


def _circumstances() -> dict[str, Any]:
    packages = {}
    for name in ("unseen", "torch", "numpy", "scipy"):
        try:
            packages[name] = version(name)
        except PackageNotFoundError:
            continue
    now = datetime.now(timezone.utc).isoformat(timespec="seconds")
    return {"at": now, "python": platform.python_version(), "packages": packages}
