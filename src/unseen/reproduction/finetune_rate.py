"""The learning rate of stage 2 on a few thousand photos, chosen for the network at hand.

What suits one network ruins another: 0.01 lifts EfficientNet-Lite0, whose last stage is one convolution, and costs
ResNet-50, where it is a block of three, a dozen points. So it is chosen on photos of seen classes alone: 70 % of the
classes train, but for a fifth of their photos (*known*), and photos of the *other* classes stand for those that stage 2
does not see. Rates are tried upwards until one falls behind; the best mean of both accuracies wins.

WORK/choices/<trial>.json       what each trial did to both
WORK/choices/photos-<...>/      links to the photos of each part
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Collection
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unseen.evaluation.protocol import evaluate
from unseen.finetuning import FinetuneSettings, finetune
from unseen.photos import list_classes, photos_in
from unseen.recognition import Recogniser
from unseen.reproduction.recipe import Row
from unseen.runtime.files import write_atomically

if TYPE_CHECKING:
    from unseen.features import FeatureStore
    from unseen.reproduction.trainings import Trainings

TRIED = Row("DGP", "dgp")
RATES = (1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2)
BEHIND = 1.0  # points that a rate may lack, so that chance does not end the search
CAREFUL = 3e-4  # where there are too few photos to choose by
FEWEST = 100  # photos, of either kind
ASIDE, OTHERS = 0.2, 0.3  # shares of a class's photos, and of the classes
JUDGED = 500  # photos of either kind at most

Trial = dict[str, Any]


def choose_rate(work: Trainings, only_done: bool = False) -> float | None:
    """The rate that suits the level's network. None: it is not chosen yet, and is not to be chosen now."""
    parts = split_photos(work)
    if min(_count(parts["known"]), _count(parts["other"])) < FEWEST:
        return CAREFUL
    best, highest = RATES[0], -np.inf
    for rate in RATES:
        settings = work.finetune_settings(rate)
        if only_done and not place_of(work, TRIED, settings).exists():
            return None
        reached = float(np.mean(list(try_out(work, TRIED, settings)["after"].values())))
        if reached > highest:
            best, highest = rate, reached
        elif reached < highest - BEHIND:
            break
    work.say(f"  learning rate of stage 2: {best:g}")
    return best


def try_out(work: Trainings, row: Row, settings: FinetuneSettings) -> Trial:
    """Finetune a row's bundle on a part of seen-train, and tell what that does to the rest of it; once."""
    place = place_of(work, row, settings)
    if not place.exists():
        work.say(f"  trying stage 2 with learning rate {settings.learning_rate:g}")
        parts, before = split_photos(work), work.model(row)
        tuned = finetune(before.bundle, parts["train"], place.with_suffix(""), settings, work.run_settings(0),
                         workers=work.workers, shared=work.work / "frozen")  # fmt: skip
        after = Recogniser(tuned, device=work.device)
        judged = ("known", "other")
        trial = {
            "network": work.level.backbone,
            "method": row.method,
            "settings": asdict(settings),
            "photos": {part: _count(folder) for part, folder in parts.items()},
            "before": {part: _accuracy(before, work.store(before, parts[part])) for part in judged},
            "after": {part: _accuracy(after, work.store(after, parts[part])) for part in judged},
        }
        work.say("  " + ", ".join(f"{part} {trial['before'][part]} -> {trial['after'][part]} %" for part in judged))
        if work.is_first:
            write_atomically(place, json.dumps(trial, indent=1).encode())
            shutil.rmtree(place.with_suffix(""))
        work.wait()
    return json.loads(place.read_text(encoding="utf-8"))


def place_of(work: Trainings, row: Row, settings: FinetuneSettings) -> Path:
    """Where a trial is kept: by the bundle that it finetunes, how, and with which photos."""
    asked = json.dumps([asdict(settings), work.mark(work.level.seen_train)], sort_keys=True)
    return _folder(work) / f"{work.place(row).name}-{_hash(asked)}.json"


def split_photos(work: Trainings) -> dict[str, Path]:
    """Folders with links to the photos that a trial learns from (train) and is judged by (known, other)."""
    photos = work.level.seen_train
    assert photos is not None  # or there would be no stage 2
    place = _folder(work) / f"photos-{_hash(work.mark(photos))}"
    seen = set(work.bundle(TRIED).seen_ids)
    if work.is_first and not place.exists():
        unfinished = place.with_name(f"{place.name}.part")
        shutil.rmtree(unfinished, ignore_errors=True)
        _link_parts(photos, unfinished, seen)
        os.rename(unfinished, place)
    work.wait()
    return {part: place / part for part in ("train", "known", "other")}


def _link_parts(photos: Path, place: Path, seen: Collection[str]) -> None:
    rng = np.random.default_rng(0)
    parts: dict[str, list[Path]] = {"train": [], "known": [], "other": []}
    for id in list_classes(photos):
        files = [photos / id / name for name in rng.permutation(photos_in(photos / id))]
        other = rng.random() < OTHERS
        aside = 0 if other else round(ASIDE * len(files))
        if id in seen:
            parts["other" if other else "train"] += files[aside:]
            parts["known"] += files[:aside]
    for part, files in parts.items():
        (place / part).mkdir(parents=True)
        kept = files if part == "train" else [files[i] for i in rng.permutation(len(files))[:JUDGED]]
        for file in kept:
            link = place / part / file.parent.name / file.name
            link.parent.mkdir(exist_ok=True)
            os.symlink(file.resolve(), link)


def _accuracy(model: Recogniser, photos: FeatureStore) -> float:
    """Hit@1 among the seen classes, averaged over photos."""
    found = evaluate(model, photos, "seen", ks=(1,), show_progress=False, sure=None)
    return found.image["hit@1"] or 0.0


def _folder(work: Trainings) -> Path:
    return work.work / "choices"


def _count(folder: Path) -> int:
    return sum(1 for _ in folder.glob("*/*"))


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:10]
