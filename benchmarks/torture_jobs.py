"""The commands that write, on a network of a few hundred weights and twelve classes: what `torture.py` strikes."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from safetensors.numpy import load_file
from torch import nn

from unseen.apps.cli.app import app
from unseen.bundle import Bundle
from unseen.networks.base import Network
from unseen.networks.custom import from_module
from unseen.networks.store import FeatureStore, read_about
from unseen.photos.transforms import PhotoTransform
from unseen.util.errors import UnseenError
from unseen.vectors.files import load_vector_file, read_cached
from unseen_lab.tables.levels import load_recipe

NOTHING = "nothing"  # the state of a place where nothing is finished
NETWORK = "torture_jobs:build"
PARENTS = {
    "thing": "",
    "animal": "thing",
    "tool": "thing",
    "dog": "animal",
    "cat": "animal",
    "fox": "animal",
    "poodle": "dog",
    "beagle": "dog",
    "tabby": "cat",
    "hammer": "tool",
    "saw": "tool",
    "knife": "tool",
}
PHOTOS = 8  # of each seen class
SEEN = ("dog", "fox", "beagle", "tabby", "hammer", "knife")


class TinyNetwork(nn.Module):
    """Photos -> 8 numbers -> a score for each of six classes."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, stride=4)
        self.norm = nn.BatchNorm2d(8)
        self.last = nn.Linear(8, len(SEEN))

    def forward(self, x):
        return self.last(torch.relu(self.norm(self.stem(x))).mean((2, 3)))


def build() -> Network:
    with torch.random.fork_rng([]):
        torch.manual_seed(0)
        return from_module(TinyNetwork(), SEEN, PhotoTransform(16), name=NETWORK)


