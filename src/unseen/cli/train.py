"""`unseen train`: stage 1, from the hierarchy, the names and the network to a bundle."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unseen.cli.app import JsonFlag, command, emit, escaped, stdout, tell, with_options
from unseen.cli.options import (
    BackboneOption,
    ClassesOption,
    DeviceOption,
    LayerOption,
    TransformOption,
    WeightsOption,
    read_transform,
)
from unseen.errors import UnseenError
from unseen.methods import method_names

if TYPE_CHECKING:
    from unseen.bundle import Bundle


@command(
    "train",
    examples="""
    unseen train --out my-bundle
    unseen train --method dgp --graph paper --epochs 3000 --out dgp-bundle
    unseen train --method sgcn --holdout 0.2 --epochs 300 --out sgcn-check
    unseen train --graph products.csv --backbone my_module:build_model --classes classes.txt --out products
    unseen train --graph tree.csv --backbone hf:my-model --check-photos photos/ --out mine
    unseen train --graph tree.csv --backbone onnx:net.onnx --classes classes.txt --transform '{"size": 160}' --out mine
    unseen train --graph sounds.csv --backbone linear:head.npz --out sounds
    unseen train --method dgp --set k=2 --set weighted=false --out ablation
    """,
)
def train(
    out: Annotated[Path, typer.Option(help="The bundle to write: a folder.")],
    method: Annotated[str, typer.Option(help=f"{', '.join(method_names())}; or module:Class, your own.")] = "kin",
    graph: Annotated[
        str, typer.Option(help="imagenet (built in), paper, wordnet, a CSV/JSON/edge-list file, or imagenet+FILE.")
    ] = "imagenet",
    vectors: Annotated[
        str | None,
        typer.Option(
            help="glove (as published), text, mpnet, glove+text (kin's default); or a GloVe, word2vec or fastText file."
        ),
    ] = None,
    backbone: BackboneOption = "efficientnet-lite0",
    classes: ClassesOption = None,
    layer: LayerOption = None,
    weights: WeightsOption = None,
    transform: TransformOption = None,
    check_photos: Annotated[
        Path | None,
        typer.Option(
            help="Photos of seen classes, DIR/<id or name>/*: tell the network's accuracy on a few of them, and warn "
            "where it is far below what it should have."
        ),
    ] = None,
    features: Annotated[
        Path | None,
        typer.Option(help="For methods that learn from photos: a feature store, or .npz with features and labels."),
    ] = None,
    epochs: Annotated[int | None, typer.Option(min=1, help="Epochs, for the methods that have any.")] = None,
    setting: Annotated[
        list[str] | None, typer.Option("--set", help="Any setting of the method, as name=value; may be repeated.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Random seed.")] = 0,
    holdout: Annotated[float, typer.Option(help="Share of seen classes to hide, for a check without photos.")] = 0.0,
    skip_missing: Annotated[bool, typer.Option(help="Leave out seen classes that the hierarchy lacks.")] = False,
    precision: Annotated[str, typer.Option(help="How classifiers are stored: fp32 or fp16.")] = "fp32",
    device: DeviceOption = "auto",
    checkpoint_every: Annotated[int, typer.Option(min=1, help="Epochs between checkpoints.")] = 100,
    resume: Annotated[bool, typer.Option(help="Continue an interrupted training in OUT.")] = False,
    overwrite: Annotated[
        bool, typer.Option(help="Replace a finished bundle in OUT, or start an interrupted training again.")
    ] = False,
    json_: JsonFlag = False,
) -> None:
    """Predict a classifier for every class of a hierarchy, and write them as a bundle."""
    from unseen.methods import make_method
    from unseen.runtime.run import Run
    from unseen.scoring.candidates import read_ids
    from unseen.training.stage1 import train as fit

    settings = parse_settings(setting or [], epochs)
    make_method(method, settings)  # or an error, before a setting is taken for another argument of fit()
    bundle = fit(
        method,
        graph,
        vectors,
        backbone,
        out,
        resume=resume,
        overwrite=overwrite,
        classes=read_ids(classes) if classes else None,
        layer=layer,
        weights=weights,
        features=features,
        holdout=holdout,
        skip_missing=skip_missing,
        precision=precision,
        run=Run(seed=seed, device=device, checkpoint_every=checkpoint_every),
        say=_say,
        transform=read_transform(transform),
        check_photos=check_photos,
        **settings,
    )
    emit(summary(bundle), json_, lambda: _show(bundle))


def _say(message: str) -> None:
    """The library names Python arguments: here they are options."""
    tell(with_options(UnseenError(message, "transform=...", "check_photos=...")))


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


def summary(bundle: Bundle) -> dict:
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
        "transform": bundle.backbone.transform or None,
        "check_photos": None if training.photo_check is None else training.photo_check.to_json(),
    }


def _show(bundle: Bundle) -> None:
    fit, training = bundle.solution.record, bundle.training
    stdout.print(
        f"[bold]{escaped(bundle.path)}[/bold]: {bundle.method}, {len(bundle):,} classes from "
        f"{len(bundle.seen):,} seen ones, {training.seconds} s"
    )
    if fit.loss is not None:
        after = "" if fit.epochs is None else f" after {fit.epochs} epochs"
        stdout.print(f"  loss {fit.loss:.5f}{after}")
    for direction, weights in (fit.hop_weights or {}).items():
        stdout.print(f"  hop weights from {direction}: " + " ".join(f"{weight:.3f}" for weight in weights))
    held = training.holdout
    if held is not None and held.hit_1 is not None:
        stdout.print(f"  {held.classes} hidden classes: hit@1 {held.hit_1} %, hit@5 {held.hit_5} %")
    stdout.print(f"Try it: unseen classify PHOTO --bundle {escaped(bundle.path)}")
