"""What to reproduce (recipes) and with what data (levels).

A recipe is a table or figure of the paper as a TOML file. A row with `method` is run; one without is published only;
`ours` marks what the paper lacks. A level says what data there are and how long the trainings may be on them:

    paper     ImageNet on disk, timm's ResNet-50, GloVe 300-d, the paper's 3000 + 20 epochs
    photos    any folder of photos by class id, the built-in network and vectors
    embedded  no photos: how well the classifiers of hidden seen classes are found

Figures of different levels never stand in one column.
"""

from __future__ import annotations

import hashlib
import os
import sys
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from unseen import UnseenError
from unseen.data import find_asset
from unseen.methods import get_method, method_names
from unseen.photos import list_classes, photos_in
from unseen.util import AT_LEAST_1, NOT_NEGATIVE, POSITIVE
from unseen_lab.data.attributes import FILE as ATTRIBUTES_FILE
from unseen_lab.data.attributes import find_awa2

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FOLDER = Path(__file__).parent / "recipes"
KINDS = ("hits", "seeds", "awa2", "hop-weights", "scalability", "qualitative")
EVERYDAY = "everyday"
ORDER = (
    "unseen-classes", "generalised", "ablation", "seen-classes", "layers", "two-phase", "robustness", "gcnz-steps",
    "awa2", "gat", "hop-weights", "scalability", "qualitative",
)  # fmt: skip


@dataclass(frozen=True)
class Row:
    """One line of a table: a method with settings, and what the paper reports for it, by candidates."""

    label: str
    method: str | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    vectors: str | None = None  # others than the level's
    finetune: bool = False
    epochs_share: float = 1.0  # of the recipe's epochs
    as_long_as: str | None = None  # trained for that method's epochs, which it is compared with
    study: bool = False  # in a table that compares variants: see Lengths
    ours: bool = False
    needs: str | None = None  # a package that is not among ours; the row is left out where it is missing
    norm: str | None = None
    published_as: str | None = None
    published: dict[str, list[float]] = field(default_factory=dict)
    published_deviation: dict[str, list[float]] = field(default_factory=dict)

    @property
    def runs(self) -> str:
        """Its method. A row without one is published only: nobody should ask."""
        assert self.method is not None, f"{self.label}: published only"
        return self.method


def parse_method(text: str) -> Row:
    """`dgp`, `dgp:glove+text` with other class vectors than the level's, or `module:Class[:vectors]`, your own."""
    name, _, vectors = text.strip().partition(":")
    if vectors and name not in method_names():
        kind, _, vectors = vectors.partition(":")
        name = f"{name}:{kind}"
    get_method(name)  # or an error
    return Row(name, name, vectors=vectors or None)


def name_of(row: Row) -> str:
    """What `parse_method` reads."""
    return row.label if row.vectors is None else f"{row.label}:{row.vectors}"


@dataclass(frozen=True)
class Recipe:
    name: str
    title: str
    paper: str
    shows: str
    kind: str
    cost: str
    rows: tuple[Row, ...] = ()
    candidates: tuple[str, ...] = ()
    hits: tuple[int, ...] = ()
    photos: str | None = None  # "unseen", "seen-val" or "awa2": which photos it is measured on
    seeds: tuple[int, ...] = (0,)
    examples: int = 0
    notes: tuple[str, ...] = ()
    published: dict[str, float] = field(default_factory=dict)


def load_recipe(name: str) -> Recipe:
    if name not in (*ORDER, EVERYDAY):
        close = get_close_matches(name, ORDER, n=1)
        hint = f" Did you mean {close[0]}?" if close else ""
        raise UnseenError(f"no table named {name!r}.{hint} There are: {', '.join(ORDER)}, {EVERYDAY}, xlsa17, and all")
    raw: dict[str, Any] = tomllib.loads((FOLDER / f"{name}.toml").read_text(encoding="utf-8"))
    study = raw.pop("study", False)
    rows = tuple(Row(**row, study=study) for row in raw.pop("rows", []))
    frozen: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in raw.items()}
    return Recipe(name=name, rows=rows, **frozen)


