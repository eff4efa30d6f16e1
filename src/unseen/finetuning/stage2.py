"""Stage 2: finetune the network under the predicted classifiers of the seen classes, which stay as they are.

    loss = cross-entropy of  [f(photo); 1] . W~[seen]        trained: all of f      frozen: W~

Runs unchanged under torchrun. What it needs of the method: classifiers for the network's own features.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

from unseen.backbones import Backbone
from unseen.bundle import Bundle
from unseen.bundle.places import check_place, check_same, is_finished, sole_training, training_folder
from unseen.bundle.records import FinetuneRecord
from unseen.bundle.storage import store_bundle
from unseen.errors import UnseenError
from unseen.finetuning.loop import Stage2, identify
from unseen.finetuning.photo_sets import PhotoSet, open_photo_set
from unseen.finetuning.settings import FinetuneSettings
from unseen.runtime.processes import Processes, own_rank
from unseen.runtime.run import Run


def finetune(
    bundle: Bundle,
    images: str | Path,
    out: str | Path | None = None,
    settings: FinetuneSettings | None = None,
    run: Run | None = None,
    *,
    resume: bool = False,
    overwrite: bool = False,
    workers: int = 2,
    skip_unknown: bool = False,
    backbone: Backbone | None = None,
    shared: Path | None = None,
    say: Callable[[str], None] = lambda message: None,
) -> Bundle:
    """The bundle with a network f finetuned on photos of seen classes, under their predicted classifiers.

        loss = cross-entropy of  [f(photo); 1] . W~[seen]        trained: all of f      frozen: W~ (N x P)

    Args:
        bundle: Stays as it is.
        images: Photos by class, DIR/<id or name>/*, or a folder of tar shards.
        out: Where to save the bundle; checkpoints are kept there while it runs.
        settings: Epochs, learning rate and the like; by default the paper's.
        run: Seed, device and the like.
        resume: Continue an interrupted finetuning in `out`; a finished one with the same settings is returned as it is.
        overwrite: Replace a bundle in `out`, or start an interrupted finetuning again.
        workers: Processes that read photos.
        skip_unknown: Leave out photos of classes that are not seen ones, instead of refusing them.
        backbone: The bundle's network, where it is one of your own; it is finetuned in place.
        shared: A folder for what frozen stages make of the photos, where only the last stage of a built-in network is
            trained: finetunings with the same network, photos and seed share it, and take a fraction of the time.
        say: Is told what a user should know.

    >>> from pathlib import Path
    >>> import unseen
    >>> from PIL import Image
    >>> from torch import nn
    >>> colours = unseen.Taxonomy.from_edges([("red", "colour"), ("blue", "colour"), ("navy", "blue")])
    >>> network = nn.Sequential(nn.Conv2d(3, 4, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 2))
    >>> backbone = unseen.from_module(network, ["red", "blue"])
    >>> bundle = unseen.train("structural", colours, "glove", backbone)
    >>> for colour in ["red", "blue"]:
    ...     Path("photos", colour).mkdir(parents=True)
    ...     Image.new("RGB", (8, 8), colour).save(f"photos/{colour}/plain.png")
    >>> settings = unseen.FinetuneSettings(epochs=2, batch=2)
    >>> tuned = unseen.finetune(bundle, "photos", settings=settings, workers=0, backbone=backbone)
    >>> tuned.finetuning.epochs, tuned.finetuning.photos
    (2, 2)
    """
    settings, run = settings or FinetuneSettings(), run or Run()
    run = replace(run, resume=resume or run.resume)
    if bundle.solution.projection.kind != "append1":
        raise UnseenError(
            f"{bundle.method} predicts no classifiers for the network's features, which stage 2 needs: "
            "finetune a bundle of another method, such as dgp"
        )
    if bundle.taught:
        raise UnseenError(
            f"{len(bundle.taught):,} classes were taught with photos as the network sees them now: finetune first and "
            "teach afterwards, or make them forget with `unseen teach`"
        )
    if workers < 0:
        raise UnseenError(f"the number of workers must be 0 or more, not {workers}")
    place = None if out is None else Path(out)
    with sole_training(place if own_rank() == 0 else None):
        if place is not None:
            if is_finished(place, run.resume, overwrite):
                photos = _open_photos(bundle, images, skip_unknown)
                return _finished(place, bundle, photos, settings, run, say)
            check_place(place, training=True)
            run = replace(run, folder=training_folder(place))
        with Processes(run.device) as processes:
            network = bundle.load_backbone() if backbone is None else bundle.take_backbone(backbone)
            photos = _open_photos(bundle, images, skip_unknown)
            for message in photos.remarks:
                say(message)
            stage = Stage2(bundle, network, photos, settings, run, processes, workers, shared)
            stage.train()
            record = stage.record(photos)
            if record.unreadable:
                say(f"{record.unreadable} photos could not be read and were left out. {record.unreadable_photos[0]}")
            tuned = _finetuned(bundle, stage, record)
            if place is not None and processes.rank == 0:
                store_bundle(tuned, place, training=True)
            processes.wait()
        return tuned


def _open_photos(bundle: Bundle, images: str | Path, skip_unknown: bool) -> PhotoSet:
    return open_photo_set(images, bundle.seen_ids, skip_unknown, bundle.backbone.class_ids, bundle.taxonomy)


def _finetuned(bundle: Bundle, stage: Stage2, record: FinetuneRecord) -> Bundle:
    network = stage.network.eval()
    return bundle.change(
        backbone=replace(bundle.backbone, checksum=network.checksum, finetuned=True),
        network={name: tensor.numpy() for name, tensor in network.weights().items()},
        log=bundle.log + stage.run.records,
        finetuning=record,
    )


def _finished(
    out: Path, bundle: Bundle, photos: PhotoSet, settings: FinetuneSettings, run: Run, say: Callable[[str], None]
) -> Bundle:
    """The bundle that is there already, if it is what was asked for."""
    tuned = Bundle.load(out, trust_code=bundle.trust_code)
    record = tuned.finetuning
    if record is None:
        raise UnseenError(f"{out} is a finished bundle that was not finetuned: choose another name")
    made_from = identify(bundle, photos)
    if bundle.path is not None and bundle.path.resolve() == out.resolve():
        del made_from["network"]  # it was replaced by the finetuned one
    seed = run.seed if record.seed is None else record.seed
    then = {**record.settings, "seed": seed, **record.made_from}
    check_same(out, then, {**asdict(settings), "seed": run.seed, **made_from})
    say(f"{out} is finished already.")
    return tuned
