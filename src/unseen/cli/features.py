"""`unseen features`: photos to features on disk, on one process or under torchrun."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from unseen.cli.app import JsonFlag, command, emit, escaped, stdout, tell
from unseen.cli.options import BackboneOption, ClassesOption, DeviceOption, LayerOption, WeightsOption
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
    out: Annotated[Path, typer.Option(help="The feature store: a folder. An existing one is finished, or updated.")],
    backbone: BackboneOption = "efficientnet-lite0",
    bundle: Annotated[Path | None, typer.Option(help="Take the network of this bundle, finetuned or not.")] = None,
    classes: ClassesOption = None,
    layer: LayerOption = None,
    weights: WeightsOption = None,
    precision: Annotated[str | None, typer.Option(help="fp16 (what a new store gets) or fp32.")] = None,
    workers: Annotated[
        int | None,
        typer.Option(min=0, help="Processes that read photos: one for each CPU, at most 8."),
    ] = None,
    batch: Annotated[
        int | None,
        typer.Option(min=1, help="Photos that the network looks at together: 16 on a CPU, 128 on a GPU."),
    ] = None,
    retry_unreadable: Annotated[
        bool, typer.Option("--retry-unreadable", help="Try files again that could not be read.")
    ] = False,
    device: DeviceOption = "auto",
    json_: JsonFlag = False,
) -> None:
    """Compute the features of all photos of a folder, once: interrupt it, run it again, add photos, it goes on."""
    from unseen.features import build_store
    from unseen.runtime.processes import Processes

    first = int(os.environ.get("RANK", "0")) == 0  # of torchrun's processes one speaks
    with Processes(device) as processes:
        network = _load_network(backbone, bundle, classes, layer, weights).to(processes.device)
        built = build_store(
            images,
            out,
            network,
            precision=precision,
            batch=batch,
            workers=workers,
            retry_unreadable=retry_unreadable,
        )
    if not first:
        return
    if built.unreadable:
        tell(f"{built.unreadable:,} files could not be read: {out / 'unreadable.jsonl'} says which and why.")
    emit(
        built.as_dict(),
        json_,
        lambda: stdout.print(
            f"{built.photos:,} photos of {built.classes:,} classes in {escaped(out)}, {built.new:,} of them new "
            f"({built.as_dict()['photos_per_s']:,} photos/s)."
        ),
    )


def _load_network(backbone: str, bundle: Path | None, classes: Path | None, layer: str | None, weights: Path | None):
    from unseen.backbones import load_backbone
    from unseen.scoring.candidates import read_ids

    if bundle is None:
        return load_backbone(backbone, read_ids(classes) if classes else None, weights, layer)
    if classes or layer or weights:
        raise UnseenError("--bundle brings the network with all it needs: leave out --classes, --layer and --weights.")
    from unseen.bundle import Bundle

    return Bundle.load(bundle).load_backbone()