FOLDERS = ("unseen", "seen_train", "seen_val", "awa2")
# The authors look words up as they are written, with capitals: for 187 of the 1,000 seen classes that is another vector
# than in lower case, which finds more and is the default elsewhere.
PAPER_VECTORS, PAPER_NETWORK = "glove.6B.zip#glove.6B.300d.txt@authors", "timm/resnet50.tv_in1k"


@dataclass(frozen=True)
class Lengths:
    """How long everything is trained. An epoch of GCNZ, which sees nearly the whole graph, costs some 25 of SGCN's.

    Studies are the tables that compare variants of a graph network: layers, seeds, attention, two phases.
    """

    epochs: int  # of stage 1
    gcnz_epochs: int
    finetune_epochs: int
    study_epochs: int  # of stage 1, in a study
    finetune_batch: int = 64
    finetune_rate: float | None = 1e-4  # None: the network's, see `trainings.RATES`
    finetune_scale: float = 1.0
    finetune_freeze: int = 0  # stages of the network that stay as they are; -1: all but the last one
    finetune_studies: bool = True  # or their rows are compared after stage 1


@dataclass(frozen=True)
class OtherLengths:
    """Lengths other than those of the level; None leaves the level's.

    Args:
        epochs: Epochs of stage 1: 3000; GCNZ 100 and comparisons of variants 300 below the paper's level.
        gcnz_epochs: Epochs of GCNZ, which is slow; as epochs.
        study_epochs: Epochs of the graph networks whose variants are compared; as epochs.
        finetune_epochs: Epochs of stage 2: 20 at the paper's level, else 3. 0: no stage 2.
        finetune_batch: Photos a step of stage 2, of all processes.
        finetune_rate: Learning rate of stage 2: 1e-4 at the paper's level, else the network's.
        finetune_scale: Factor of stage 2's logits: 1 at the paper's level, else 3.
        finetune_freeze: Stages that stage 2 leaves: 0 at the paper's level, else all but the last (-1).
    """

    epochs: Annotated[int | None, AT_LEAST_1] = None
    gcnz_epochs: Annotated[int | None, AT_LEAST_1] = None
    study_epochs: Annotated[int | None, AT_LEAST_1] = None
    finetune_epochs: Annotated[int | None, NOT_NEGATIVE] = None
    finetune_batch: Annotated[int | None, AT_LEAST_1] = None
    finetune_rate: Annotated[float | None, POSITIVE] = None
    finetune_scale: float | None = None
    finetune_freeze: int | None = None

    def applied_to(self, lengths: Lengths) -> Lengths:
        studies = {"gcnz_epochs": self.epochs, "study_epochs": self.epochs}
        given = {name: length for name, length in asdict(self).items() if length is not None}
        return replace(lengths, **({} if self.epochs is None else studies) | given)


# A few thousand photos are some hundred steps, not the paper's 400,000: too few to teach the whole network, enough for
# its last stage. Chosen on a part of the seen photos: docs/results/finetuning.md.
FEW_PHOTOS: dict[str, Any] = {"finetune_epochs": 3, "finetune_batch": 16, "finetune_rate": None, "finetune_scale": 3.0,
                              "finetune_freeze": -1, "finetune_studies": False}  # fmt: skip
LENGTHS = {
    "paper": Lengths(3000, 3000, 20, study_epochs=3000),
    "photos": Lengths(3000, 100, study_epochs=300, **FEW_PHOTOS),
    "embedded": Lengths(300, 100, 0, study_epochs=300),
    "quick": replace(Lengths(10, 2, study_epochs=10, **FEW_PHOTOS), finetune_rate=1e-3),
}
QUICK_PHOTOS = 48  # of each folder


