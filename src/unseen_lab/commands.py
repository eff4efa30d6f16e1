"""`unseen reproduce` and `unseen compare`: the paper's tables, and one table of all methods."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from unseen import Run, UnseenError
from unseen.apps.cli import Device, JsonFlag, Workers, command, emit, print_table, stdout
from unseen.methods import method_names
from unseen.networks import Processes
from unseen.util import write_atomically
from unseen_lab.tables.levels import (
    EVERYDAY,
    LENGTHS,
    ORDER,
    Lengths,
    Level,
    OtherLengths,
    Row,
    find_level,
    load_recipe,
    parse_method,
)

if TYPE_CHECKING:
    from unseen_lab.tables.table import Table
    from unseen_lab.tables.trainings import Trainings

logger = logging.getLogger("unseen.lab")  # below the logger that the command line shows


@command(
    "reproduce",
    examples="""
    unseen reproduce scalability
    unseen reproduce unseen-classes --photos photos/
    unseen reproduce awa2 --awa2 Animals_with_Attributes2
    unseen reproduce everyday
    unseen reproduce sources --photos photos/
    unseen reproduce xlsa17 --data xlsa17/data
    unseen reproduce xlsa17 --data xlsa17/data/AWA2 --methods eszsl,exem
    unseen reproduce all --photos photos/ --out results --quick
    unseen reproduce --report docs/results --no-pictures --out results
    torchrun --nproc-per-node 8 -m unseen reproduce all --imagenet-21k fall11 --imagenet-1k imagenet --out results
    """,
)
def reproduce(
    settings: OtherLengths,
    table: Annotated[
        str | None, Argument(help="A table's name (unseen-classes, ...), everyday, sources, xlsa17, or all.")
    ] = None,
    photos: Annotated[Path | None, Option(help="Folder with unseen/, perhaps seen-train/, seen-val/.")] = None,
    imagenet_21k: Annotated[Path | None, Option(help="ImageNet-21K, DIR/<wnid>/*.")] = None,
    imagenet_1k: Annotated[Path | None, Option(help="ImageNet-1k with train/ and val/.")] = None,
    awa2: Annotated[Path | None, Option(help="AWA2 with JPEGImages/<class name>/.")] = None,
    data: Annotated[Path | None, Option(help="For xlsa17: DIR/<data set>/res101.mat and att_splits.mat.")] = None,
    methods: Annotated[str | None, Option(help="For everyday, xlsa17: which methods, with commas.")] = None,
    ranks: Annotated[Path | None, Option(help="For sources: the folder of ranks, whose page is FOLDER.md.")] = None,
    out: Annotated[Path, Option(help="For bundles, features, results, report.")] = Path("runs/reproduce"),
    report: Annotated[
        Path | None, Option(help="Write the report of what OUT holds there; without a table, nothing is run.")
    ] = None,
    pictures: Annotated[bool, Option(help="Also copy the photos of the qualitative figure to the report.")] = True,
    quick: Annotated[bool, Option(help="Few photos, short trainings: to see that all runs.")] = False,
    hierarchy: Annotated[str | None, Option(help="A hierarchy other than the level's.")] = None,
    vectors: Annotated[str | None, Option(help="Other class vectors: a name or a file.")] = None,
    network: Annotated[str | None, Option(help="A network other than the level's.")] = None,
    weights: Annotated[Path | None, Option(help="The network's weights, from a local file.")] = None,
    only_done: Annotated[bool, Option(help="Train nothing: only figures of what is trained.")] = False,
    device: Device = "auto",
    workers: Workers = 2,
    json_: JsonFlag = False,
) -> None:
    """Run a table of the paper on whatever data there is, and set our figures beside the published ones.

    Finished work is kept: run an interrupted command again and it continues. Tables share what they train.
    """
    from unseen_lab.data.everyday import fetch_everyday
    from unseen_lab.tables.report import write_report
    from unseen_lab.tables.run import Reproduction
    from unseen_lab.tables.trainings import Trainings

    if table is None:
        if report is None:
            raise UnseenError("name a table, or a folder for the report with --report")
        made = {"report": write_report(out, report, pictures)}
        emit(made, json_, lambda: stdout.print(f"Report: {made['report']['markdown']}"))
        return
    if data is not None and table != "xlsa17":
        raise UnseenError(f"--data is for xlsa17, not for {table}")
    if table == "xlsa17":
        _attribute_benchmarks(data, methods, out, device, json_)
        return
    if table == "sources":
        _sources(photos, out, ranks or out / "sources", json_)
        return
    if methods is not None and table != EVERYDAY:
        raise UnseenError(f"--methods is for {EVERYDAY} and xlsa17, not for {table}")
    names = ORDER if table == "all" else (load_recipe(table).name,)
    rows = [] if methods is None else _rows(methods)
    if table == EVERYDAY:
        level, usual = Level("photos", "imagenet", "glove", "efficientnet-lite0"), LENGTHS["embedded"]
        level = replace(level, unseen=fetch_everyday(out / EVERYDAY))
    else:
        level = find_level(photos, imagenet_21k, imagenet_1k, awa2)
        usual = LENGTHS["quick" if quick else level.name]
    level = level.with_parts(hierarchy=hierarchy, vectors=vectors, network=network, weights=weights)
    lengths = settings.applied_to(usual)
    with Processes(device) as processes:  # alone, or one of torchrun's
        if quick:
            level = level.sample(out / "sample")
        trainings = Trainings(
            out,
            level,
            lengths,
            device=str(processes.device),
            workers=workers,
            show_progress=processes.rank == 0,
            processes=processes if processes.world > 1 else None,
            only_done=only_done,
        )
        stages = f"{lengths.epochs} epochs of stage 1 (GCNZ {lengths.gcnz_epochs}, comparisons of variants "
        stages += f"{lengths.study_epochs}), {lengths.finetune_epochs} of stage 2"
        logger.info("level %s: %s", level.name, stages)
        work = Reproduction(trainings)
        result = {"level": level.name, "tables": {name: work.run(name, rows) for name in names}}
        if table == "all":
            work.analyse()
    if processes.rank > 0:
        return
    if table == "all" or report is not None:
        result["report"] = write_report(out, report or out, pictures)
    emit(result, json_, lambda: _show_tables(result))


def _rows(methods: str) -> list[Row]:
    return list(map(parse_method, methods.split(",")))


def _sources(photos: Path | None, out: Path, ranks: Path, json_: bool) -> None:
    from unseen_lab.tables.sources import run_missing
    from unseen_lab.tables.sources_page import fill, parts

    if photos is not None:
        run_missing(photos / "unseen", out, ranks)
    made, page = parts(ranks), ranks.with_suffix(".md")
    if page.exists():
        write_atomically(page, fill(page.read_text(encoding="utf-8"), made).encode())
    emit(made, json_, lambda: stdout.print("\n\n".join(f"{name}\n{text}" for name, text in made.items())))


def _attribute_benchmarks(data: Path | None, methods: str | None, out: Path, device: str, json_: bool) -> None:
    from unseen_lab.tables.xlsa17 import page_of, run_benchmarks, table_of

    if data is None:
        raise UnseenError("xlsa17 needs its files: name their folder with --data (DIR/AWA2/res101.mat, ...)")
    names = None if methods is None else [row.label for row in _rows(methods)]
    result = run_benchmarks(data, names, Run(device=device, show_progress=False))
    page = out / "xlsa17.md"
    write_atomically(page, page_of(result).encode())

    def show() -> None:
        for dataset in result["datasets"]:
            _show(table_of(dataset))
        stdout.print(f"What the columns mean, and where the published figures come from: {page}")

    emit(result, json_, show)


def _show_tables(result: dict) -> None:
    from unseen_lab.tables.report import tables_of

    for saved in result["tables"].values():
        title = f"{saved['title']} ({saved['paper']}), level {saved['level']}"
        if "left_out" in saved:
            stdout.print(f"{title}: left out. {saved['left_out']}")
        for table in tables_of(saved):
            _show(table, title)
    if "report" in result:
        stdout.print(f"Report: {result['report']['markdown']}")


def _show(table: Table, title: str = "") -> None:
    """With a line for "@5" of its own below the name of the list."""
    rows = [[cell.replace("**", "") for cell in row] for row in table.rows]
    print_table([name.replace(" @", "\n@") for name in table.header], rows, title or None, table.words)


@command(
    "compare",
    examples="""
    unseen compare --photos photos/ --epochs 300
    unseen compare --photos photos/ --methods kin,kin:glove,dgp,dgp:glove+text,structural --markdown table.md
    unseen compare --photos photos/ --methods kin,dgp,sgcn --vectors glove,text,looks,glove+text+looks
    unseen compare --photos photos/ --methods kin,structural --network efficientnet-lite0,resnet50
    unseen compare --photos photos/ --lists --markdown lists.md
    unseen compare --ranks docs/results/comparison-ranks.csv.gz
    """,
)
def compare(
    photos: Annotated[
        Path | None, Option(help="A folder with unseen/, and perhaps seen-train/ and seen-val/, by id.")
    ] = None,
    ranks: Annotated[
        Path | None, Option(help="Compute the table and its tests from the ranks of such a run, without photos.")
    ] = None,
    methods: Annotated[str | None, Option(help="Names, or name:vectors, with commas; by default all.")] = None,
    epochs: Annotated[int, Option(min=1, help="Epochs of the graph networks.")] = 300,
    gcnz_epochs: Annotated[int, Option(min=1, help="Epochs of GCNZ, which is slow.")] = 100,
    vectors: Annotated[str | None, Option(help="Class vectors, with commas; by default glove.")] = None,
    network: Annotated[str | None, Option(help="With commas; by default efficientnet-lite0.")] = None,
    verdicts: Annotated[bool, Option(help="Also calibrate each and tell how good its verdicts are.")] = True,
    lists: Annotated[bool, Option("--lists", help="Lists of new classes by length and photos instead.")] = False,
    draws: Annotated[int, Option(min=1, help="How often lists and taught photos are drawn, with --lists.")] = 10,
    out: Annotated[Path, Option(help="Where bundles and features are kept.")] = Path("runs/compare"),
    average: Annotated[str, Option(help="class or image.")] = "class",
    markdown: Annotated[Path | None, Option(help="Write the table there, and ranks beside it.")] = None,
    device: Device = "auto",
    json_: JsonFlag = False,
) -> None:
    """Train and evaluate all methods on the same features and candidates, and print one table."""
    from unseen_lab.tables.compare import compare as run
    from unseen_lab.tables.compare import named_verdicts, page
    from unseen_lab.tables.lists import METHODS
    from unseen_lab.tables.plots import draw_verdicts
    from unseen_lab.tables.ranks import write_ranks
    from unseen_lab.tables.trainings import Trainings

    if average not in ("class", "image"):
        raise UnseenError(f"--average is class or image, not {average!r}")
    if ranks is not None:
        _compare_again(ranks, average, json_)
        return
    if photos is None:
        raise UnseenError("name a folder of photos with --photos, or the ranks of an earlier run with --ranks")
    rows = _rows(methods or ",".join(METHODS if lists else method_names()))
    if vectors is not None:
        rows = [replace(row, vectors=source.strip()) for row in rows for source in vectors.split(",")]
    level = find_level(photos)
    networks = [name.strip() for name in network.split(",")] if network else [level.network]
    lengths = Lengths(epochs, gcnz_epochs, finetune_epochs=0, study_epochs=epochs)
    trainings = Trainings(out, level, lengths, device=device)
    if lists:
        if len(networks) > 1:
            raise UnseenError(f"--lists takes one network, not {len(networks)}")
        trainings = replace(trainings, level=level.with_parts(network=networks[0]))
        _compare_lists(trainings, rows, draws, markdown, json_)
        return
    measured = run(trainings, rows, networks, verdicts)
    if markdown is not None:
        write_atomically(markdown, page(measured, average, trainings, rows, networks).encode())
        write_atomically(markdown.with_name(f"{markdown.stem}-ranks.csv.gz"), write_ranks(measured))
        _write_plots(markdown, draw_verdicts(named_verdicts(measured)))
    figures = [{key: value for key, value in row.items() if key != "ranks"} for row in measured]
    emit({"average": average, "methods": figures}, json_, lambda: _show_comparison(measured, average))


def _compare_lists(trainings: Trainings, rows: list[Row], draws: int, markdown: Path | None, json_: bool) -> None:
    from unseen_lab.tables.lists import list_page, list_table, measure_lists
    from unseen_lab.tables.plots import draw_lists

    result = measure_lists(trainings, rows, draws)
    if markdown is not None:
        write_atomically(markdown, list_page(result, trainings, rows).encode())
        _write_plots(markdown, draw_lists(result["rows"]))
    emit(result, json_, lambda: _show(list_table(result), "Hit@1 in lists of new classes, by length"))


def _write_plots(page: Path, plots: dict[str, bytes]) -> None:
    for name, svg in plots.items():
        write_atomically(page.parent / "plots" / f"{name}.svg", svg)


def _compare_again(ranks: Path, average: str, json_: bool) -> None:
    """The table and the tests of a comparison, from its ranks."""
    from unseen_lab.tables.compare import HITS, OURS, paired_tests
    from unseen_lab.tables.ranks import read_ranks

    rows = read_ranks(ranks)
    tests = {hit: paired_tests(rows, hit) for hit in HITS}

    def show() -> None:
        _show_comparison(rows, average)
        for hit, test in tests.items():
            if test.rows:
                _show(test, f"{OURS} against every other row, {hit}, with p in brackets")

    cells = {hit: [test.header, *test.rows] for hit, test in tests.items()}
    emit({"average": average, "methods": rows, "tests": cells}, json_, show)


def _show_comparison(rows: list[dict[str, Any]], average: str) -> None:
    from unseen_lab.tables.compare import table

    done = [row for row in rows if "left_out" not in row]
    if done:
        _show(table(done, average))
    for row in rows:
        if "left_out" in row:
            stdout.print(f"{row['method']}: left out. {row['left_out']}")
