"""`unseen evaluate` and `unseen features`: figures for a bundle on photos by class; photos to features on disk."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Option

from unseen.apps.cli import options
from unseen.apps.cli.app import JsonFlag, command
from unseen.apps.cli.output import emit, print_table, stderr, stdout
from unseen.evaluation.protocol import EvaluateSettings, Evaluation
from unseen.evaluation.table import check_table_path
from unseen.model import load
from unseen.naming.candidates import HELP, default_candidates
from unseen.networks.devices import choose_device, is_cpu
from unseen.util.devices import own_rank
from unseen.util.errors import UnseenError
from unseen.util.names import list_some


@command(
    "evaluate",
    examples="""
    unseen evaluate my-bundle --photos photos/unseen --candidates 2-hops
    unseen evaluate calibrated --photos photos/unseen --candidates any --confidence 0.9
    unseen evaluate my-bundle --photos photos/seen-val --candidates 2-hops --with-seen
    unseen evaluate sounds --features hidden.npz --candidates unseen
    unseen evaluate my-bundle --photos photos/unseen --candidates hops:2 --ties pessimistic --json
    torchrun --nproc-per-node 8 -m unseen evaluate my-bundle --photos features --candidates all --json
    """,
)
def evaluate(
    bundle: options.Bundle,
    settings: EvaluateSettings,
    photos: Annotated[
        list[str] | None, Option(help=f"{options.BY_CLASS_HELP}, or a feature store; repeatable.")
    ] = None,
    features: options.Features = None,
    candidates: Annotated[
        str | None, Option(help=f"{HELP}. By default unseen; in your own hierarchy unseen&leaves.")
    ] = None,
    verdicts: Annotated[bool, Option(help="Also evaluate verdicts (slower).")] = True,
    per_class: Annotated[bool, Option(help="Also report every class.")] = False,
    table: Annotated[Path | None, Option(help="A .csv or .parquet for a row of each photo.")] = None,
    workers: options.Workers = 2,
    trust_code: options.TrustCode = False,
    device: options.Device = "auto",
    json_: JsonFlag = False,
) -> None:
    """Measure Hit@k on the photos of DIR/<class id>/*, averaged over photos and over classes."""
    from unseen.networks.processes import Processes  # with torch

    sources: list[str | Path] = [*(photos or []), *([features] if features else [])]
    if not sources:
        raise typer.BadParameter("name the photos with --photos DIR, or features with --features FILE")
    if table is not None:
        check_table_path(table)
    with Processes(device) as processes:  # alone, or one of torchrun's
        model = load(bundle, device=str(processes.device), trust_code=trust_code)
        if candidates is None and default_candidates(model.bundle) != "unseen":
            leaves = "In a hierarchy of your own the candidates are its unseen leaves"
            stderr.print(f"{leaves}: --candidates unseen adds inner nodes.")
        how = settings if verdicts else replace(settings, confidence=None)
        result = model.evaluate(
            sources, candidates, settings=how, workers=workers, processes=processes, photo_names=table is not None
        )
    if processes.rank == 0:
        if table is not None:
            result.table.save(table)
            stderr.print(f"a row for each photo: {table}")
        emit(result.to_dict(per_class), json_, lambda: _show(result, per_class))


def _show(result: Evaluation, per_class: bool) -> None:
    about = f"{result.candidate_classes:,} candidates, prior {result.prior}, ties {result.ties}"
    averages = {"over photos": result.image, "over classes": result.class_}
    rows = [[name, *(f"{value:.1f}" for value in figures.values())] for name, figures in averages.items()]
    header = [key.removeprefix("hit@") for key in result.image]
    print_table(["Hit@k (%)", *header], rows, f"{result.candidates}: {about}")
    stdout.print(
        f"{result.images:,} photos of {result.classes:,} classes (the list has {result.listed_classes:,}); "
        f"{result.unreadable} unreadable, {result.skipped_classes} folders skipped"
    )
    if result.generalised:
        figures = result.generalised["class"]
        stdout.print(
            f"generalised, over classes: seen {figures['seen']}, unseen {figures['unseen']}, "
            f"harmonic mean {figures['harmonic']}, AUSUC {figures['ausuc']}"
        )
    if result.relation:
        parts = [f"{name} {row['hit@1']:.1f} ({row['classes']:,})" for name, row in result.relation.items()]
        stdout.print(f"Hit@1 by relation to the seen classes (classes): {', '.join(parts)}")
    if result.verdict and result.hierarchical:
        _show_verdicts(result.verdict, result.hierarchical, result.calibrated)
    if per_class:
        rows = [
            [row["id"], str(row["photos"]), *(f"{row[key]:.1f}" for key in result.image)] for row in result.per_class
        ]
        print_table(["id", "photos", *result.image], rows)


def _show_verdicts(verdict: dict[str, Any], figures: dict[str, Any], calibrated: bool) -> None:
    right = ""
    if verdict["right"] is not None:
        right = f"{verdict['right']:.1f} % of them right, {verdict['stated']:.1f} stated, "
    stdout.print(
        f"verdicts at confidence {verdict['confidence']:g}{'' if calibrated else ', not calibrated'}: on "
        f"{verdict['told']:.1f} % of photos, {right}{verdict['information']:.2f} bits\n"
        f"hierarchical: precision@5 {figures['precision@5']:.1f} %, F1 {figures['f1']:.1f} %, mistakes "
        f"{'-' if figures['severity'] is None else figures['severity']} steps up, area {figures['area']:.3f}"
    )


@command(
    "features",
    examples="""
    unseen features --photos imagenet/train --out train-features
    unseen features --photos photos/ --out photo-features --bundle my-bundle --precision fp32
    unseen features --photos 'shards/*.tar' --out shard-features
    unseen features --photos photos/ --out other-features --network timm/resnet50.a1_in1k --device cuda --batch 256
    """,
)
def features(
    photos: Annotated[str, Option(help=f"{options.BY_CLASS_HELP}.")],
    out: Annotated[Path, Option(help="The feature store, a folder. An existing one is completed or updated.")],
    network: options.NetworkSettings,
    bundle: Annotated[Path | None, Option(help="Use the network of this bundle, finetuned or not.")] = None,
    precision: Annotated[str | None, Option(help="fp16 (the default of a new store) or fp32.")] = None,
    workers: Annotated[int | None, Option(min=0, help="Threads that read photos; by default one a CPU.")] = None,
    batch: Annotated[int | None, Option(min=1, help="Photos in a run on a GPU; by default 128.")] = None,
    retry_unreadable: Annotated[bool, Option("--retry-unreadable", help="Retry the unreadable files.")] = False,
    trust_code: options.TrustCode = False,
    prune: Annotated[bool, Option("--prune", help="Drop classes that have no folder in --photos.")] = False,
    device: options.Device = "auto",
    json_: JsonFlag = False,
) -> None:
    """Compute the features of photos by class once and keep them.

    It can be interrupted, and photos can be added: run it again, and only what is missing is computed. A class whose
    folder is gone stays in the store, unless --prune drops it.
    """
    from unseen.networks import build_store  # with torch
    from unseen.networks.translate import for_photos

    if bundle and (network.classes or network.layer or network.weights or network.transform):
        beside = "--classes, --layer, --weights and --transform"
        raise UnseenError(f"--bundle already says which network to use, and how: omit {beside}.")
    if bundle is not None:
        chosen = load(bundle, device=device, trust_code=trust_code).network
    else:
        chosen, where = network.load(), choose_device(device)
        chosen = for_photos(chosen) if chosen.device is None or is_cpu(where) else chosen.to(where)
    how = {"precision": precision, "batch": batch, "workers": workers, "prune": prune}
    built = build_store(photos, out, chosen, retry_unreadable=retry_unreadable, **how)
    if own_rank() > 0:  # of torchrun's processes one speaks
        return
    if built.unreadable:
        stderr.print(f"{built.unreadable:,} files could not be read: {out / 'unreadable.jsonl'} says which and why.")
    for classes_there, what in (
        (built.kept, f"not in {photos}, kept in the store. --prune drops such classes."),
        (built.pruned, f"not in {photos}, dropped from the store."),
        (built.unlisted, "the folder could not be read, the features from before are kept."),
    ):
        if classes_there:
            stderr.print(f"{list_some(classes_there)}: {what}")
    result = built.to_dict()
    done = f"{built.photos:,} photos of {built.classes:,} classes in {out}, {built.new:,} of them new"
    emit(result, json_, lambda: stdout.print(f"{done} ({result['photos_per_s']:,} photos/s)."))
