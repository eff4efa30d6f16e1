"""`unseen demo`: the main job from end to end, offline, on embedded data."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from unseen.cli.app import JsonFlag, command, emit, escaped, say, stdout
from unseen.cli.classify import open_model, show_answer

if TYPE_CHECKING:
    from unseen.recognition import Answer

SHOWN = 3  # labels a photo in the demo


@command("demo", examples="unseen demo\nunseen demo --json")
def demo(json_: JsonFlag = False) -> None:
    """Predict classifiers for 21,842 classes from the 1,000 a network knows, check them, and name sample photos."""
    from unseen.training.stage1 import train
    from unseen.web.samples import sample_photos

    started = time.monotonic()
    say("[bold]1.[/bold] A classifier for every ImageNet class, from the hierarchy and the names")
    model = open_model(None, "auto")
    bundle, classes = model.bundle, int(model.bundle.is_class.sum())
    say(f"   {bundle.method}: {classes:,} classes, {len(bundle.seen):,} of them seen, in {escaped(model.bundle.path)}")

    say("[bold]2.[/bold] A check without photos: hide a fifth of the seen classes and find their classifiers again")
    held = train(holdout=0.2).training.holdout
    assert held is not None  # it was asked for
    say(f"   own classifier first among {held.classes}: {held.hit_1} %, among the first five: {held.hit_5} %")

    say("[bold]3.[/bold] Sample photos, over all classes")
    samples = sample_photos()
    features = model.features(samples)
    among_all, among_unseen = model.answers(features, SHOWN), model.answers(features, SHOWN, "unseen")
    photos = list(zip([sample.name for sample in samples], among_all, among_unseen, strict=True))
    result = {
        "bundle": str(bundle.path),
        "method": bundle.method,
        "classes": classes,
        "seen": len(bundle.seen),
        "holdout": held.to_json(),
        "seconds": round(time.monotonic() - started, 1),
        "photos": [
            {"photo": name} | answer.as_dict() | {"unseen": unseen.as_dict()["labels"]}
            for name, answer, unseen in photos
        ],
    }
    emit(result, json_, lambda: _show(photos))


def _show(photos: list[tuple[str, Answer, Answer]]) -> None:
    for name, answer, unseen in photos:
        show_answer(name, answer)
        listed = ", ".join(f"[magenta]{escaped(label.name)}[/magenta]" for label in unseen)
        stdout.print(f"   among unseen classes only: {listed}")
    stdout.print(
        "\nNow with your own: [bold]unseen classify photo.jpg[/bold]   in a browser: [bold]unseen serve[/bold]   "
        "all commands: [bold]unseen --help[/bold]"
    )
