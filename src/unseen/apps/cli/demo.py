"""`unseen demo`: the main job on embedded data."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from unseen.answers.answer import Answer
from unseen.apps.cli.app import JsonFlag, command
from unseen.apps.cli.classify import per_cent, show_answer
from unseen.apps.cli.output import emit, stderr, stdout
from unseen.apps.web import sample_photos
from unseen.model import load
from unseen.training.settings import TrainSettings


@command("demo", examples="unseen demo\nunseen demo --json")
def demo(json_: JsonFlag = False) -> None:
    """Name a photo of something that the network was never shown, and say why; then other samples, and a check."""
    from unseen.training.stage1 import train  # with torch

    started = time.monotonic()
    stderr.print("1. A classifier for every ImageNet class, from the hierarchy, the names and the looks")
    model = load()
    bundle, classes = model.bundle, int(model.bundle.is_class.sum())
    stderr.print(f"   {bundle.method}: {classes:,} classes, {len(bundle.seen):,} of them seen, in {model.bundle.path}")
    samples = sample_photos()
    features = model.features(samples)
    among_all, among_unseen = model.answers(features, 3), model.answers(features, 3, candidates="unseen")
    photos = list(zip([sample.name for sample in samples], among_all, among_unseen, strict=True))
    best = among_all[0].guesses[0]
    story = {
        "photo": samples[0].name,
        "alone": bundle.hierarchy.name(bundle.seen_ids[int((bundle.head @ np.append(features[0], 1)).argmax())]),
        "id": best.id,
        "say": best.say,
        "training": best.training,
        "probability": best.probability,
        "relatives": [near.name for near in model.explain(best.id, 3).neighbours],
        "heat": model.heatmap(samples[0], best.id).cells.tolist(),
    }
    if not json_:
        _tell_story(story)

    stderr.print("3. A check without photos: hide a fifth of the seen classes and find their classifiers again")
    held = train(settings=TrainSettings(holdout=0.2)).training.holdout
    assert held is not None  # it was asked for
    stderr.print(f"   own classifier first among {held.classes}: {held.hit_1} %, among the first five: {held.hit_5} %")
    stderr.print("4. All samples, over all classes; it gets the raccoon wrong")
    result = {
        "bundle": str(bundle.path),
        "method": bundle.method,
        "classes": classes,
        "seen": len(bundle.seen),
        "holdout": held.to_json(),
        "seconds": round(time.monotonic() - started, 1),
        "story": story,
        "photos": [
            {"photo": name} | answer.to_dict() | {"unseen": unseen.to_dict()["labels"]}
            for name, answer, unseen in photos
        ],
    }
    emit(result, json_, lambda: _show_demo(photos))


def _tell_story(story: dict[str, Any]) -> None:
    """What the network alone says, what it can say now, and the proof: the relatives, and where in the photo."""
    stderr.print(f"2. {story['photo']}, a photo of something that the network was never shown")
    stdout.print(f"   the network alone says {story['alone']}")
    stdout.print(f"   now its best guess is {story['say']}, {per_cent(story['probability'])}: {story['training']}")
    stdout.print(f"   put together from {', '.join(story['relatives'])}; what speaks for it in the photo:")
    most = max(max(map(max, story["heat"])), 1e-9)
    for row in story["heat"]:
        stdout.print("      " + "".join(2 * " ░▒▓█"[round(4 * max(0.0, cell) / most)] for cell in row))


def _show_demo(photos: list[tuple[str, Answer, Answer]]) -> None:
    for name, answer, unseen in photos:
        show_answer(name, answer)
        listed = ", ".join(label.say for label in unseen)
        stdout.print(f"   among unseen classes only: {listed}")
    stdout.print(
        "\nNow with your own: unseen classify photo.jpg   in a browser: unseen serve   all commands: unseen --help"
    )