@dataclass(frozen=True)
class Level:
    """Which data there are, and which level they allow."""

    name: str  # paper, photos or embedded
    hierarchy: str
    vectors: str
    network: str
    unseen: Path | None = None
    seen_train: Path | None = None
    seen_val: Path | None = None
    has_lists: bool = True
    weights: Path | None = None  # of the network, instead of the published ones
    sampled: int | None = None  # photos of each folder in a quick run, None otherwise
    awa2: Path | None = None  # AWA2's photos, in folders such as blue+whale
    attributes: Path | None = None  # the folder of its attributes

    def candidates(self, spec: str) -> str:
        """The authors' list, or what comes nearest to it: they count the class itself as the first hop."""
        if self.has_lists:
            return spec
        plain, plus, _ = spec.partition("+")
        near = {"2-hops": "hops:1", "3-hops": "hops:2", "all": "unseen"}.get(plain, plain)
        return f"{near}+1K" if plus else near

    def to_json(self) -> dict[str, Any]:
        """As saved in results."""
        return {key: str(value) if isinstance(value, Path) else value for key, value in asdict(self).items()}

    def with_parts(self, **parts: str | Path | None) -> Level:
        """With another hierarchy, network, weights or vectors, where they are given."""
        return replace(self, **{key: value for key, value in parts.items() if value is not None})

    def sample(self, place: Path, photos: int = QUICK_PHOTOS) -> Level:
        """With a few photos of each folder only: links to them in `place`, apart from those to other folders."""
        folders = {key: getattr(self, key) for key in FOLDERS if getattr(self, key) is not None}
        marks = {key: hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:6] for key, folder in folders.items()}
        links = {key: link_some(folder, place / marks[key] / key, photos) for key, folder in folders.items()}
        return replace(self, **links, sampled=photos)

    @property
    def usual_parts(self) -> dict[str, str]:
        """The hierarchy, vectors and network that this level has unless others are asked for."""
        if self.name == "paper":
            return {"hierarchy": "paper", "vectors": PAPER_VECTORS, "network": PAPER_NETWORK}
        hierarchy = "paper" if self.has_lists else "imagenet"
        return {"hierarchy": hierarchy, "vectors": "glove", "network": "efficientnet-lite0"}


def find_level(
    photos: Path | None = None,
    imagenet_21k: Path | None = None,
    imagenet_1k: Path | None = None,
    awa2: Path | None = None,
) -> Level:
    """The best level that the data allow. A folder of photos has unseen/, and perhaps seen-train/ and seen-val/."""
    level = _find(photos, imagenet_21k, imagenet_1k, awa2 is not None)
    if awa2 is None:
        return level
    attributes = awa2.resolve() if (awa2 / ATTRIBUTES_FILE).is_file() else None
    return replace(level, awa2=find_awa2(awa2).resolve(), attributes=attributes)


def _find(photos: Path | None, imagenet_21k: Path | None, imagenet_1k: Path | None, has_awa2: bool) -> Level:
    lists = find_asset("imagenet-testsets.json") is not None and find_asset("imagenet-split.json") is not None
    if (imagenet_21k is None) != (imagenet_1k is None):
        parts = "ImageNet-21K for the unseen classes, ImageNet-1k for the seen ones"
        raise UnseenError(f"the paper's level needs both: {parts}")
    if imagenet_21k is not None and imagenet_1k is not None:
        folders = (imagenet_21k, imagenet_1k / "train", imagenet_1k / "val")
        for folder in folders:
            if not folder.is_dir():
                raise UnseenError(f"{folder}: there is no such folder; ImageNet-1k is expected with train/ and val/")
        return _level("paper", True, *folders)
    if photos is not None:
        if not (photos / "unseen").is_dir():
            raise UnseenError(f"{photos}: has no folder unseen/ with photos of unseen classes by id")
        train, val = (photos / name if (photos / name).is_dir() else None for name in ("seen-train", "seen-val"))
        return _level("photos", lists, photos / "unseen", train, val)
    return _level("photos" if has_awa2 else "embedded", lists)


def _level(name: str, has_lists: bool, *folders: Path | None) -> Level:
    """With its usual parts, and folders by their full names: however they are given, the trainings are the same."""
    resolved = [None if folder is None else folder.resolve() for folder in folders]
    level = Level(name, "", "", "", *resolved, has_lists=has_lists)
    return replace(level, **level.usual_parts)


def link_some(folder: Path, place: Path, count: int, seed: int = 0) -> Path:
    """`place`/<class id>/ with links to `count` photos of random classes; only the folders of these are listed."""
    random = np.random.default_rng(seed)
    ids = random.permutation(list_classes(folder))[:count]
    each = -(-count // len(ids))
    chosen = [folder / id / name for id in ids for name in random.permutation(photos_in(folder / id))[:each]]
    for photo in chosen[:count]:
        link = place / photo.parent.name / photo.name
        link.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError):  # from an earlier run, or another process
            os.symlink(photo.resolve(), link)
    return place
