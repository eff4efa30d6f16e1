"""`unseen train`, `finetune` and `calibrate`: from hierarchy, names and network to a bundle, and its tuning."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from unseen.apps.cli import options
from unseen.apps.cli.app import JsonFlag, command
from unseen.apps.cli.output import emit, in_words, print_table, stderr, stdout
from unseen.bundle import Bundle
from unseen.hierarchy.core import Hierarchy
from unseen.methods import make_method, method_names
from unseen.model import load
from unseen.networks.folders import match_photos
from unseen.training.settings import CalibrateSettings, FinetuneSettings, TrainSettings
from unseen.util.devices import own_rank
from unseen.util.errors import UnseenError
from unseen.util.run import Run

if TYPE_CHECKING:  # with torch, which `unseen train --help` should not wait for
    from unseen.networks.base import Network


@command(
    "train",
    examples="""
    unseen train --out my-bundle
    unseen train --method dgp --hierarchy paper --epochs 3000 --out dgp-bundle
    unseen train --hierarchy products.csv --network my_module:build_model --classes classes.txt --out products
    unseen train --hierarchy tree.csv --network hf:my-model --check-photos photos/ --out mine
    unseen train --hierarchy tree.csv --network onnx:net.onnx --transform '{"size": 160}' --out mine
    unseen train --method dgp --set k=2 --set weighted=false --out ablation
    """,
)
def train(
    out: Annotated[Path, Option(help="The bundle to write: a file.")],
    method: Annotated[str, Option(help=f"{', '.join(method_names())}; or module:Class, your own.")] = "kin",
    hierarchy: Annotated[str, Option(help="imagenet, paper, wordnet, a file, or imagenet+FILE.")] = "imagenet",
    vectors: Annotated[str | None, Option(help="glove, text, looks, sums (glove+text), or a file.")] = None,
    *,
    network: options.NetworkSettings,
    check_photos: Annotated[
        str | None, Option(help=f"To check the network's accuracy on. {options.BY_CLASS_HELP}.")
    ] = None,
    epochs: Annotated[int | None, Option(min=1, help="Epochs, for the methods that have any.")] = None,
    setting: Annotated[list[str] | None, Option("--set", help="A setting of the method, name=value.")] = None,
    seed: options.Seed = 0,
    device: options.Device = "auto",
    checkpoint_every: Annotated[int, Option(min=1, help="Epochs between checkpoints.")] = 100,
    resume: options.Resume = False,
    overwrite: options.Restart = False,
    settings: TrainSettings,
    json_: JsonFlag = False,
) -> None:
    """Predict a classifier for every class of a hierarchy, and write them as a bundle."""
    from unseen.training.stage1 import train as fit  # with torch

    method_settings = parse_settings(setting or [], epochs)
    make_method(method, method_settings)  # raises before anything is loaded
    tree = Hierarchy.load(hierarchy)
    loaded = network.load()
    checked = None if check_photos is None else _check(loaded, check_photos, tree)
    run = Run(seed=seed, device=device, checkpoint_every=checkpoint_every, resume=resume)
    bundle = fit(tree, loaded, method, vectors, settings, out=out, overwrite=overwrite, run=run, **method_settings)
    emit(summary(bundle, checked), json_)
    if not json_:
        stdout.print(f"Try it: unseen classify PHOTO --bundle {out}")


def _check(network: Network, photos: str, hierarchy: Hierarchy) -> dict[str, Any]:
    """The network's accuracy on a sample of photos, reported on standard error."""
    from unseen.networks.check import MAX_PHOTOS, check_photos, describe_check  # with torch

    listing, matched = match_photos(photos, hierarchy, set(network.class_ids), "the network's classes")
    by_class: dict[str, list[Any]] = {}
    for item in listing.items(matched):
        some = by_class.setdefault(matched[item.label], [])
        if len(some) < MAX_PHOTOS:  # what a tar file holds need not fit memory
            some.append(item.source)
    check = check_photos(network, by_class)
    for line in describe_check(check):
        stderr.print(line)
    return check


def parse_settings(pairs: list[str], epochs: int | None) -> dict[str, Any]:
    """`name=value` pairs; values are read as JSON where they can be (4, 0.5, true, [1, 2]), as text elsewhere."""
    settings: dict[str, Any] = {} if epochs is None else {"epochs": epochs}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise UnseenError(f"--set takes name=value, not {pair!r}")
        try:
            settings[name] = json.loads(value)
        except ValueError:
            settings[name] = value
    return settings


