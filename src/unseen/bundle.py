"""A bundle: what training leaves, and all that the rest of the package reads.

    BUNDLE/
      bundle.json              method, settings, seed, versions, provenance, checksums of the files below; written last
      classes.json             the hierarchy: ids, names, parents; which classes are seen; which were added later
      classifiers.safetensors  a row for every class (N x E), the projection of features, trust
      state.safetensors        the fitted method and the class vectors: what predicts classes that are added later
      network.safetensors      the network's weights, only after stage 2
      log.jsonl  README.md     the training log and a card

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
from safetensors.numpy import load_file, save

from unseen.assets import imagenet_21k, sha256
from unseen.card import card
from unseen.errors import UnseenError
from unseen.methods import Method, Solution, make_method
from unseen.problem import Problem
from unseen.projections import from_saved
from unseen.run import write_atomically, writing
from unseen.semantics import ClassVectors, Coverage
from unseen.taxonomy import Taxonomy

if TYPE_CHECKING:
    from unseen.backbones import Backbone

FORMAT = 1


@dataclass
class BackboneInfo:
    """Which network the classifiers belong to. `class_ids` is its own class order, by id."""

    name: str
    checksum: str
    num_features: int
    class_ids: list[str]
    layer: str | None = None  # the last linear layer, where it had to be named
    transform: dict[str, Any] | None = None  # the photo transform, where the network does not bring its own
    finetuned: bool = False


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
    added: list[str] = field(default_factory=list)
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
        """N, bool: what a photo may be called. WordNet's inner nodes outside ImageNet-21K only connect the others."""
        wordnet, imagenet = set(Taxonomy.wordnet().ids), set(imagenet_21k())
        added = set(self.added)
        mask = np.array([i in imagenet or i in added or i not in wordnet for i in self.ids], dtype=bool)
        return mask | self.is_seen

    def make_method(self) -> Method:
        return make_method(self.method, self.settings)

    def problem(self, taxonomy: Taxonomy | None = None, vectors: ClassVectors | None = None) -> Problem:
        """The problem that this bundle solves, as far as prediction needs it; on a grown hierarchy if one is given."""
        grown = taxonomy or self.taxonomy
        return Problem(grown, vectors or self.vectors, grown.indices(self.seen_ids), self.known)

    # -- the network ---------------------------------------------------------------------------------------------

    def load_backbone(self) -> Backbone:
        """The network that these classifiers were made for, with its finetuned weights if there are any."""
        from unseen.backbones import load_backbone

        info = self.backbone
        backbone = load_backbone(info.name, classes=info.class_ids, layer=info.layer)
        if self.network is not None:
            from torch import from_numpy

            backbone.load_weights({name: from_numpy(array) for name, array in self.network.items()})
        self.check_backbone(backbone)
        return backbone

    def check_backbone(self, backbone: Backbone) -> None:
        """Refuse a network whose features these classifiers do not fit."""
        info, where = self.backbone, f"bundle {self.path}" if self.path else "this bundle"
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

    def save(self, path: str | Path, precision: str = "fp32") -> Path:
        """Write the bundle beside its place, then move it there: a crash leaves the old one or the new one, whole."""
        path = Path(path)
        check_place(path)
        fresh = path.with_name(f".{path.name}.{os.getpid()}.saving")
        with writing(path):
            try:
                fresh.mkdir(parents=True)
                self._write_files(fresh, np.float16 if precision == "fp16" else np.float32)
                old = path.with_name(f".{path.name}.{os.getpid()}.old")
                if path.exists():
                    os.rename(path, old)
                os.rename(fresh, path)
                shutil.rmtree(old, ignore_errors=True)
            finally:
                shutil.rmtree(fresh, ignore_errors=True)
        self.path = path
        return path

    def _write_files(self, folder: Path, dtype: type) -> None:
        solution = self.solution
        arrays = {"classifiers": solution.classifiers.astype(dtype), "known": self.known}
        arrays |= {f"projection.{key}": value for key, value in solution.projection.arrays().items()}
        arrays |= {key: getattr(solution, key) for key in ("answers", "trust") if getattr(solution, key) is not None}
        state = {f"state.{key}": value for key, value in solution.state.items()}
        state |= {f"vectors.{i}": part for i, part in enumerate(self.vectors.parts)}
        classes = {"taxonomy": self.taxonomy.to_json(), "seen": self.seen_ids, "added": self.added}

        files = {
            "classes.json": json.dumps(classes, ensure_ascii=False).encode(),
            "classifiers.safetensors": _pack(arrays),
            "state.safetensors": _pack(state),
            "log.jsonl": "".join(json.dumps(record) + "\n" for record in self.log).encode(),
        }
        if self.network is not None:
            files["network.safetensors"] = _pack(self.network)
        for name, content in files.items():
            write_atomically(folder / name, content)
        header = self.header() | {"files": {name: sha256(folder / name) for name in files}}
        write_atomically(folder / "README.md", card(header).encode())
        write_atomically(folder / "bundle.json", json.dumps(header, indent=1, ensure_ascii=False).encode())

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
            "details": self.solution.details,
            "made": self.made,
        }

    # -- loading -------------------------------------------------------------------------------------------------

    @classmethod
    def load(cls, path: str | Path, verify: bool = True) -> Bundle:
        path = Path(path)
        header = _read_header(path)
        if verify:
            _verify_files(path, header["files"])
        try:
            classes = json.loads((path / "classes.json").read_text(encoding="utf-8"))
            arrays = load_file(path / "classifiers.safetensors")
            state = load_file(path / "state.safetensors")
            network = path / "network.safetensors"
            weights = load_file(network) if "network.safetensors" in header["files"] else None
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
                network=weights,
                made=header["made"],
                path=path,
            )
        except (KeyError, TypeError, ValueError, OSError, SafetensorError) as error:
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
        if not np.isfinite(solution.classifiers).all():
            raise UnseenError(f"{where}: the classifiers hold NaN or infinity: make the bundle again")


