"""`unseen reproduce`, `report`, `compare` and `bench`: tables of the paper, of all methods, and of speed."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from rich.table import Table
from rich.text import Text
from typer import Argument, Option

from unseen.apps.cli import options
from unseen.apps.cli.app import JsonFlag, command, emit, stdout
from unseen.util.errors import UnseenError
from unseen_lab.tables.levels import LENGTHS, ORDER, Lengths, OtherLengths, find_level, load_recipe

logger = logging.getLogger(__name__)
SCRIPTS, NAMES = Path(__file__).resolve().parents[2] / "benchmarks", ("stage1", "score", "finetune", "serve")
WIDE = 10_000  # columns: no table is as wide


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
    torchrun --nproc-per-node 8 -m unseen reproduce all --imagenet-21k fall11 --imagenet-1k imagenet --out results
    """,
)
def reproduce(
    table: Annotated[str, Argument(help="A table's name (unseen-classes, ...), everyday, sources, xlsa17, or all.")],
    settings: OtherLengths,
    photos: Annotated[Path | None, Option(help="Folder with unseen/, perhaps seen-train/, seen-val/.")] = None,
    imagenet_21k: Annotated[Path | None, Option(help="ImageNet-21K, DIR/<wnid>/*.")] = None,
    imagenet_1k: Annotated[Path | None, Option(help="ImageNet-1k with train/ and val/.")] = None,
    awa2: Annotated[Path | None, Option(help="AWA2 with JPEGImages/<class name>/.")] = None,
    data: Annotated[Path | None, Option(help="For xlsa17: DIR/<data set>/res101.mat and att_splits.mat.")] = None,
    methods: Annotated[str | None, Option(help="For everyday, xlsa17: which methods, with commas.")] = None,
    ranks: Annotated[Path | None, Option(help="For sources: the folder of ranks, whose page is FOLDER.md.")] = None,
    out: Annotated[Path, Option(help="For bundles, features, results, report.")] = Path("runs/reproduce"),
    quick: Annotated[bool, Option(help="Few photos, short trainings: to see that all runs.")] = False,
    finetune_rate: Annotated[
        float | None, Option(min=1e-9, help="Learning rate of stage 2: 1e-4 at the paper's level, else chosen.")
    ] = None,
    hierarchy: Annotated[str | None, Option(help="A hierarchy other than the level's.")] = None,
    vectors: Annotated[str | None, Option(help="Other class vectors: a name or a file.")] = None,
    network: Annotated[str | None, Option(help="A network other than the level's.")] = None,
    weights: Annotated[Path | None, Option(help="The network's weights, from a local file.")] = None,
    only_done: Annotated[bool, Option(help="Train nothing: only figures of what is trained.")] = False,
    device: options.Device = "auto",
    workers: options.Workers = 2,
    json_: JsonFlag = False,
) -> None:
    """Run a table of the paper on whatever data there is, and set our figures beside the published ones.

    Finished work is kept: run an interrupted command again and it continues. Tables share what they train.
    """
    from unseen.util.processes import Processes
    from unseen_lab.data.everyday import EVERYDAY_LENGTHS, everyday_level
    from unseen_lab.tables.report import write_report
    from unseen_lab.tables.tables import Reproduction
    from unseen_lab.tables.trainings import Trainings

    chosen = None if methods is None else [name.strip() for name in methods.split(",")]
    if table == "xlsa17":
        if data is None:
            raise UnseenError("xlsa17 needs its files: name their folder with --data (DIR/AWA2/res101.mat, ...)")
        _attribute_benchmarks(data, chosen, out, device, json_)
        return
    if data is not None:
        raise UnseenError(f"--data is for xlsa17, not for {table}")
    if table == "sources":
        _sources(photos, out, ranks or out / "sources", json_)
        return
    if table == "everyday":
        _everyday(Trainings(out, everyday_level(network), EVERYDAY_LENGTHS, device=device), chosen, json_)
        return
    names = ORDER if table == "all" else (load_recipe(table).name,)
    level = find_level(photos, imagenet_21k, imagenet_1k, awa2)
    level = level.with_parts(hierarchy=hierarchy, vectors=vectors, network=network, weights=weights)
    lengths = settings.applied_to(LENGTHS["quick" if quick else level.name])
    lengths = lengths if finetune_rate is None else replace(lengths, finetune_rate=finetune_rate)
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
        results = {name: work.run(name) for name in names}
        if table == "all":
            work.analyse()
    if processes.rank > 0:
        return
    result = {"level": level.name, "tables": results}
    if table == "all":
        result["report"] = write_report(out, out)
    emit(result, json_, lambda: _show(result))


