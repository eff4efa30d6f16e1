"""Stage 2: finetune the network under the predicted classifiers of the seen classes, which stay as they are.

    loss = cross-entropy of  [f(photo); 1] . W~[seen]        trained: all of f      frozen: W~

Runs unchanged under torchrun. What it needs of the method: classifiers for the network's own features.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from unseen.backbones import Backbone
from unseen.bundle import Bundle
from unseen.bundle.places import check_place, training_folder
from unseen.errors import UnseenError
from unseen.finetuning.loop import Stage2
from unseen.finetuning.photo_sets import open_photo_set
from unseen.finetuning.settings import FinetuneSettings
from unseen.runtime.processes import Processes
from unseen.runtime.run import Run

__all__ = ["FinetuneSettings", "finetune"]


def finetune(
    bundle: Bundle,
    images: str | Path,
    out: str | Path | None = None,
    settings: FinetuneSettings | None = None,
    run: Run | None = None,
    *,
    workers: int = 2,
    skip_unknown: bool = False,
    backbone: Backbone | None = None,
    say: Callable[[str], None] = lambda message: None,
) -> Bundle:
    """The bundle with a network finetuned on photos of seen classes; see the module's docstring.

    `out` saves it, and keeps checkpoints while it runs: `Run(resume=True)` goes on where a run was interrupted.
    `backbone`: the bundle's network, where it is one of your own; it is finetuned in place.
    """
    settings, run = settings or FinetuneSettings(), run or Run()
    if bundle.solution.projection.kind != "append1":
        raise UnseenError(
            f"{bundle.method} predicts no classifiers for the network's features, which stage 2 needs: "
            "finetune a bundle of kin, dgp, sgcn, gcnz, gat, structural or sync"
        )
    if workers < 0:
        raise UnseenError(f"the number of workers must be 0 or more, not {workers}")
    if out is not None:
        check_place(Path(out), training=True)
        run.folder = training_folder(Path(out))
    with Processes(run.device) as processes:
        network = bundle.load_backbone() if backbone is None else bundle.take_backbone(backbone)
        photos = open_photo_set(images, bundle.seen_ids, skip_unknown, bundle.backbone.class_ids)
        for message in photos.remarks:
            say(message)
        stage = Stage2(bundle, network, photos, settings, run, processes, workers)
        facts = stage.train() | {
            "empty_classes": len(photos.empty_classes),
            "skipped_classes": len(photos.skipped_classes),
            "made_from": stage.made_from,
        }
        if stage.unreadable:
            say(f"{len(stage.unreadable)} photos could not be read and were left out. {facts['unreadable_photos'][0]}")
        tuned = _finetuned(bundle, network, facts, run)
        if out is not None and processes.rank == 0:
            tuned.save(out, training=True)
        processes.wait()
    return tuned


def _finetuned(bundle: Bundle, network: Backbone, facts: dict[str, Any], run: Run) -> Bundle:
    network.eval()
    weights = {name: tensor.numpy() for name, tensor in network.weights().items()}
    info = replace(bundle.backbone, checksum=network.checksum, finetuned=True)
    solution = replace(bundle.solution, details=bundle.solution.details | {"finetune": facts})
    return replace(bundle, solution=solution, backbone=info, network=weights, log=bundle.log + run.records, path=None)