def check_place(path: Path) -> None:
    """Refuse to overwrite anything that is not a bundle, and a place that cannot be written, before the work begins."""
    if path.exists() and not path.is_dir():
        raise UnseenError(f"{path} is a file; a bundle is a folder: choose another name")
    if path.is_dir():
        ours = {"bundle.json", "checkpoint.safetensors", "log.jsonl"}
        names = {item.name for item in path.iterdir()}
        if names and not names & ours:
            raise UnseenError(f"{path} exists and is not a bundle: choose another name or remove it")
    parent = path.resolve().parent
    while not parent.exists():
        parent = parent.parent
    if not os.access(parent, os.W_OK):
        raise UnseenError(f"cannot write to {parent}: it is read-only for this user")


def _read_header(path: Path) -> dict[str, Any]:
    file = path / "bundle.json"
    if not file.exists():
        if (path / "checkpoint.safetensors").exists():
            raise UnseenError(f"{path} holds an unfinished training: go on with the same command and --resume")
        what = "has no bundle.json" if path.is_dir() else "does not exist" if not path.exists() else "is not a folder"
        raise UnseenError(f"{path} is not a bundle: it {what}. `unseen train --out {path}` makes one.")
    try:
        header = json.loads(file.read_text(encoding="utf-8"))
        if header["format"] > FORMAT:
            raise UnseenError(
                f"{path} was made by a newer version of unseen (format {header['format']}): upgrade unseen"
            )
        return header
    except (ValueError, KeyError, TypeError) as error:
        raise UnseenError(f"{file} is damaged ({error}): make the bundle again") from None


def _verify_files(path: Path, files: dict[str, str]) -> None:
    for name, expected in files.items():
        if Path(name).name != name or not (path / name).is_file():
            raise UnseenError(f"{path}: {name} is missing: make the bundle again, or copy it whole")
        if sha256(path / name) != expected:
            raise UnseenError(f"{path}: {name} was changed or damaged since the bundle was made (its checksum differs)")


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
    empty = ~np.any([part.any(axis=1) for part in parts], axis=0) if parts else np.ones(len(taxonomy), dtype=bool)
    zero = [taxonomy.ids[row] for row in np.flatnonzero(empty)]
    coverage = Coverage(classes=len(taxonomy), zero=zero, missed_words={})
    return ClassVectors(parts, tuple(saved["names"]), saved["provenance"], coverage)


def _pack(arrays: dict[str, np.ndarray]) -> bytes:
    return save({key: np.ascontiguousarray(value) for key, value in arrays.items()})


def _circumstances() -> dict[str, Any]:
    packages = {}
    for name in ("unseen", "torch", "numpy", "scipy"):
        try:
            packages[name] = version(name)
        except PackageNotFoundError:
            continue
    now = datetime.now(timezone.utc).isoformat(timespec="seconds")
    return {"at": now, "python": platform.python_version(), "packages": packages}
