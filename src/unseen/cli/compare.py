"""`unseen compare`: every method on the same photos."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import Annotated, Any

import typer

from unseen.cli.app import JsonFlag, command, emit, stdout, tell
from unseen.cli.options import DeviceOption
from unseen.cli.tables import show_figures
from unseen.errors import UnseenError


@command(
    "compare",
    examples="""
    unseen compare --photos photos/ --epochs 300
    unseen compare --photos photos/ --methods kin,kin:glove,dgp,dgp:glove+text,structural --markdown table.md
    unseen compare --photos photos/ --methods kin,dgp,sgcn --vectors glove,text,mpnet,glove+text+mpnet
    unseen compare --photos photos/ --methods kin,structural --backbone efficientnet-lite0,resnet50
    """,
)
def compare(
    photos: Annotated[Path, typer.Option(help="A folder with unseen/, and perhaps seen-train/ and seen-val/, by id.")],
    methods: Annotated[
        str | None,
        typer.Option(help="Names, perhaps with vectors (dgp:glove+text), separated by commas. Default: all."),
    ] = None,
    epochs: Annotated[int, typer.Option(min=1, help="Epochs of the graph networks.")] = 300,
    gcnz_epochs: Annotated[int, typer.Option(min=1, help="Epochs of GCNZ, which is slow.")] = 100,
    vectors: Annotated[
        str | None, typer.Option(help="Class vectors, separated by commas; by default glove, kin's own.")
    ] = None,
    backbone: Annotated[
        str | None, typer.Option(help="Networks, separated by commas. Default: efficientnet-lite0.")
    ] = None,
    verdicts: Annotated[bool, typer.Option(help="Also calibrate each and tell how good its verdicts are.")] = True,
    out: Annotated[Path, typer.Option(help="Where bundles and features are kept.")] = Path("runs/compare"),
    average: Annotated[str, typer.Option(help="class or image.")] = "class",
    markdown: Annotated[Path | None, typer.Option(help="Also write the table there, as a page.")] = None,
    device: DeviceOption = "auto",
    json_: JsonFlag = False,
) -> None:
    """Train and evaluate all methods on the same features and candidates, and print one table."""
    from unseen.methods import method_names
    from unseen.reproduction import Reproduction
    from unseen.reproduction.compare import compare as run
    from unseen.reproduction.compare import page, parse_method
    from unseen.reproduction.levels import Lengths, find_level
    from unseen.reproduction.plots import draw_verdicts
    from unseen.reproduction.verdicts import named_verdicts
    from unseen.runtime.files import write_atomically

    if average not in ("class", "image"):
        raise UnseenError(f"--average is class or image, not {average!r}")
    names = [name.strip() for name in methods.split(",")] if methods else method_names()
    if vectors is not None:
        names = [f"{name}:{source.strip()}" for name in names for source in vectors.split(",")]
    for name in names:
        parse_method(name)  # or an error, before anything is trained
    level = find_level(photos)
    work = Reproduction(
        out, level, Lengths(epochs, gcnz_epochs, finetune_epochs=0, study_epochs=epochs), device=device, say=tell
    )
    networks = [name.strip() for name in backbone.split(",")] if backbone else [level.backbone]
    rows = run(work, names, networks, verdicts)
    if markdown is not None:
        write_atomically(markdown, page(rows, average, work, names, networks).encode())
        for name, drawn in draw_verdicts(named_verdicts(rows)).items():
            write_atomically(markdown.parent / "plots" / f"{name}.svg", drawn)
    emit({"average": average, "methods": rows}, json_, lambda: _show(rows, average))


def _show(rows: list[dict[str, Any]], average: str) -> None:
    from unseen.reproduction.compare import table

    header, *cells = table([row for row in rows if "left_out" not in row], average)
    if cells:
        lists = [name.partition(" @")[0] if "@" in name else "" for name in header[2:]]  # of candidates
        groups = [2, *(len(list(same)) for _, same in groupby(lists))]  # method and vectors name a row
        show_figures(stdout, [name.replace(" @", "\n@") for name in header], cells, groups)
    for row in rows:
        if "left_out" in row:
            stdout.print(f"{row['method']}: left out. {row['left_out']}", markup=False, highlight=False, soft_wrap=True)