def write_inputs(folder: Path) -> None:
    """Photos, a hierarchy, vectors and two bundles, all made by chance from one seed."""
    folder.mkdir(parents=True)
    random = np.random.default_rng(0)
    for label, id in enumerate(SEEN):
        (folder / "photos" / id).mkdir(parents=True)
        for number in range(PHOTOS):
            pixels = np.clip(40 * label + random.normal(0, 40, (20, 24, 3)), 0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(folder / "photos" / id / f"{number}.png")
    rows = "".join(f"{id},{id},{parent}\n" for id, parent in PARENTS.items())
    (folder / "classes.csv").write_text(f"id,name,parent\n{rows}")
    words = [*PARENTS, "okapi", "giraffe"]
    lines = (f"{word} {' '.join(f'{x:.4f}' for x in random.normal(size=6))}\n" for word in words)
    (folder / "vectors.txt").write_text("".join(lines))
    (folder / "names.txt").write_text("okapi\nred panda\nsewing machine\n")
    _write_result(folder / "reproduced" / "results")
    for id in SEEN[:4]:  # what a store had before more photos came
        shutil.copytree(folder / "photos" / id, folder / "fewer" / id)
    for photo in (folder / "fewer").glob("*/[0-3].png"):
        photo.unlink()
    run_command("features", "--photos", folder / "fewer", "--out", folder / "store", *STORING)
    trained = ("train", *common(folder), "--method", "structural", "--out")
    run_command(*trained, folder / "old", "--vectors", folder / "vectors.txt")
    run_command("train", *common(folder), *DGP, "--out", folder / "base", "--vectors", folder / "vectors.txt")


def _write_result(folder: Path) -> None:
    """A table as `unseen reproduce` keeps it, for the report."""
    recipe = load_recipe("hop-weights")
    weights = {"descendants": [0.3, 0.4, 0.2, 0.06, 0.04], "ancestors": [0.5, 0.3, 0.1, 0.06, 0.04]}
    row = {"label": "DGP", "measured": weights, "published": recipe.rows[0].published}
    level = {"name": "photos", "graph": "paper", "vectors": "glove", "backbone": "efficientnet-lite0"}
    level |= {"unseen": None, "seen_train": None, "sampled": None}
    result = {key: getattr(recipe, key) for key in ("title", "paper", "shows", "kind")} | {
        "table": "hop-weights", "level": "photos", "notes": [], "seconds": 60, "trainings": {}, "rows": [row],
        "made_with": {"level": level, "epochs": 1, "study_epochs": 1, "gcnz_epochs": 1, "finetune_epochs": 1,
            "finetune_batch": 1, "finetune_rate": 0.01, "finetune_scale": 1.0, "finetune_freeze": -1,
            "finetune_studies": False, "kin_vectors": "glove"},
        "made": {"unseen": "0", "torch": "0", "at": "2000-01-01"},
    }  # fmt: skip
    folder.mkdir(parents=True)
    (folder / "hop-weights.json").write_text(json.dumps(result))


def common(inputs: Path) -> tuple:
    return ("--hierarchy", inputs / "classes.csv", "--network", NETWORK, "--device", "cpu")


STORING = ("--network", NETWORK, "--workers", "0", "--device", "cpu", "--batch", "4")
DGP = ("--method", "dgp", "--epochs", "6", "--checkpoint-every", "2", "--set", "hidden=8")


def run_command(*arguments: object) -> None:
    """A command of `unseen` in this process; SystemExit where it fails."""
    try:
        app([str(argument) for argument in arguments])
    except SystemExit as end:
        if end.code:
            raise


# -- what is there, in a few words that differ where anything of value does ------------------------------------------


def digest(*parts: bytes | str) -> str:
    return hashlib.sha256(b"\0".join(part if isinstance(part, bytes) else part.encode() for part in parts)).hexdigest()


def bundle_state(place: Path) -> str:
    """All of a bundle but times and dates; NOTHING where there is none, or the beginnings of one."""
    if not place.is_file():
        return NOTHING
    bundle = Bundle.load(place, trust_code=True)
    header = bundle.header() | {"made": None}
    details = json.loads(json.dumps(header["details"]))
    _forget_times(details)
    log = json.loads(json.dumps(bundle.log))
    _forget_times(log)
    arrays = [bundle.solution.classifiers, bundle.known, *bundle.vectors.parts, *bundle.solution.state.values()]
    arrays += [weight for _, weight in sorted((bundle.network_weights or {}).items())]
    text = json.dumps([header | {"details": details}, bundle.hierarchy.to_json(), log], sort_keys=True, default=str)
    return digest(text, *(np.ascontiguousarray(array).tobytes() for array in arrays))


def _forget_times(value) -> None:
    if isinstance(value, dict):
        for key in [key for key in value if "second" in key or "memory" in key or key.endswith("_per_s")]:
            del value[key]
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            _forget_times(item)


def store_state(place: Path) -> str:
    if not FeatureStore.is_store(place) or read_about(place)["classes"] is None:
        return NOTHING
    store, found = FeatureStore.open(place), []
    for features, labels, paths in store.batches(64):
        found += [features.tobytes(), json.dumps([list(labels), list(paths)])]
    return digest(json.dumps(store.classes()), *found)


def file_state(place: Path) -> str:
    return digest(place.read_bytes()) if place.exists() else NOTHING


def report_state(place: Path) -> str:
    return file_state(place / "report.md")  # the last of its files


def weights_state(place: Path) -> str:
    """An exported file: its tensors, by name."""
    if not place.exists():
        return NOTHING
    return digest(*(part for name, tensor in sorted(load_file(place).items()) for part in (name, tensor.tobytes())))


def cache_state(place: Path) -> str:
    """The parsed vectors, if they are whole: users' readers make damaged ones again."""
    entries = sorted(path for path in place.glob("word-vectors/*.safetensors"))
    if not entries:
        return NOTHING
    table = read_cached(entries[0])
    if table is None:
        raise UnseenError("the cache is damaged")
    return digest("\n".join(table.words), np.asarray(table.vectors).tobytes(), str(len(entries)))


# -- the commands ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Job:
    """A command, the place that it writes to, and how what lies there is read.

    Args:
        again: What is added to the arguments when it runs again.
        before: The input that lies in its place already, if any.
        repair: What is added to make damaged results again; None where the result has no checksum of its own.
        once: It refuses to run again where it has finished.
        weight: How often it is struck, relative to others: less where it takes long.
    """

    name: str
    arguments: tuple
    place: Path
    state: Callable[[Path], str]
    again: tuple = ()
    before: Path | None = None
    repair: tuple | None = None
    once: bool = False
    weight: float = 1.0

    def prepare(self) -> None:
        shutil.rmtree(self.place.parent, ignore_errors=True)
        self.place.parent.mkdir(parents=True)
        if self.before is not None:
            (shutil.copytree if self.before.is_dir() else shutil.copy2)(self.before, self.place)

    def run(self, *more: object) -> None:
        os.environ["UNSEEN_CACHE"] = str(self.place.parent / "cache")
        if self.name == "vector cache":
            try:
                load_vector_file(self.arguments[0], show_progress=False)
            except UnseenError as error:  # which commands tell
                print(error, file=sys.stderr)
                raise SystemExit(1) from None
        else:
            run_command(*self.arguments, *more)

    def look(self) -> str:
        return self.state(self.place)


def list_jobs(inputs: Path, trial: Path) -> list[Job]:
    """Every command that writes, into the folder `trial`."""
    place, base = trial / "out", inputs / "base"
    trusting, into = ("--trust-code",), ("--out", place, "--overwrite")
    photos = ("--photos", inputs / "photos")
    vectors = ("--vectors", inputs / "vectors.txt")
    resume, overwrite = ("--resume",), ("--overwrite",)
    old = {"before": inputs / "old", "repair": ()}
    slow = {"weight": 0.5}
    tune = ("--epochs", "2", "--batch", "8", "--checkpoint-every", "2", "--workers", "0", "--device", "cpu")
    return [
        Job("train", ("train", *common(inputs), *DGP, "--out", place, *vectors), place, bundle_state, resume,
            repair=overwrite, **slow),
        Job("train, replacing", ("train", *common(inputs), *DGP, *into, *vectors), place, bundle_state, **old, **slow),
        Job("train kin", ("train", *common(inputs), "--method", "kin", *into, *vectors), place, bundle_state, **old),
        Job("finetune", ("finetune", base, *photos, "--out", place, *tune, *trusting), place, bundle_state, resume,
            repair=overwrite, **slow),
        Job("features", ("features", *photos, "--out", place, *STORING), place, store_state, repair=(), **slow),
        Job("features, again", ("features", *photos, "--out", place, *STORING), place, store_state, repair=(),
            before=inputs / "store", **slow),
        Job("add", ("add", base, "--name", "okapi", "--parent", "animal", *vectors, *into, *trusting), place,
            bundle_state, **old),
        Job("calibrate", ("calibrate", base, "--photos", inputs / "store", *into, *trusting), place,
            bundle_state, **old, **slow),
        Job("export", ("export", base, "--to", "torch", "--out", place, *trusting), place, weights_state, once=True),
        Job("hierarchy suggest", ("hierarchy", "suggest", inputs / "names.txt", "--out", place), place, file_state,
            once=True),
        Job("hierarchy export", ("hierarchy", "export", "--hierarchy", inputs / "classes.csv", "--out", place,
            "--overwrite"), place, file_state),
        *(Job(f"classify, {kind}", ("classify", inputs / "photos", "--bundle", base, "--out", trial / f"out.{kind}",
            "--device", "cpu", *trusting), trial / f"out.{kind}", file_state)
            for kind in ("csv", "jsonl", "parquet")),
        Job("evaluate, table", ("evaluate", base, "--photos", inputs / "store", "--candidates", "seen", "--table",
            trial / "table.csv", "--device", "cpu", *trusting), trial / "table.csv", file_state),
        Job("report", ("report", inputs / "reproduced", "--out", place, "--no-photos"), place, report_state),
        Job("vector cache", (inputs / "vectors.txt",), trial / "cache", cache_state, repair=()),
        Job("teach", ("teach", base, *photos, *into, *trusting), place, bundle_state, **old),
    ]  # fmt: skip
