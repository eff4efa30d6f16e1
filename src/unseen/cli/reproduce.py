"""`unseen reproduce` and `unseen report`: the paper's tables on the data at hand."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from unseen.cli.app import JsonFlag, command, emit, say, stdout
from unseen.cli.options import DeviceOption
from unseen.cli.tables import show_figures


@command(
    "reproduce",
    examples="""
    unseen reproduce scalability
    unseen reproduce unseen-classes --photos photos/
    unseen reproduce awa2 --awa2 Animals_with_Attributes2
    unseen reproduce all --photos photos/ --out results --quick
    torchrun --nproc-per-node 8 -m unseen reproduce all --imagenet-21k fall11 --imagenet-1k imagenet --out results
    """,
)
def reproduce(
    table: Annotated[str, typer.Argument(help="A table's name (unseen-classes, generalised, ablation, ...), or all.")],
    photos: Annotated[
        Path | None, typer.Option(help="A folder with unseen/, and perhaps seen-train/ and seen-val/, by class id.")
    ] = None,
    imagenet_21k: Annotated[Path | None, typer.Option(help="ImageNet-21K, DIR/<wnid>/*.")] = None,
    imagenet_1k: Annotated[Path | None, typer.Option(help="ImageNet-1k with train/ and val/.")] = None,
    awa2: Annotated[
        Path | None, typer.Option(help="AWA2 as it is distributed, with JPEGImages/<class name>/: for the table awa2.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Where bundles, features, results and the report are kept.")] = Path(
        "runs/reproduce"
    ),
    quick: Annotated[
        bool, typer.Option(help="A few photos and short trainings, to see that all runs: not for figures.")
    ] = False,
    epochs: Annotated[
        int | None,
        typer.Option(
            min=1, help="Epochs of stage 1: 3000; GCNZ 100 and comparisons of variants 300 below the paper's level."
        ),
    ] = None,
    gcnz_epochs: Annotated[int | None, typer.Option(min=1, help="Epochs of GCNZ, which is slow; as --epochs.")] = None,
    study_epochs: Annotated[
        int | None, typer.Option(min=1, help="Epochs of the graph networks whose variants are compared; as --epochs.")
    ] = None,
    finetune_epochs: Annotated[
        int | None, typer.Option(min=0, help="Epochs of stage 2: 20 at the paper's level, else 3. 0: no stage 2.")
    ] = None,
    finetune_batch: Annotated[
        int | None, typer.Option(min=1, help="Photos a step of stage 2, of all processes.")
    ] = None,
    finetune_rate: Annotated[
        float | None,
        typer.Option(
            min=1e-9, help="Learning rate of stage 2: 1e-4 at the paper's level, else chosen on a part of seen-train."
        ),
    ] = None,
    finetune_scale: Annotated[
        float | None, typer.Option(help="Factor of stage 2's logits: 1 at the paper's level, else 3.")
    ] = None,
    finetune_freeze: Annotated[
        int | None,
        typer.Option(help="Stages that stage 2 leaves: 0 at the paper's level, else all but the last (-1)."),
    ] = None,
    graph: Annotated[str | None, typer.Option(help="Another hierarchy than the level's.")] = None,
    vectors: Annotated[str | None, typer.Option(help="Other class vectors: a name or a file.")] = None,
    backbone: Annotated[str | None, typer.Option(help="Another network than the level's.")] = None,
    weights: Annotated[Path | None, typer.Option(help="The network's weights, from a local file.")] = None,
    only_done: Annotated[
        bool, typer.Option(help="Train nothing: figures of what is trained already; other rows are left out.")
    ] = False,
    device: DeviceOption = "auto",
    workers: Annotated[int, typer.Option(min=0, help="Processes that decode photos.")] = 2,
    json_: JsonFlag = False,
) -> None:
    """Run a table of the paper on whatever data there is, and set our figures beside the published ones.

    Finished work is kept: run an interrupted command again and it continues. Tables share what they train.
    """
    from dataclasses import replace

    from unseen.reproduction import Reproduction
    from unseen.reproduction.analysis import analyse
    from unseen.reproduction.levels import LENGTHS, find_level
    from unseen.reproduction.recipe import ORDER, load_recipe
    from unseen.reproduction.report import write_report
    from unseen.runtime.processes import Processes

    names = ORDER if table == "all" else (load_recipe(table).name,)
    level = find_level(photos, imagenet_21k, imagenet_1k, awa2)
    level = level.with_parts(graph=graph, vectors=vectors, backbone=backbone, weights=weights)
    given = {"epochs": epochs, "study_epochs": study_epochs or epochs, "gcnz_epochs": gcnz_epochs or epochs,
             "finetune_epochs": finetune_epochs, "finetune_batch": finetune_batch, "finetune_rate": finetune_rate,
             "finetune_scale": finetune_scale, "finetune_freeze": finetune_freeze}  # fmt: skip
    lengths = LENGTHS["quick" if quick else level.name]
    lengths = replace(lengths, **{key: value for key, value in given.items() if value is not None})
    with Processes(device) as processes:  # alone, or one of torchrun's
        first = processes.rank == 0
        if quick:
            level = level.sample(out / "sample")
        work = Reproduction(
            out,
            level,
            lengths,
            device=str(processes.device),
            workers=workers,
            show_progress=first,
            say=say if first else lambda message: None,
            processes=processes if processes.world > 1 else None,
            only_done=only_done,
        )
        stages = (
            f"{lengths.epochs} epochs of stage 1 (GCNZ {lengths.gcnz_epochs}, comparisons of variants "
            f"{lengths.study_epochs}), {lengths.finetune_epochs} of stage 2"
        )
        work.say(f"level {level.name}: {stages}")
        results = {name: work.run(name) for name in names}
        if table == "all":
            analyse(work)
    if not first:
        return
    result = {"level": level.name, "tables": results}
    if table == "all":
        result["report"] = write_report(out, out)
    emit(result, json_, lambda: _show(result))


@command("report", examples="unseen report runs/reproduce --out docs/results --no-photos")
def report(
    work: Annotated[Path, typer.Argument(help="The folder that `unseen reproduce --out` filled.")],
    out: Annotated[Path, typer.Option(help="Where report.md, report.html and plots/ go.")],
    photos: Annotated[bool, typer.Option(help="Show the photos of the qualitative figure in the HTML page.")] = True,
    json_: JsonFlag = False,
) -> None:
    """Make the report again from saved results, without running anything."""
    from unseen.reproduction.report import write_report

    written = write_report(work, out, photos)
    emit(written, json_, lambda: _print(f"{written['html']}  {written['markdown']}"))


def _show(result: dict) -> None:
    from unseen.reproduction.report_tables import tables_of

    for saved in result["tables"].values():
        title = f"{saved['title']} ({saved['paper']}), level {saved['level']}"
        if "left_out" in saved:
            _print(f"{title}: left out. {saved['left_out']}")
        for made in tables_of(saved):
            (_, first), *others = made.groups  # the first column names the row
            groups = [1, first - 1, *(count for _, count in others)]
            show_figures(stdout, made.flat_header("\n"), made.rows, groups, title)
    if "report" in result:
        _print(f"Report: {result['report']['html']}")


def _print(text: str) -> None:
    """A line with names of files in it: just as they are."""
    stdout.print(text, markup=False, highlight=False, soft_wrap=True)