def _everyday(trainings: Any, methods: list[str] | None, json_: bool) -> None:
    from unseen_lab.data.everyday import METHODS, run_everyday, table_of

    result = run_everyday(trainings, methods or METHODS)
    header, *rows = table_of(result)
    emit(result, json_, lambda: show_figures([name.replace(" @", "\n@") for name in header], rows))


def _sources(photos: Path | None, out: Path, ranks: Path, json_: bool) -> None:
    from unseen.util.files import write_atomically
    from unseen_lab.tables.sources import run_missing
    from unseen_lab.tables.sources_page import fill, parts

    if photos is not None:
        run_missing(photos / "unseen", out, ranks)
    made, page = parts(ranks), ranks.with_suffix(".md")
    if page.exists():
        write_atomically(page, fill(page.read_text(encoding="utf-8"), made).encode())
    emit(made, json_, lambda: _print("\n\n".join(f"{name}\n{text}" for name, text in made.items())))


def _attribute_benchmarks(data: Path, names: list[str] | None, out: Path, device: str, json_: bool) -> None:
    from unseen.util.files import write_atomically
    from unseen.util.run import Run
    from unseen_lab.data.xlsa17 import run_benchmarks, table_of
    from unseen_lab.tables.compare import markdown

    result = run_benchmarks(data, names, Run(device=device, show_progress=False))
    tables = [table_of(entry) for entry in result["datasets"]]
    notes = "\n".join(f"- {note}" for note in result["notes"])
    write_atomically(
        out / "xlsa17.md", "\n\n".join([f"# {result['title']}", *map(markdown, tables), notes, ""]).encode()
    )

    def show() -> None:
        for header, *rows in tables:
            show_figures(header, rows)
        _print(f"What the columns mean, and where the published figures come from: {out / 'xlsa17.md'}")

    emit(result, json_, show)


@command("report", examples="unseen report runs/reproduce --out docs/results --no-photos")
def report(
    work: Annotated[Path, Argument(help="The folder that `unseen reproduce --out` filled.")],
    out: Annotated[Path, Option(help="The folder for report.md, plots/ and photos/.")],
    photos: Annotated[bool, Option(help="Also copy and show the photos of the qualitative figure.")] = True,
    json_: JsonFlag = False,
) -> None:
    """Make the report again from saved results, without running anything."""
    from unseen_lab.tables.report import write_report

    written = write_report(work, out, photos)
    emit(written, json_, lambda: _print(written["markdown"]))


def _show(result: dict) -> None:
    from unseen_lab.tables.report import tables_of

    for saved in result["tables"].values():
        title = f"{saved['title']} ({saved['paper']}), level {saved['level']}"
        if "left_out" in saved:
            _print(f"{title}: left out. {saved['left_out']}")
        for made in tables_of(saved):
            show_figures(made.flat_header("\n"), made.rows, title)
    if "report" in result:
        _print(f"Report: {result['report']['markdown']}")