def summary(bundle: Bundle, checked: dict[str, Any] | None = None) -> dict:
    fit, training = bundle.solution.record, bundle.training
    return {
        "bundle": str(bundle.path),
        "method": bundle.method,
        "nodes": len(bundle),
        "seen": len(bundle.seen),
        "epochs": fit.epochs,
        "loss": fit.loss,
        "seconds": training.seconds,
        "peak_memory_mb": training.peak_memory_mb,
        "weights": fit.weights,
        "hop_weights": fit.hop_weights,
        "holdout": None if training.holdout is None else training.holdout.to_json(),
        "transform": bundle.network.transform or None,
        "check_photos": checked,
    }


@command(
    "finetune",
    examples="""
    unseen finetune dgp-bundle --photos imagenet/train --out dgp-tuned
    unseen finetune dgp --photos photos --out new --epochs 3 --batch 16 --learning-rate .01 --scale 3 --freeze-stages -1
    unseen finetune dgp-bundle --photos photos/ --out tuned --resume
    torchrun --nproc-per-node 8 -m unseen finetune dgp-bundle --photos imagenet/train --out dgp-tuned
    """,
)
def finetune(
    bundle: Annotated[Path, Argument(help="The bundle whose network is finetuned.")],
    photos: Annotated[Path, Option(help="Photos of seen classes: DIR/<id or name>/*, or tar shards.")],
    out: Annotated[Path, Option(help="The bundle to write, with the finetuned network.")],
    *,
    settings: FinetuneSettings,
    workers: options.Workers = 2,
    skip_unknown: Annotated[bool, Option(help="Leave out folders that are not seen classes.")] = False,
    seed: options.Seed = 0,
    device: options.Device = "auto",
    resume: options.Resume = False,
    overwrite: options.Restart = False,
    trust_code: options.TrustCode = False,
    json_: JsonFlag = False,
) -> None:
    """Finetune the network under the predicted classifiers of its seen classes (the paper's second stage)."""
    run = Run(seed=seed, device=device, resume=resume, workers=workers)
    model = load(bundle, device="cpu", trust_code=trust_code)  # each process moves a copy to its own device
    record = model.finetune(photos, settings, out=out, overwrite=overwrite, skip_unknown=skip_unknown, run=run)
    if own_rank() == 0:  # of torchrun's processes one speaks
        assert record is not None
        last = next((line for line in reversed(model.bundle.log) if "accuracy" in line), {})
        result = {"bundle": str(out), **record.to_json(), "loss": last.get("loss"), "accuracy": last.get("accuracy")}
        emit(result, json_)


@command(
    "calibrate",
    examples="""
    unseen calibrate my-bundle --photos photos/held-out --out calibrated
    unseen calibrate my-bundle --photos photos/held-out --out calibrated --reach 10
    """,
)
def calibrate(
    bundle: options.Bundle,
    photos: Annotated[
        str, Option(help=f"{options.BY_CLASS_HELP}, a feature store, or .npz. Photos of seen classes are used.")
    ],
    out: options.Out,
    settings: CalibrateSettings,
    overwrite: options.Overwrite = False,
    trust_code: options.TrustCode = False,
    json_: JsonFlag = False,
) -> None:
    """Calibrate probabilities and verdicts on photos of seen classes, some of which are hidden.

    The photos must not be those that the network was trained on: a few hundred of 20 classes or more.
    """
    model = load(bundle, trust_code=trust_code)
    model.bundle.check_output(out, overwrite)  # before photos are read
    record = model.calibrate(photos, settings)
    model.bundle.save(out, overwrite=overwrite)
    assert record is not None
    result = {"bundle": str(out), **record.to_json()}
    emit(result, json_, lambda: _show_calibrated(result))


def _show_calibrated(result: dict) -> None:
    effect = result["effect"]
    stdout.print(f"{result['photos']:,} photos, {result['hidden_classes']} classes hidden at a time")
    for kind in ("seen", "hidden"):
        stdout.print(f"photos of {kind} classes: {in_words(effect[kind])}")
    kinds = [(kind, name) for kind in ("seen", "hidden") for name in ("told", "right", "stated", "information")]
    rows = [
        [in_words(row["confidence"]), *(in_words(row[kind][name]) for kind, name in kinds)]
        for row in effect["verdicts"]
    ]
    print_table(["confidence", *(f"{kind}: {name}" for kind, name in kinds)], rows)
    stdout.print(f"Use it: unseen classify photo.jpg --bundle {result['bundle']}")
