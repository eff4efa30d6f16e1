"""The benchmarks of zero-shot papers with attributes: AWA1, AWA2, CUB, SUN, aPY and FLO as `xlsa17` distributes them.

    DATA/AWA2/res101.mat        features (D x n), labels (n x 1, from 1)
    DATA/AWA2/att_splits.mat    att (A x C), trainval_loc, test_seen_loc, test_unseen_loc (from 1); perhaps
                                allclasses_names (C), which FLO lacks

Attributes are the class vectors, and the splits are the proposed ones (Xian et al., "Zero-Shot Learning: A
Comprehensive Evaluation of the Good, the Bad and the Ugly"). There is no hierarchy: all classes are below one root. The
settings of a method are chosen on hidden training classes, never on test photos.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from unseen import Hierarchy, Problem, Run, Solution, UnseenError
from unseen.answers import Scorer
from unseen.evaluation import average_hits, class_hits, harmonic_mean
from unseen.methods import get_method, make_method, method_names
from unseen.networks import SeenFeatures
from unseen.vectors import ClassVectors
from unseen_lab.methods.photo_classes import PhotoClasses
from unseen_lab.tables.levels import FOLDER, tomllib
from unseen_lab.tables.table import Table, figure

logger = logging.getLogger("unseen.lab")  # below the logger that the command line shows
FIGURES = ("T1", "u", "s", "H")
FILES = ("res101.mat", "att_splits.mat")
PARTS = ("trainval", "test_seen", "test_unseen")
SHRINKAGE = 0.1  # of the discriminants' covariance towards a multiple of the identity


@dataclass(frozen=True)
class Dataset:
    """Photos as features, classes as attributes, and which photos are for what."""

    name: str
    features: np.ndarray  # n x D, float32
    labels: np.ndarray  # n, rows of `attributes`
    classes: tuple[str, ...]
    attributes: np.ndarray  # C x A, float32
    parts: dict[str, np.ndarray]  # rows of `features`

    @classmethod
    def read(cls, folder: Path) -> Dataset:
        """A folder with both files, or an error that says what is wrong with them."""
        photos = _load(folder / FILES[0], ("features", "labels"))
        splits = _load(folder / FILES[1], ("att", *(f"{part}_loc" for part in PARTS)), ("allclasses_names",))
        features, labels = np.asarray(photos["features"], np.float32).T, _positions(photos["labels"])
        attributes = np.asarray(splits["att"], np.float32).T
        cells = splits.get("allclasses_names", np.arange(1, len(attributes) + 1))
        names = tuple(str(np.ravel(cell)[0]) if np.size(cell) else "" for cell in np.ravel(cells))
        parts = {part: _positions(splits[f"{part}_loc"]) for part in PARTS}
        wrong = [
            (len(labels) != len(features), f"{len(features)} photos, but {len(labels)} labels"),
            (len(names) != len(attributes), f"{len(names)} classes, but attributes of {len(attributes)}"),
            (_outside(labels, len(names)), f"a label is not one of the {len(names)} classes"),
            (any(_outside(rows, len(labels)) for rows in parts.values()), f"a photo beyond {len(labels)} in a split"),
            (not all(map(len, parts.values())), "a split is empty"),
            (not (np.isfinite(features).all() and np.isfinite(attributes).all()), "NaN or infinity in the numbers"),
        ]  # fmt: skip
        reasons = [reason for is_wrong, reason in wrong if is_wrong]
        if reasons:
            raise UnseenError(f"{folder}: is not a data set of xlsa17: {'; '.join(reasons)}")
        return cls(folder.name, features, labels, names, attributes, parts)

    @property
    def seen(self) -> np.ndarray:
        """Classes with photos to learn from."""
        return np.unique(self.labels[self.parts["trainval"]])

    def problem(self) -> Problem:
        """The classes below one root, attributes as vectors, discriminants as known classifiers."""
        ids = [f"class-{row}" for row in range(len(self.classes))]
        edges = [(id, "root") for id in ids]
        hierarchy = Hierarchy.from_edges(edges, dict(zip(ids, self.classes, strict=True)))
        matrix = np.zeros((len(hierarchy), self.attributes.shape[1]), np.float32)
        matrix[hierarchy.indices(ids)] = self.attributes
        vectors = ClassVectors((matrix,), ("attributes",), [{"kind": "attributes", "name": self.name}])
        rows = self.parts["trainval"]
        photos = SeenFeatures(self.features[rows], np.searchsorted(self.seen, self.labels[rows]))
        seen = hierarchy.indices([ids[row] for row in self.seen])
        return Problem(hierarchy, vectors, seen, discriminants(photos, len(seen)), photos)

    def measure(self, problem: Problem, solution: Solution) -> dict[str, float]:
        """T1, u, s and H in per cent, averaged over classes."""
        nodes = problem.hierarchy.indices([f"class-{row}" for row in range(len(self.classes))])
        unseen = np.setdiff1d(nodes, problem.seen)

        def accuracy(part: str, candidates: np.ndarray) -> float:
            rows = self.parts[part]
            scorer = Scorer.of_matrix(solution.classifiers, candidates, answers=solution.answers)
            truth, points = nodes[self.labels[rows]], solution.projection(self.features[rows])
            ranks = scorer.ranks(points, truth)
            _, photos, sums = class_hits(truth, ranks.greater, ranks.equal, ks=(1,))
            return average_hits(photos, sums, (1,))["class"]["hit@1"]

        t1, u, s = accuracy("test_unseen", unseen), accuracy("test_unseen", nodes), accuracy("test_seen", nodes)
        return dict(zip(FIGURES, (t1, u, s, round(harmonic_mean(s, u) or 0.0, 4)), strict=True))


def discriminants(photos: SeenFeatures, classes: int) -> np.ndarray:
    """[w, b] of each class (C x (D + 1)): w = S^-1 (m - m0), b = -w . (m + m0) / 2, with class means m, their mean m0
    and the covariance S within classes, shrunk towards its mean variance."""
    data = PhotoClasses(photos.matrix, np.arange(len(photos.labels)), photos.labels, np.ones((classes, 1)),
                        np.arange(classes))  # fmt: skip
    means, counts = data.class_means(), np.bincount(photos.labels, minlength=classes)
    within = (data.second_moment() - (means * counts[:, None]).T @ means) / max(len(photos.labels), 1)
    variance = np.trace(within) / len(within)
    shrunk, centre = (1 - SHRINKAGE) * within + SHRINKAGE * variance * np.eye(len(within)), means.mean(axis=0)
    weights = np.linalg.solve(shrunk, (means - centre).T).T
    bias = -(weights * (means + centre)).sum(axis=1, keepdims=True) / 2
    return np.concatenate([weights, bias], axis=1).astype(np.float32)


def run_benchmarks(data: Path, methods: Sequence[str] | None = None, run: Run | None = None) -> dict[str, Any]:
    """{"table", "notes", "datasets": [{"name", "classes", "seen", "photos", "rows": [{"method", "measured",
    "published"}]}]}: every method on every data set in `data`."""
    recipe = load_published()
    names = _applying(methods or recipe["methods"], recipe["methods"])
    folders = find_datasets(data)
    for folder in folders:
        Dataset.read(folder)  # or an error, before anything is trained
    known = sorted({name for published in recipe["published"].values() for name in published})
    result: dict[str, Any] = {"table": "xlsa17", "title": recipe["title"], "notes": recipe["notes"], "datasets": []}
    for folder in folders:
        dataset = Dataset.read(folder)
        if dataset.name.upper() not in known:
            logger.info("no published figures for %s; there are some for %s", dataset.name, ", ".join(known))
        problem, rows = dataset.problem(), []
        for name in names:
            logger.info("  %s: %s", dataset.name, name)
            solution = make_method(name, {}).fit(problem, run or Run(show_progress=False))
            published = recipe["published"].get(name, {}).get(dataset.name.upper(), [])
            quoted = {key: value for key, value in zip(FIGURES, published, strict=False) if value == value}
            rows.append({"method": name, "measured": dataset.measure(problem, solution), "published": quoted,
                         "chosen": solution.record.chosen})  # fmt: skip
        sizes = {"classes": len(dataset.classes), "seen": len(dataset.seen), "attributes": dataset.attributes.shape[1]}
        photos = {part: len(rows) for part, rows in dataset.parts.items()}
        result["datasets"].append({"name": dataset.name, **sizes, "photos": photos, "rows": rows})
    return result


def _applying(names: Sequence[str], apply: Sequence[str]) -> list[str]:
    for name in names:
        get_method(name)  # or an error
        if name in method_names() and name not in apply:
            raise UnseenError(f"{name} needs a hierarchy, which xlsa17 does not have. Choose from: {', '.join(apply)}")
    return list(names)


def load_published() -> dict[str, Any]:
    return tomllib.loads((FOLDER / "xlsa17.toml").read_text(encoding="utf-8"))


def find_datasets(data: Path) -> list[Path]:
    """The folders with both files: `data` itself, in it, or in its data/, as the archive unpacks."""
    if not data.is_dir():
        raise UnseenError(f"{data}: there is no such folder; name the folder data/ of xlsa17, or one of its data sets")
    places = [data, *sorted(data.glob("*/")), *sorted(data.glob("data/*/")), *sorted(data.glob("xlsa17/data/*/"))]
    folders = [place for place in places if any((place / name).is_file() for name in FILES)]
    for place in folders:
        lacking = [name for name in FILES if not (place / name).is_file()]
        if lacking:
            raise UnseenError(f"{place}: lacks {lacking[0]}, which xlsa17 has beside the other file of a data set")
    if not folders:
        raise UnseenError(f"{data}: has no folder with {' and '.join(FILES)}; name the folder data/ of xlsa17")
    return folders


def table_of(dataset: dict[str, Any]) -> Table:
    """Our figures, then the published ones."""
    header = [dataset["name"], *FIGURES, *(f"{name}, published" for name in FIGURES)]
    rows = [[row["method"], *(figure(row[part].get(name)) for part in ("measured", "published") for name in FIGURES)]
            for row in dataset["rows"]]  # fmt: skip
    return Table(header, rows)


def page_of(result: dict[str, Any]) -> str:
    notes = "\n".join(f"- {note}" for note in result["notes"])
    tables = [table_of(dataset).markdown() for dataset in result["datasets"]]
    return "\n\n".join([f"# {result['title']}", *tables, notes, ""])


def _load(path: Path, names: Sequence[str], optional: Sequence[str] = ()) -> dict[str, Any]:
    """These variables of a .mat file: numbers and text; MATLAB's functions and objects are never run."""
    from scipy.io import loadmat

    try:
        loaded = loadmat(path, variable_names=[*names, *optional])
    except FileNotFoundError:
        raise UnseenError(f"{path}: there is no such file") from None
    except NotImplementedError:
        raise UnseenError(f"{path}: is a MATLAB 7.3 file; save it with -v7, as xlsa17 does") from None
    except Exception as error:  # scipy raises many kinds for a damaged file
        raise UnseenError(f"{path}: is not a readable .mat file ({error})") from None
    missing = [name for name in names if name not in loaded]
    if missing:
        raise UnseenError(f"{path}: lacks {', '.join(missing)}")
    return loaded


def _positions(numbers: Any) -> np.ndarray:
    """MATLAB counts from 1."""
    return np.asarray(numbers).ravel().astype(np.int64) - 1


def _outside(positions: np.ndarray, count: int) -> bool:
    return bool(len(positions)) and not (positions.min() >= 0 and positions.max() < count)