def _print(text: str) -> None:
    """A line with names of files in it: just as they are."""
    stdout.print(text, markup=False, highlight=False, soft_wrap=True)


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
    markdown: Annotated[
        Path | None, Option(help="Write the table there; figures by class and ranks beside it.")
    ] = None,
    device: options.Device = "auto",
    json_: JsonFlag = False,
) -> None:
    """Train and evaluate all methods on the same features and candidates, and print one table."""
    from unseen.methods import method_names
    from unseen.util.files import write_atomically
    from unseen_lab.tables.compare import by_class_csv, named_verdicts, page, parse_method
    from unseen_lab.tables.compare import compare as run
    from unseen_lab.tables.lists import METHODS, list_page, list_table, measure_lists
    from unseen_lab.tables.plots import draw_lists, draw_verdicts
    from unseen_lab.tables.ranks import write_ranks
    from unseen_lab.tables.trainings import Trainings

    if average not in ("class", "image"):
        raise UnseenError(f"--average is class or image, not {average!r}")
    if ranks is not None:
        _compare_again(ranks, average, json_)
        return
    if photos is None:
        raise UnseenError("name a folder of photos with --photos, or the ranks of an earlier run with --ranks")
    usual = list(METHODS) if lists else method_names()
    names = [name.strip() for name in methods.split(",")] if methods else usual
    if vectors is not None:
        names = [f"{name}:{source.strip()}" for name in names for source in vectors.split(",")]
    for name in names:
        parse_method(name)  # or an error, before anything is trained
    level = find_level(photos)
    lengths = Lengths(epochs, gcnz_epochs, finetune_epochs=0, study_epochs=epochs)
    trainings = Trainings(out, level, lengths, device=device)
    networks = [name.strip() for name in network.split(",")] if network else [level.network]
    if lists:
        if len(networks) > 1:
            raise UnseenError(f"--lists takes one network, not {len(networks)}")
        trainings = replace(trainings, level=replace(level, network=networks[0]))
        result = measure_lists(trainings, names, draws)
        if markdown is not None:
            write_atomically(markdown, list_page(result, trainings, names).encode())
            for name, drawn in draw_lists(result["rows"]).items():
                write_atomically(markdown.parent / "plots" / f"{name}.svg", drawn)
        emit(result, json_, lambda: _show_lists(list_table(result)))
        return
    rows = run(trainings, names, networks, verdicts)
    if markdown is not None:
        write_atomically(markdown, page(rows, average, trainings, names, networks).encode())
        write_atomically(markdown.with_suffix(".csv"), by_class_csv(rows).encode())
        write_atomically(markdown.with_name(f"{markdown.stem}-ranks.csv.gz"), write_ranks(rows))
        for name, drawn in draw_verdicts(named_verdicts(rows)).items():
            write_atomically(markdown.parent / "plots" / f"{name}.svg", drawn)
    figures = [{key: value for key, value in row.items() if key != "ranks"} for row in rows]
    emit({"average": average, "methods": figures}, json_, lambda: _show_comparison(rows, average))


def _compare_again(ranks: Path, average: str, json_: bool) -> None:
    """The table and the tests of a comparison, from its ranks."""
    from unseen.training.default import DEFAULT_METHOD
    from unseen_lab.tables.compare import HITS, paired_tests
    from unseen_lab.tables.ranks import read_ranks

    rows = read_ranks(ranks)
    tests = {hit: paired_tests(rows, hit) for hit in HITS}

    def show() -> None:
        _show_comparison(rows, average)
        for hit, (header, *cells) in tests.items():
            if cells:
                show_figures(header, [[cell.replace("**", "") for cell in line] for line in cells],
                             f"{DEFAULT_METHOD} against every other row, {hit}, with p in brackets")  # fmt: skip

    emit({"average": average, "methods": rows, "tests": tests}, json_, show)


def _show_comparison(rows: list[dict[str, Any]], average: str) -> None:
    from unseen_lab.tables.compare import table

    header, *cells = table([row for row in rows if "left_out" not in row], average)
    if cells:
        show_figures([name.replace(" @", "\n@") for name in header], cells)
    for row in rows:
        if "left_out" in row:
            stdout.print(f"{row['method']}: left out. {row['left_out']}", markup=False, highlight=False, soft_wrap=True)


def _show_lists(cells: list[list[str]]) -> None:
    header, *lines = cells
    show_figures(header, lines, "Hit@1 in lists of new classes, by length")


@command("bench", examples="unseen bench\nunseen bench stage1 --json")
def bench(name: Annotated[str | None, Argument(help=", ".join(NAMES))] = None, json_: JsonFlag = False) -> None:
    """Measure how fast this machine does the heavy work, and against what. Without a name, all of it."""
    if name not in (None, *NAMES):
        raise UnseenError(f"no benchmark named {name!r}. There are: {', '.join(NAMES)}")
    if not SCRIPTS.is_dir():
        raise UnseenError("the benchmarks come with unseen's repository: run `python benchmarks/stage1.py` there")
    results = {}
    for each in [name] if name else NAMES:
        done = subprocess.run([sys.executable, str(SCRIPTS / f"{each}.py"), "--json"], stdout=subprocess.PIPE)
        if done.returncode:
            raise UnseenError(f"the benchmark {each} failed: its message is above")
        results[each] = json.loads(done.stdout.splitlines()[-1])
    emit(results[name] if name else results, json_, lambda: stdout.print_json(data=results))


def show_figures(header: Sequence[str], rows: Sequence[Sequence[str]], title: str = "") -> None:
    """A table that is never cut: a narrow terminal wraps its lines, and --json has all figures."""
    table = Table(title=Text(title) if title else None, title_justify="left")
    for place, name in enumerate(header):
        table.add_column(Text(name), justify="right" if place else "left", no_wrap=True)
    for row in rows:
        table.add_row(*map(Text, row))
    table.width = stdout.measure(table, options=stdout.options.update(max_width=WIDE)).maximum
    stdout.print(table, crop=False)
