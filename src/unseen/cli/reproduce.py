"""`unseen reproduce` and `unseen report`: the paper's tables on the data at hand."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from unseen.cli.app import JsonFlag, command, emit, say, stdout

QUICK = {"epochs": 60, "finetune_epochs": 1}


@command(
    "reproduce",
    examples="""
    unseen reproduce scalability
    unseen reproduce unseen-classes --photos photos/
    unseen reproduce all --photos photos/ --out results --quick
    unseen reproduce all --imagenet-21k /data/fall11 --imagenet-1k /data/imagenet --out results --device cuda
    """,
)
def reproduce(
    table: Annotated[str, typer.Argument(help="A table's name (unseen-classes, generalised, ablation, ...), or all.")],
    photos: Annotated[
        Path | None, typer.Option(help="A folder with unseen/, and perhaps seen-train/ and seen-val/, by class id.")
    ] = None,
    imagenet_21k: Annotated[Path | None, typer.Option(help="ImageNet-21K, DIR/<wnid>/*.")] = None,
    imagenet_1k: Annotated[Path | None, typer.Option(help="ImageNet-1k with train/ and val/.")] = None,
    out: Annotated[Path, typer.Option(help="Where bundles, features, results and the report are kept.")] = Path(
        "runs/reproduce"
    ),
    quick: Annotated[bool, typer.Option(help="Short trainings, to see that all runs: not for figures.")] = False,
    epochs: Annotated[int | None, typer.Option(min=1, help="Epochs of stage 1; the paper's 3000 if not given.")] = None,
    finetune_epochs: Annotated[int | None, typer.Option(min=1, help="Epochs of stage 2; the paper's 20.")] = None,
    finetune_batch: Annotated[int, typer.Option(min=1)] = 64,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, mps.")] = "auto",
    workers: Annotated[int, typer.Option(min=0)] = 2,
    json_: JsonFlag = False,
) -> None:
    """Run a table of the paper on whatever data there is, and set our figures beside the published ones."""
    from unseen.analysis import analyse
    from unseen.recipes import ORDER, load_recipe
    from unseen.report import write_report
    from unseen.reproduce import Reproduction, find_level

    names = ORDER if table == "all" else (load_recipe(table).name,)
    given = {"epochs": epochs, "finetune_epochs": finetune_epochs}
    lengths = (QUICK if quick else {}) | {key: value for key, value in given.items() if value is not None}
    level = find_level(photos, imagenet_21k, imagenet_1k)
    work = Reproduction(out, level, finetune_batch=finetune_batch, device=device, workers=workers, say=say, **lengths)
    results = {name: work.run(name) for name in names}
    result = {"level": level.name, "tables": results}
    if table == "all":
        analyse(work)
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
    from unseen.report import write_report

    written = write_report(work, out, photos)
    emit(written, json_, lambda: stdout.print(f"{written['html']}  {written['markdown']}"))


def _show(result: dict) -> None:
    from unseen.report import table_of

    for saved in result["tables"].values():
        for rows in table_of(saved):
            table = Table(*rows[0], title=f"{saved['title']} ({saved['paper']}), level {saved['level']}",
                          title_justify="left")  # fmt: skip
            for row in rows[1:]:
                table.add_row(*row)
            stdout.print(table)
    if "report" in result:
        stdout.print(f"Report: {result['report']['html']}")
