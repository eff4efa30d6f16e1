"""`unseen classify`: labels for photos, and why."""

from __future__ import annotations

import glob
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from unseen.cli.app import JsonFlag, command, emit, escaped, say, stdout
from unseen.errors import UnseenError

BATCH = 32


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
    seen_shift: Annotated[float, typer.Option(help="Taken off the scores of seen classes.")] = 0.0,
    explain: Annotated[bool, typer.Option("--explain", help="Show what the best label borrows from.")] = False,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, mps.")] = "auto",
    json_: JsonFlag = False,
) -> None:
    """Name what photos show, among every class of a bundle: those the network was trained on and those it never saw."""
    sources = list(find_photos(photos))
    model = open_model(bundle, device)
    model.scorer(candidates, seen_shift)  # a wrong name or number is told before the work begins
    answers, unreadable = label_photos(model, sources, k, candidates, seen_shift)
    reasons = explanations(model, answers) if explain else {}
    result = {
        "photos": [
            {"photo": name, "labels": [label.as_dict() for label in labels]}
            | ({"explanation": reasons[labels[0].id].as_dict()} if explain and labels else {})
            for name, labels in answers
        ],
        "unreadable": unreadable,
    }
    emit(result, json_, lambda: [show_labels(name, labels) for name, labels in answers])
    if not json_:
        for reason in reasons.values():
            _show_explanation(model, reason)
        for item in unreadable:
            say(f"[red]unreadable[/red] {escaped(item['photo'])}: {escaped(item['why'])}")
    if not answers:
        raise typer.Exit(1)


def open_model(bundle: Path | None, device: str):
    from unseen.classifier import ZeroShotClassifier, load
    from unseen.training.default import default_bundle

    return ZeroShotClassifier(default_bundle(say), device=device) if bundle is None else load(bundle, device=device)


def find_photos(arguments: Iterable[str]) -> Iterator[tuple[str, object]]:
    """(name to show, what to read) for files, folders, globs and `-`."""
    for argument in arguments:
        path = Path(argument)
        if argument == "-":
            yield "-", sys.stdin.buffer.read()
        elif path.is_dir():
            inside = sorted(item for item in path.rglob("*") if item.is_file() and not item.name.startswith("."))
            if not inside:
                raise UnseenError(f"{argument}: the folder holds no files")
            yield from ((str(item), item) for item in inside)
        elif any(sign in argument for sign in "*?[") and not path.exists():
            matches = sorted(glob.glob(argument, recursive=True))
            if not matches:
                raise UnseenError(f"{argument}: no file matches")
            yield from ((item, Path(item)) for item in matches if Path(item).is_file())
        else:
            yield argument, path


def label_photos(model, sources: list[tuple[str, object]], k: int, candidates: str, seen_shift: float):
    """Labels for each readable photo, in order, and the unreadable ones with the reason."""
    import numpy as np

    from unseen.photos import read_photo
    from unseen.runtime.progress import progress

    answers, unreadable, wanted = [], [], model.backbone.transform.resize
    with progress("Looking at photos", len(sources), enabled=len(sources) > BATCH) as bar:
        for start in range(0, len(sources), BATCH):
            names, images = [], []
            for name, source in sources[start : start + BATCH]:
                try:
                    images.append(read_photo(source, short_side=wanted))
                    names.append(name)
                except UnseenError as error:
                    unreadable.append({"photo": name, "why": str(error)})
                bar.advance()
            if images:
                labels = model.labels(np.asarray(model.features(images)), k, candidates, seen_shift)
                answers += list(zip(names, labels, strict=True))
    return answers, unreadable


def explanations(model, answers) -> dict:
    """Why, for the best label of each photo: each label once."""
    best = dict.fromkeys(labels[0].id for _, labels in answers if labels)
    return {id: model.explain(id) for id in best}


def show_labels(name: str, labels) -> None:
    table = Table("", "label", "id", "score", "trust", title=escaped(name), title_justify="left", title_style="bold")
    top = max((label.score for label in labels), default=1.0)
    for place, label in enumerate(labels, 1):
        mark = "[green]seen[/green]" if label.seen else "[magenta]unseen[/magenta]"
        bar = "█" * max(1, round(12 * label.score / top)) if top > 0 else ""
        trust = "" if label.trust is None else f"{label.trust:.2f}"
        way = escaped(" › ".join(label.path[-4:-1]))
        table.add_row(str(place), f"[bold]{escaped(label.name)}[/bold] {mark}\n[dim]{way}[/dim]", escaped(label.id),
                      f"{label.score:.3f} [cyan]{bar}[/cyan]", trust)  # fmt: skip
    stdout.print(table)


def _show_explanation(model, reason) -> None:
    taxonomy = model.bundle.taxonomy
    trust = "" if reason.trust is None else f", trust {reason.trust:.2f}"
    stdout.print(f"[bold]{escaped(reason.name)}[/bold] " + escaped(f"({reason.id}{trust}): {reason.definition}"))
    table = Table("borrows from", "id", "share", "likeness", "way in the hierarchy")
    for near in reason.neighbours:
        way = escaped(" – ".join(taxonomy.name(i) for i in near.path))
        likeness = "" if near.similarity is None else f"{near.similarity:.2f}"
        table.add_row(escaped(near.name), escaped(near.id), f"{near.share:.0%}", likeness, way)
    stdout.print(table)
