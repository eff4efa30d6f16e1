"""`unseen classify`: labels for photos, and why."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from unseen.cli.app import JsonFlag, command, emit, escaped, say, stdout, tell
from unseen.cli.options import CANDIDATES_HELP, DeviceOption, FeaturesOption, TrustCodeOption
from unseen.runtime.starts import quick_start

if TYPE_CHECKING:
    from unseen.classifier import ZeroShotClassifier
    from unseen.photos.reading import Source
    from unseen.probability import Verdict
    from unseen.recognition import Answer, Explanation
    from unseen.taxonomy import Taxonomy


@command(
    "classify",
    examples="""
    unseen classify photo.jpg
    unseen classify holiday/ --candidates unseen -k 3
    unseen classify archive/ --out labels.csv
    unseen classify 'photos/*.jpg' --candidates subtree:feline --json
    unseen classify photo.jpg --sure 0.8
    unseen classify holiday/ --level 7
    unseen classify photo.jpg --explain
    unseen classify photo.jpg --heatmap map.png
    unseen classify --features sounds.npy --bundle sounds
    cat photo.jpg | unseen classify -
    """,
)
def classify(
    photos: Annotated[
        list[str] | None, typer.Argument(help="Photos, folders, quoted globs, or - for standard input.")
    ] = None,
    features: FeaturesOption = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Write the labels to this .csv or .jsonl as they come; what it has already is left out."),
    ] = None,
    bundle: Annotated[Path | None, typer.Option(help="The bundle; the default one is made on first use.")] = None,
    candidates: Annotated[str, typer.Option(help=CANDIDATES_HELP)] = "any",
    k: Annotated[int, typer.Option("-k", min=1, help="How many labels a photo gets.")] = 5,
    sure: Annotated[float, typer.Option(help="How often the verdict must be right: 0.9 is 9 times in 10.")] = 0.9,
    bins: Annotated[
        Path | None, typer.Option(help="A file of nodes, an id or name a line: also show how probable each is.")
    ] = None,
    level: Annotated[
        int | None, typer.Option(min=0, help="Also show the probabilities of the nodes so many steps below the top.")
    ] = None,
    seen_shift: Annotated[
        float | None,
        typer.Option(help="Rank by score, less this for seen classes; by default by calibrated probability."),
    ] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Show where the best label comes from.")] = False,
    heatmap: Annotated[
        Path | None, typer.Option(help="Write the photo with the parts that speak for its best label, e.g. map.png.")
    ] = None,
    trust_code: TrustCodeOption = False,
    device: DeviceOption = "auto",
    json_: JsonFlag = False,
) -> None:
    """Label photos with any class of a bundle: those that the network was trained on and those that it never saw."""
    # Before torch is imported: threads that wait for each other sleep. Awake they cost more than a photo does.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    if bool(photos) == (features is not None):
        raise typer.BadParameter("name photos, or a file of features with --features; one of the two")
    if out is not None:
        if features or explain or heatmap or bins or level is not None:
            raise typer.BadParameter("--out takes no --features, --explain, --heatmap, --bins or --level")
        write_labels(photos or [], out, bundle, device, trust_code, json_, k, candidates, seen_shift, sure)
        return
    with quick_start():
        from unseen.recognition.answers import Answer, Unreadable

        names, sources = read_arguments(photos or [])
        model = open_model(bundle, device, trust_code)
    nodes = chosen_nodes(model.bundle.taxonomy, bins, level)
    if explain:
        model.bundle.make_method(say=tell)  # or an error, before photos are read
    if features is None:
        found = model.classify(sources, k, candidates, seen_shift, sure, show_progress=True)
    else:
        names, matrix = read_rows(features, model.bundle.backbone.checksum, heatmap)
        found = model.classify_features(matrix, k, candidates, seen_shift, sure)
    answers = [(name, answer) for name, answer in zip(names, found, strict=True) if isinstance(answer, Answer)]
    unreadable = [
        {"photo": name, "why": item.why}
        for name, item in zip(names, found, strict=True)
        if isinstance(item, Unreadable)
    ]
    reasons = explain_best(model, answers) if explain else {}
    if heatmap is not None:
        write_heatmap(model, sources, found, heatmap)
    result = {
        "photos": [
            {"photo": name}
            | answer.as_dict()
            | ({"bins": sum_bins(answer, nodes)} if nodes else {})
            | ({"explanation": reasons[answer[0].id].as_dict()} if explain and answer else {})
            for name, answer in answers
        ],
        "unreadable": unreadable,
        "sure": sure,
        "calibrated": seen_shift is None and model.numbers is not None,
    }
    emit(result, json_, lambda: _show(model, result, answers, reasons, unreadable))
    if not answers:
        raise typer.Exit(1)


def write_labels(
    photos: Sequence[str], out: Path, bundle: Path | None, device: str, trust_code: bool, json_: bool, *settings: Any
) -> None:
    """The labels of photos into a file; `settings` are those of `label_photos`."""
    with quick_start():
        from unseen.recognition.batches import check_format, label_photos

        check_format(out)
        places = zip(*read_arguments(photos, but=out), strict=True)
        model = open_model(bundle, device, trust_code)
    done = label_photos(model, [*places], out, *settings, show_progress=True)
    result = done.as_dict()
    for item in done.unreadable:
        say(f"[red]unreadable[/red] {escaped(item.photo)}: {escaped(item.why)}")
    before = f", {done.already:,} were there" if done.already else ""
    rate = f" ({result['photos_per_s']:,} photos/s)" if done.labelled else ""
    emit(result, json_, lambda: stdout.print(f"{done.labelled:,} photos labelled in {escaped(out)}{before}{rate}."))
    if not done.labelled and not done.already:
        raise typer.Exit(1)


def read_rows(path: Path, checksum: str, heatmap: Path | None) -> tuple[list[str], Any]:
    """What to call each row of features, and the rows."""
    from unseen.errors import UnseenError
    from unseen.features.arrays import read_named_rows

    if heatmap is not None:
        raise UnseenError("--heatmap needs a photo: features do not say where in it they come from")
    return read_named_rows(path, checksum)


def chosen_nodes(taxonomy: Taxonomy, bins: Path | None, level: int | None) -> list[str]:
    """The ids of the nodes whose probabilities are asked for."""
    from unseen.errors import UnseenError

    if bins is not None and level is not None:
        raise UnseenError("--bins and --level both name the nodes to sum up: choose one")
    if bins is not None:
        return read_bins(bins, taxonomy)
    if level is None:
        return []
    nodes = [id for id, depth in zip(taxonomy.ids, taxonomy.depths, strict=True) if depth == level]
    if not nodes:
        raise UnseenError(f"the hierarchy has no level {level}: it ends at {taxonomy.depth}")
    return nodes


def read_bins(path: Path, taxonomy: Taxonomy) -> list[str]:
    """A node a line, by id or name."""
    from unseen.errors import UnseenError
    from unseen.probability.sums import find_node

    try:
        lines = [line.strip() for line in path.read_text(encoding="utf-8-sig").splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        raise UnseenError(f"{path}: cannot be read as UTF-8 text: {error}") from None
    nodes = [find_node(taxonomy, line) for line in lines if line]
    if not nodes:
        raise UnseenError(f"{path}: names no node: write an id or a name on each line")
    return list(dict.fromkeys(nodes))


def sum_bins(answer: Answer, nodes: list[str]) -> list[dict[str, Any]]:
    """How probable each node is; most probable first."""
    assert answer.nodes is not None
    taxonomy = answer.nodes.taxonomy
    found = [{"id": id, "name": taxonomy.name(id), "probability": answer.probability(id)} for id in nodes]
    return sorted(found, key=lambda item: -item["probability"])


def open_model(bundle: Path | None, device: str, trust_code: bool = False) -> ZeroShotClassifier:
    from unseen.classifier import load
    from unseen.training.default import default_bundle

    return load(default_bundle(tell) if bundle is None else bundle, device=device, trust_code=trust_code)


def read_arguments(arguments: Iterable[str], but: Path | None = None) -> tuple[list[str], list[Source]]:
    """The photos named on the command line, each once: the name to show for it, and what to read."""
    from unseen.photos import find_photos

    found: dict[str, Source] = {}
    for argument in dict.fromkeys(arguments):
        if argument == "-":
            found["-"] = sys.stdin.buffer.read()
        else:
            found |= {str(path): path for path in find_photos(argument) if path != but}
    return list(found), list(found.values())


def explain_best(model: ZeroShotClassifier, answers: Iterable[tuple[str, Answer]]) -> dict[str, Explanation]:
    """Why, for the best label of each photo: each class once."""
    best = dict.fromkeys(answer[0].id for _, answer in answers if answer)
    return {id: model.explain(id) for id in best}


def write_heatmap(model: ZeroShotClassifier, photos: Sequence[Source], found: Sequence[Any], path: Path) -> None:
    """Where in the one photo its best label comes from."""
    from unseen.errors import UnseenError
    from unseen.recognition import Answer

    if len(photos) != 1:
        raise UnseenError(f"--heatmap takes one photo, not {len(photos)}: run the command for each of them")
    if isinstance(found[0], Answer) and found[0].guesses:
        model.heatmap(photos[0], found[0].guesses[0].id).save(path, photos[0])
        tell(f"The heat map is in {path}")


def _show(
    model: ZeroShotClassifier,
    result: dict[str, Any],
    answers: Iterable[tuple[str, Answer]],
    reasons: dict[str, Explanation],
    unreadable: list[dict[str, Any]],
) -> None:
    for (name, answer), told in zip(answers, result["photos"], strict=True):
        show_answer(name, answer)
        if "bins" in told:
            show_bins(told["bins"])
    for reason in reasons.values():
        _show_explanation(model, reason)
    for item in unreadable:
        say(f"[red]unreadable[/red] {escaped(item['photo'])}: {escaped(item['why'])}")
    if not result["calibrated"]:
        say("[dim]Not calibrated: fit these probabilities on photos of seen classes, with `unseen calibrate`[/dim]")


def show_answer(name: str, answer: Answer) -> None:
    """The verdict first, then the best guesses."""
    stdout.print(f"[bold]{escaped(name)}[/bold]", soft_wrap=True)
    stdout.print(f"  {verdict_in_words(answer.verdict)}", soft_wrap=True)
    table = Table(box=None, padding=(0, 2, 0, 2), show_header=False)
    for guess in answer.guesses:
        mark = "[green]seen[/green]" if guess.seen else f"[magenta]unseen[/magenta], {guess.support}".rstrip(", ")
        table.add_row(
            f"{escaped(guess.title)}{_also(guess.also)}",
            f"[cyan]{bar(guess.probability):<12}[/cyan] {per_cent(guess.probability):>5}",
            mark,
        )
    stdout.print(table)


def _also(titles: Sequence[str], most: int = 2) -> str:
    """Classes that are folded into a line, the first of them."""
    if not titles:
        return ""
    more = f" and {len(titles) - most} more" if len(titles) > most else ""
    return f" [dim]({escaped(', '.join(titles[:most]))}{more})[/dim]"


def verdict_in_words(verdict: Verdict) -> str:
    if verdict.id is None:
        return "[bold]Don't know[/bold]: nothing useful is sure enough."
    words = {"sure": "Sure", "likely": "Likely", "guess": "A guess"}[verdict.level]
    path = escaped(" › ".join(verdict.path[-4:-1]))
    which = "" if verdict.classes == 1 else f", one of {verdict.classes:,} classes"
    return f"{words}: [bold]{escaped(verdict.name)}[/bold] ({per_cent(verdict.probability)}{which}) [dim]{path}[/dim]"


def show_bins(bins: list[dict[str, Any]]) -> None:
    shown = [item for item in bins if item["probability"] >= 0.005] or bins[:1]
    stdout.print("  " + ", ".join(f"{escaped(item['name'])} {item['probability']:.2f}" for item in shown))


def bar(probability: float, width: int = 12) -> str:
    return "█" * round(width * probability)


def per_cent(probability: float) -> str:
    return "< 1 %" if probability < 0.01 else f"{100 * probability:.0f} %"


def _show_explanation(model: ZeroShotClassifier, reason: Explanation) -> None:
    from unseen.recognition.answers import support_in_words
    from unseen.runtime.text import count_of_photos

    taxonomy = model.bundle.taxonomy
    trust = "" if reason.trust is None or reason.seen else f", {support_in_words(reason.trust)}: {reason.trust:.2f}"
    stdout.print(f"[bold]{escaped(reason.name)}[/bold] " + escaped(f"({reason.id}{trust}): {reason.definition}"))
    if reason.photos:
        stdout.print(f"from {count_of_photos(reason.photos)} and its kin")
    table = Table("borrows from", "id", "share", "similarity", "path in the hierarchy")
    for near in reason.neighbours:
        way = escaped(" – ".join(taxonomy.name(i) for i in near.path))
        similarity = "" if near.similarity is None else f"{near.similarity:.2f}"
        table.add_row(escaped(near.name), escaped(near.id), f"{near.share:.0%}", similarity, way)
    stdout.print(table)
