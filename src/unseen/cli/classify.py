"""`unseen classify`: labels for photos, and why."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from unseen.cli.app import JsonFlag, TrustCodeFlag, command, emit, escaped, say, stdout, tell
from unseen.cli.options import DeviceOption

if TYPE_CHECKING:
    from unseen.classifier import ZeroShotClassifier
    from unseen.photos.reading import Source
    from unseen.recognition import Answer, Explanation


@command(
    "classify",
    examples="""
    unseen classify photo.jpg
    unseen classify holiday/ --candidates unseen -k 3
    unseen classify 'photos/*.jpg' --candidates subtree:feline --json
    unseen classify photo.jpg --explain
    cat photo.jpg | unseen classify -
    """,
)
def classify(
    photos: Annotated[list[str], typer.Argument(help="Photos, folders, quoted globs, or - for standard input.")],
    bundle: Annotated[Path | None, typer.Option(help="The bundle; the default one is made on first use.")] = None,
    candidates: Annotated[
        str, typer.Option(help="any, unseen, seen, leaves, hops:N, subtree:NAME, 2-hops, 3-hops, all, or a file.")
    ] = "any",
    k: Annotated[int, typer.Option("-k", min=1, help="How many labels a photo gets.")] = 5,
    seen_shift: Annotated[float, typer.Option(help="Subtract this from the scores of seen classes.")] = 0.0,
    explain: Annotated[bool, typer.Option("--explain", help="Show where the best label comes from.")] = False,
    trust_code: TrustCodeFlag = False,
    device: DeviceOption = "auto",
    json_: JsonFlag = False,
) -> None:
    """Label photos with any class of a bundle: those that the network was trained on and those that it never saw."""
    from unseen.recognition import Answer, Unreadable

    names, sources = read_arguments(photos)
    model = open_model(bundle, device)
    if explain:
        model.bundle.make_method(trust_code, tell)  # or an error, before photos are read
    found = list(zip(names, model.classify(sources, k, candidates, seen_shift, show_progress=True), strict=True))
    answers = [(name, answer) for name, answer in found if isinstance(answer, Answer)]
    unreadable = [{"photo": name, "why": item.why} for name, item in found if isinstance(item, Unreadable)]
    reasons = explain_best(model, answers) if explain else {}
    result = {
        "photos": [
            {"photo": name}
            | answer.as_dict()
            | ({"explanation": reasons[answer[0].id].as_dict()} if explain and answer else {})
            for name, answer in answers
        ],
        "unreadable": unreadable,
    }
    emit(result, json_, lambda: _show(model, answers, reasons, unreadable))
    if not answers:
        raise typer.Exit(1)


def open_model(bundle: Path | None, device: str) -> ZeroShotClassifier:
    from unseen.classifier import load
    from unseen.training.default import default_bundle

    return load(default_bundle(tell) if bundle is None else bundle, device=device)


def read_arguments(arguments: Iterable[str]) -> tuple[list[str], list[Source]]:
    """The photos named on the command line: the name to show for each, and what to read."""
    from unseen.photos import find_photos

    found: list[tuple[str, Source]] = []
    for argument in arguments:
        if argument == "-":
            found.append(("-", sys.stdin.buffer.read()))
        else:
            found += [(str(path), path) for path in find_photos(argument)]
    return [name for name, _ in found], [source for _, source in found]


def explain_best(model: ZeroShotClassifier, answers: Iterable[tuple[str, Answer]]) -> dict[str, Explanation]:
    """Why, for the best label of each photo: each class once."""
    best = dict.fromkeys(answer[0].id for _, answer in answers if answer)
    return {id: model.explain(id) for id in best}


def _show(
    model: ZeroShotClassifier,
    answers: Iterable[tuple[str, Answer]],
    reasons: dict[str, Explanation],
    unreadable: list[dict[str, Any]],
) -> None:
    for name, answer in answers:
        show_answer(name, answer)
    for reason in reasons.values():
        _show_explanation(model, reason)
    for item in unreadable:
        say(f"[red]unreadable[/red] {escaped(item['photo'])}: {escaped(item['why'])}")


def show_answer(name: str, answer: Answer) -> None:
    table = Table("", "label", "id", "score", "trust", title=escaped(name), title_justify="left", title_style="bold")
    top = max((label.score for label in answer), default=1.0)
    for place, label in enumerate(answer, 1):
        mark = "[green]seen[/green]" if label.seen else "[magenta]unseen[/magenta]"
        bar = "█" * max(1, round(12 * label.score / top)) if top > 0 else ""
        trust = "" if label.trust is None else f"{label.trust:.2f}"
        way = escaped(" › ".join(label.path[-4:-1]))
        table.add_row(str(place), f"[bold]{escaped(label.name)}[/bold] {mark}\n[dim]{way}[/dim]", escaped(label.id),
                      f"{label.score:.3f} [cyan]{bar}[/cyan]", trust)  # fmt: skip
    stdout.print(table)


def _show_explanation(model: ZeroShotClassifier, reason: Explanation) -> None:
    taxonomy = model.bundle.taxonomy
    trust = "" if reason.trust is None else f", trust {reason.trust:.2f}"
    stdout.print(f"[bold]{escaped(reason.name)}[/bold] " + escaped(f"({reason.id}{trust}): {reason.definition}"))
    table = Table("borrows from", "id", "share", "similarity", "path in the hierarchy")
    for near in reason.neighbours:
        way = escaped(" – ".join(taxonomy.name(i) for i in near.path))
        similarity = "" if near.similarity is None else f"{near.similarity:.2f}"
        table.add_row(escaped(near.name), escaped(near.id), f"{near.share:.0%}", similarity, way)
    stdout.print(table)
