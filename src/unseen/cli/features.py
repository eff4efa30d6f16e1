"""`unseen features`: photos to features on disk, on one process or under torchrun."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from unseen.cli.app import JsonFlag, command, emit, escaped, stdout, tell
from unseen.cli.options import (
    BackboneOption,
    ClassesOption,
    DeviceOption,
    LayerOption,
    TransformOption,
    TrustCodeOption,
    WeightsOption,
    read_transform,
)
from unseen.errors import UnseenError


@command(
    "features",
    examples="""
    unseen features --images imagenet/train --out train-features
    unseen features --images photos/ --out photo-features --bundle my-bundle --precision fp32
    unseen features --images photos/ --out other-features --backbone timm/resnet50.a1_in1k --device cuda --batch 256
    torchrun --nproc-per-node 8 -m unseen features --images imagenet/fall11 --out all-features
    """,
)
def features(
    images: Annotated[Path, typer.Option(help="Photos by class: DIR/<id>/*.")],
    out: Annotated[Path, typer.Option(help="The feature store, a folder. An existing one is completed or updated.")],
    backbone: BackboneOption = "efficientnet-lite0",
    bundle: Annotated[Path | None, typer.Option(help="Use the network of this bundle, finetuned or not.")] = None,
    classes: ClassesOption = None,
    layer: LayerOption = None,
    weights: WeightsOption = None,
    transform: TransformOption = None,
    precision: Annotated[str | None, typer.Option(help="fp16 (the default of a new store) or fp32.")] = None,
    workers: Annotated[
        int | None,
        typer.Option(min=0, help="Processes that read photos; by default one for each CPU, at most 8."),
    ] = None,
    batch: Annotated[
        int | None,
        typer.Option(min=1, help="Photos in one run of the network; by default 16 on a CPU, 128 on a GPU."),
    ] = None,
    retry_unreadable: Annotated[
        bool, typer.Option("--retry-unreadable", help="Retry the files that could not be read.")
    ] = False,
    trust_code: TrustCodeOption = False,
    prune: Annotated[
        bool, typer.Option("--prune", help="Drop the classes of the store that have no folder in --images.")
    ] = False,
    device: DeviceOption = "auto",
    json_: JsonFlag = False,
) -> None:
    """Compute the features of a folder of photos once and keep them.

    It can be interrupted, and photos can be added: run it again, and only what is missing is computed. A class whose
    folder is gone stays in the store, unless --prune drops it.
    """
    from unseen.features import build_store
    from unseen.runtime.processes import Processes

    with Processes(device) as processes:
        network = _load_network(backbone, bundle, classes, layer, weights, transform, trust_code)
        built = build_store(
            images,
            out,
            network.to(processes.device),
            precision=precision,
            batch=batch,
            workers=workers,
            retry_unreadable=retry_unreadable,
            prune=prune,
        )
    if processes.rank > 0:  # of torchrun's processes one speaks
        return
    if built.unreadable:
        tell(f"{built.unreadable:,} files could not be read: {out / 'unreadable.jsonl'} says which and why.")
    if built.kept:
        tell(f"{_listed(built.kept)}: not in {images}, kept in the store. --prune drops such classes.")
    if built.pruned:
        tell(f"{_listed(built.pruned)}: not in {images}, dropped from the store.")
    if built.unknown:
        tell(
            f"{out / 'store.json'} was damaged, so that nobody knows which network made the features that were here: "
            f"they lie in {built.unknown} now, and all photos were read again."
        )
    if built.unlisted:
        tell(f"{_listed(built.unlisted)}: the folder could not be read, the features from before are kept.")
    emit(
        built.as_dict(),
        json_,
        lambda: stdout.print(
            f"{built.photos:,} photos of {built.classes:,} classes in {escaped(out)}, {built.new:,} of them new "
            f"({built.as_dict()['photos_per_s']:,} photos/s)."
        ),
    )


def _listed(classes: tuple[str, ...]) -> str:
    more = f" and {len(classes) - 5:,} more" if len(classes) > 5 else ""
    return f"{', '.join(classes[:5])}{more}"


def _load_network(
    backbone: str,
    bundle: Path | None,
    classes: Path | None,
    layer: str | None,
    weights: Path | None,
    transform: str | None,
    trust_code: bool,
):
    from unseen.backbones import load_backbone
    from unseen.scoring.candidates import read_ids

    if bundle is None:
        ids = read_ids(classes) if classes else None
        return load_backbone(backbone, ids, weights, layer, read_transform(transform))
    if classes or layer or weights or transform:
        raise UnseenError(
            "--bundle already says which network to use, and how: omit --classes, --layer, --weights and --transform."
        )
    from unseen.bundle import Bundle

    return Bundle.load(bundle).load_backbone(trust_code, tell)
