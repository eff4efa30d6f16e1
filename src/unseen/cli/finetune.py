"""`unseen finetune`: stage 2, on one process or under torchrun."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from unseen.cli.app import JsonFlag, command, emit, escaped, stdout, tell
from unseen.cli.options import DeviceOption, TrustCodeOption


@command(
    "finetune",
    examples="""
    unseen finetune dgp-bundle --images imagenet/train --out dgp-tuned
    unseen finetune dgp --images photos --out new --epochs 3 --batch 16 --learning-rate .01 --scale 3 --freeze-stages -1
    unseen finetune dgp-bundle --images photos/ --out tuned --resume
    torchrun --nproc-per-node 8 -m unseen finetune dgp-bundle --images imagenet/train --out dgp-tuned
    """,
)
def finetune(
    bundle: Annotated[Path, typer.Argument(help="The bundle whose network is to be finetuned.")],
    images: Annotated[Path, typer.Option(help="Photos of seen classes: DIR/<id or name>/*, or tar shards.")],
    out: Annotated[Path, typer.Option(help="The bundle to write, with the finetuned network inside.")],
    epochs: Annotated[int, typer.Option(min=1)] = 20,
    batch: Annotated[int, typer.Option(min=1, help="Photos a batch, for one process.")] = 64,
    accumulate: Annotated[int, typer.Option(min=1, help="Batches a step.")] = 1,
    learning_rate: Annotated[float, typer.Option()] = 1e-4,
    momentum: Annotated[float, typer.Option()] = 0.9,
    scale: Annotated[
        float, typer.Option(help="Factor of the logits in the loss: 1 is the paper's, 3 suits a few thousand photos.")
    ] = 1.0,
    weight_decay: Annotated[float, typer.Option()] = 0.0,
    schedule: Annotated[str, typer.Option(help="constant (the paper's) or cosine.")] = "constant",
    freeze_batch_norm: Annotated[bool, typer.Option(help="Leave batch-norm as it is.")] = False,
    freeze_stages: Annotated[
        int, typer.Option(help="Leave so many of the network's first stages as they are; -1: all but the last one.")
    ] = 0,
    mixed_precision: Annotated[bool, typer.Option(help="Half precision where CUDA has it.")] = True,
    validation: Annotated[float, typer.Option(help="Share of each class's photos to keep aside.")] = 0.0,
    patience: Annotated[
        int,
        typer.Option(min=0, help="Stop after so many epochs without a better validation, and keep the best; 0: never."),
    ] = 0,
    workers: Annotated[int, typer.Option(min=0, help="Processes that decode photos.")] = 2,
    skip_unknown: Annotated[bool, typer.Option(help="Leave out folders that are not seen classes.")] = False,
    seed: Annotated[int, typer.Option()] = 0,
    device: DeviceOption = "auto",
    checkpoint_every: Annotated[int, typer.Option(min=1, help="Steps between checkpoints.")] = 200,
    resume: Annotated[bool, typer.Option(help="Continue an interrupted finetuning in OUT.")] = False,
    overwrite: Annotated[
        bool, typer.Option(help="Replace a finished bundle in OUT, or start an interrupted finetuning again.")
    ] = False,
    trust_code: TrustCodeOption = False,
    json_: JsonFlag = False,
) -> None:
    """Finetune the network under the predicted classifiers of its seen classes (the paper's second stage)."""
    from unseen.bundle import Bundle
    from unseen.finetuning import FinetuneSettings
    from unseen.finetuning import finetune as tune
    from unseen.runtime.run import Run

    settings = FinetuneSettings(
        epochs=epochs,
        learning_rate=learning_rate,
        momentum=momentum,
        scale=scale,
        weight_decay=weight_decay,
        batch=batch,
        accumulate=accumulate,
        schedule=cast(Any, schedule),  # checked there
        freeze_batch_norm=freeze_batch_norm,
        freeze_stages=freeze_stages,
        mixed_precision=mixed_precision,
        validation=validation,
        patience=patience,
    )
    first = int(os.environ.get("RANK", "0")) == 0  # of torchrun's processes one speaks
    tuned = tune(
        Bundle.load(bundle, trust_code=trust_code),
        images,
        out,
        settings,
        Run(seed=seed, device=device, checkpoint_every=checkpoint_every),
        resume=resume,
        overwrite=overwrite,
        workers=workers,
        skip_unknown=skip_unknown,
        say=tell if first else lambda message: None,
    )
    if first:
        assert tuned.finetuning is not None
        result = {"bundle": str(out), **tuned.finetuning.to_json()}
        result["loss"], result["accuracy"] = last_figures(tuned.log)
        emit(result, json_, lambda: _show(result))


def last_figures(log: list[dict]) -> tuple[float | None, float | None]:
    """Loss and accuracy on the photos trained on, from the last line of the log that has them."""
    last = next((record for record in reversed(log) if "accuracy" in record), {})
    return last.get("loss"), last.get("accuracy")


def _show(result: dict) -> None:
    stdout.print(
        f"[bold]{escaped(result['bundle'])}[/bold]: {result['epochs']} epochs of {result['photos']:,} photos in "
        f"{result['seconds']} s ({result['photos_per_s']} photos/s), loss {result['loss']}, "
        f"accuracy {result['accuracy']} %"
    )
