"""`unseen demo`: the main job from end to end, offline, on embedded data."""

from __future__ import annotations

import time

from unseen.cli.app import JsonFlag, command, emit, escaped, say, stdout, tell
from unseen.cli.classify import label_photos, show_labels

SHOWN = 3  # labels a photo in the demo


@command("demo", examples="unseen demo\nunseen demo --json")
def demo(json_: JsonFlag = False) -> None:
    """Predict classifiers for 21,842 classes from the 1,000 a network knows, check them, and name sample photos."""
    from unseen.classifier import ZeroShotClassifier
    from unseen.training.default import default_bundle
    from unseen.training.stage1 import train
    from unseen.web.samples import sample_photos

    started = time.monotonic()
    say("[bold]1.[/bold] A classifier for every ImageNet class, from the hierarchy and the names")
    model = ZeroShotClassifier(default_bundle(tell))
    bundle, classes = model.bundle, int(model.bundle.is_class.sum())
    say(f"   {bundle.method}: {classes:,} classes, {len(bundle.seen):,} of them seen, in {escaped(model.bundle.path)}")

    say("[bold]2.[/bold] A check without photos: hide a fifth of the seen classes and find their classifiers again")
    held = train(holdout=0.2).solution.details["holdout"]
    say(f"   own classifier first among {held['classes']}: {held['hit@1']} %, among the first five: {held['hit@5']} %")

    say("[bold]3.[/bold] Sample photos, over all classes")
    sources = [(sample.name, sample) for sample in sample_photos()]
    answers, _ = label_photos(model, sources, SHOWN, "any", 0.0)
    only_unseen, _ = label_photos(model, sources, SHOWN, "unseen", 0.0)
    result = {
        "bundle": str(bundle.path),
        "method": bundle.method,
        "classes": classes,
        "seen": len(bundle.seen),
        "holdout": held,
        "seconds": round(time.monotonic() - started, 1),
        "photos": [
            {
                "photo": name,
                "labels": [label.as_dict() for label in labels],
                "unseen": [label.as_dict() for label in unseen],
            }
            for (name, labels), (_, unseen) in zip(answers, only_unseen, strict=True)
        ],
    }
    emit(result, json_, lambda: _show(answers, only_unseen))


def _show(answers, only_unseen) -> None:
    for (name, labels), (_, unseen) in zip(answers, only_unseen, strict=True):
        show_labels(name, labels)
        stdout.print(
            "   among unseen classes only: " + ", ".join(f"[magenta]{label.name}[/magenta]" for label in unseen)
        )
    stdout.print(
        "\nNow with your own: [bold]unseen classify photo.jpg[/bold]   in a browser: [bold]unseen serve[/bold]   "
        "all commands: [bold]unseen --help[/bold]"
    )
