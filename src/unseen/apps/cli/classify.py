"""`unseen classify` and `unseen demo`: labels for photos, and why."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from typer import Argument, Option

from unseen.answers.ask import Ask
from unseen.answers.prior import Prior
from unseen.apps.cli import options
from unseen.apps.cli.app import JsonFlag, command, emit, escaped, say, stdout, tell
from unseen.util.devices import quick_start
from unseen.util.errors import UnseenError
from unseen.util.names import list_some

if TYPE_CHECKING:
    from unseen.answers.answer import Answer
    from unseen.answers.explain import Explanation
    from unseen.answers.probability import Verdict
    from unseen.model import Model
    from unseen.photos.reading import Source

    Answers = Sequence[tuple[str, Answer]]  # each with the name of its photo


NONE_SHOWN = 0.2  # from here on the command line mentions that a photo may show none of a list


@command(
    "classify",
    examples="""
    unseen classify photo.jpg
    unseen classify holiday/ --candidates unseen -k 3
    unseen classify archive/ --out labels.csv
    unseen classify list.txt --out labels.parquet --workers 4
    unseen classify 's3://photos/*.tar' --out labels.parquet --engine ray --workers 16
    unseen classify photo.jpg --among "okapi, quokka, wheelie bin, e-scooter"
    unseen classify 'photos/*.jpg' --candidates subtree:feline --json
    unseen classify photo.jpg --confidence 0.8
    unseen classify birds/ --prior species-here.csv
    unseen classify photo.jpg --explain
    unseen classify photo.jpg --heatmap map.png
    unseen classify --features sounds.npy --bundle sounds
    cat photo.jpg | unseen classify -
    """,
)
def classify(
    ask: Ask,
    photos: Annotated[
        list[str] | None,
        Argument(help="Photos, folders, quoted globs, LIST.txt, .parquet, .tar, URLs; - for stdin."),
    ] = None,
    features: options.Features = None,
    out: Annotated[
        Path | None, Option(help="A .csv, .jsonl or .parquet for the labels; continued if it was interrupted.")
    ] = None,
    workers: Annotated[int | None, Option(min=1, help="With --out: processes, or actors of Ray.")] = None,
    engine: Annotated[str, Option(help="With --out: local, or ray (a cluster: RAY_ADDRESS).")] = "local",
    column: Annotated[str | None, Option(help="The column of photos in a parquet file.")] = None,
    key: Annotated[str | None, Option(help="The column of their names.")] = None,
    bundle: Annotated[Path | None, Option(help="The bundle; the default one is made on first use.")] = None,
    explain: Annotated[bool, Option("--explain", help="Show where the best label comes from.")] = False,
    heatmap: Annotated[Path | None, Option(help="Write the photo with what speaks for its best label.")] = None,
    trust_code: options.TrustCode = False,
    device: options.Device = "auto",
    json_: JsonFlag = False,
) -> None:
    """Label photos with any class of a bundle: those that the network was trained on and those that it never saw."""
    # Before torch is imported: threads that wait for each other sleep. Awake they cost more than a photo does.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    if bool(photos) == (features is not None):
        raise typer.BadParameter("name photos, or a file of features with --features; one of the two")
    if features is not None and heatmap is not None:
        raise UnseenError("--heatmap needs a photo: features do not say where in it they come from")
    if out is not None:
        if features or explain or heatmap:
            raise typer.BadParameter("--out takes no --features, --explain or --heatmap")
        write_labels(
            lambda: read_arguments(photos or [], out, column, key),
            out,
            lambda: prepare(bundle, device, trust_code, ask.among),
            json_,
            **vars(replace(ask, among=None)),
            engine=engine,
            workers=workers or (0 if engine == "ray" else 1),
        )
        return
    if workers or engine != "local":
        raise typer.BadParameter("--workers and --engine are for many photos: add --out FILE")
    with quick_start():
        from unseen.answers.answer import Answer, Unreadable

        names, sources = read_arguments(photos or [], None, column, key)
        if heatmap is not None and len(sources) != 1:
            raise UnseenError(f"--heatmap takes one photo, not {len(sources)}: run the command for each of them")
        model = prepare(bundle, device, trust_code, ask.among)
    ask = replace(ask, among=None)
    if explain:
        model.bundle.make_method()  # or an error, before photos are read
    if features is None:
        items = list(model.stream(sources, **vars(ask), show_progress=True))
    else:
        from unseen.networks.folders import read_named_rows

        names, matrix = read_named_rows(features, model.bundle.network.checksum, lambda: model.network)
        items = model.answers(matrix, **vars(ask))
    named = list(zip(names, items, strict=True))
    answers = [(name, item) for name, item in named if isinstance(item, Answer)]
    unreadable = [{"photo": name, "why": item.why} for name, item in named if isinstance(item, Unreadable)]
    best = dict.fromkeys(answer[0].id for _, answer in answers if answer and explain)
    reasons = {id: model.explain(id) for id in best}
    if heatmap is not None and answers and answers[0][1].guesses:
        model.heatmap(sources[0], answers[0][1].guesses[0].id).save(heatmap, sources[0])
        tell(f"The heat map is in {heatmap}")
    result = {
        "photos": [
            {"photo": name}
            | answer.to_dict()
            | ({"explanation": reasons[answer[0].id].to_dict()} if explain and answer else {})
            for name, answer in answers
        ],
        "unreadable": unreadable,
        "confidence": ask.confidence,
        **({"among": [item.to_dict() for item in model.listed]} if model.listed else {}),
        "calibrated": bool(model.listed) or model.bundle.calibration is not None,
        "prior": str(model.prior if ask.prior is None else Prior.read(ask.prior, model.bundle.hierarchy)),
    }
    emit(result, json_, lambda: _show(model, result, answers, reasons))
    end_with(len(answers), unreadable)


def end_with(readable: int, unreadable: Sequence[Any]) -> None:
    """Exit status 1 where nothing could be read, 3 where some photos could not."""
    if unreadable or not readable:
        raise typer.Exit(3 if readable else 1)


def prepare(bundle: Path | None, device: str, trust_code: bool, among: str | None) -> Model:
    """The model, for a list of names if there is one; says what those mean that may mean something else."""
    model = open_model(bundle, device, trust_code)
    if among is None:
        return model
    model = model.among(among)
    for item in model.listed:
        if item.new or not item.certain:
            tell(item.note)
    return model


def write_labels(
    find: Callable[[], tuple[list[str], list[Source]]],
    out: Path,
    load: Callable[[], Model],
    json_: bool,
    **settings: Any,
) -> None:
    """Write the labels of photos into a file. `settings` are those of `label_photos`."""
    with quick_start():
        from unseen.apps.bulk import check_format, label_photos

        check_format(out)
        photos = list(zip(*find(), strict=True))
    done = label_photos(load(), photos, out, **settings, show_progress=True)
    result = done.to_dict()
    for item in done.unreadable:
        show_unreadable(item.photo, item.why)
    before = f", {done.already:,} were there" if done.already else ""
    if done.again:
        tell(f"labelled again, since they had changed or could not be read: {list_some(done.again, 5)}")
    rate = f" ({result['photos_per_s']:,} photos/s)" if done.labelled else ""
    line = f"{done.labelled:,} photos labelled in {escaped(done.out)}{before}{rate}."
    emit(result, json_, lambda: stdout.print(line))
    end_with(done.labelled + done.already, done.unreadable)


def open_model(bundle: Path | None, device: str, trust_code: bool = False) -> Model:
    from unseen.model import load

    return load(bundle, device=device, trust_code=trust_code)


def read_arguments(
    arguments: Iterable[str], but: Path | None, column: str | None, key: str | None
) -> tuple[list[str], list[Source]]:
    """The photos named on the command line, each once: the name to show for it, and what to read."""
    from unseen.photos.inputs import Item, list_inputs

    places = list(dict.fromkeys(arguments))
    items = list_inputs([place for place in places if place != "-"], column, key)
    if "-" in places:
        items.append(Item("-", sys.stdin.buffer.read()))
    items = [item for item in items if but is None or item.source != str(but)]
    return [item.name for item in items], [item.source for item in items]


def _show(model: Model, result: dict[str, Any], answers: Answers, reasons: dict[str, Explanation]) -> None:
    for name, answer in answers:
        show_answer(name, answer)
    for reason in reasons.values():
        _show_explanation(model, reason)
    for item in result["unreadable"]:
        show_unreadable(item["photo"], item["why"])
    if not result["calibrated"]:
        say("[dim]Not calibrated: fit these probabilities on photos of seen classes, with `unseen calibrate`[/dim]")


def show_unreadable(photo: str, why: str) -> None:
    say(f"[red]unreadable[/red] {escaped(photo)}: {escaped(why)}")


def show_answer(name: str, answer: Answer) -> None:
    """The verdict first, then the best guesses."""
    stdout.print(f"[bold]{escaped(name)}[/bold]", soft_wrap=True)
    stdout.print(f"  {verdict_in_words(answer.verdict)}", soft_wrap=True)
    table = Table(box=None, padding=(0, 2, 0, 2), show_header=False)
    for guess in answer.guesses:
        colour = "green" if guess.seen else "magenta" if guess.novel else "yellow"
        mark = f"[{colour}]{guess.training}[/{colour}]{', ' if guess.support else ''}{guess.support}"
        table.add_row(
            f"{escaped(guess.title)}{_also(guess.also)}",
            f"[cyan]{'█' * round(12 * guess.probability):<12}[/cyan] {per_cent(guess.probability):>5}",
            mark,
        )
    stdout.print(table)
    if answer.none is not None and answer.none >= NONE_SHOWN:
        stdout.print(f"  none of these: [bold]{per_cent(answer.none)}[/bold]", soft_wrap=True)


def _also(titles: Sequence[str]) -> str:
    """Classes that are folded into a line, the first two of them."""
    more = f" and {len(titles) - 2} more" if len(titles) > 2 else ""
    return f" [dim]({escaped(', '.join(titles[:2]))}{more})[/dim]" if titles else ""


def verdict_in_words(verdict: Verdict) -> str:
    if verdict.probability is None:
        return "[bold]Don't know[/bold]: nothing useful is sure enough."
    from unseen.answers.words import LEVELS

    path = escaped(" › ".join(verdict.path[-4:-1]))
    which = "" if verdict.classes == 1 else f", one of {verdict.classes:,} classes"
    sure = f"({per_cent(verdict.probability)}{which})"
    return f"{LEVELS[verdict.level]}: [bold]{escaped(verdict.text)}[/bold] {sure} [dim]{path}[/dim]"


def per_cent(probability: float) -> str:
    return "< 1 %" if probability < 0.01 else f"{100 * probability:.0f} %"


def _show_explanation(model: Model, reason: Explanation) -> None:
    from unseen.answers.answer import support_in_words
    from unseen.answers.words import training_in_words

    hierarchy = model.bundle.hierarchy
    is_novel = bool(model.bundle.is_novel[hierarchy.index(reason.id)])
    known = f"{reason.id}, {training_in_words(reason.seen, is_novel, reason.photos)}"
    if reason.trust is not None and not reason.seen:
        known += f", {support_in_words(reason.trust)}: {reason.trust:.2f}"
    stdout.print(f"[bold]{escaped(reason.name)}[/bold] " + escaped(f"({known}): {reason.definition}"))
    table = Table("borrows from", "id", "share", "similarity", "path in the hierarchy")
    for near in reason.neighbours:
        way = escaped(" – ".join(hierarchy.name(i) for i in near.path))
        similarity = "" if near.similarity is None else f"{near.similarity:.2f}"
        table.add_row(escaped(near.name), escaped(near.id), f"{near.share:.0%}", similarity, way)
    stdout.print(table)


@command(
    "expect",
    examples="""
    unseen expect "okapi, quokka, wheelie bin, e-scooter"
    unseen expect mine.txt
    unseen expect mine.txt --bundle my-bundle --json
    """,
)
def expect(
    names: Annotated[str, Argument(help="Names between commas, or a file of them, as for `classify --among`.")],
    bundle: Annotated[Path | None, Option(help="The bundle; the default one is made on first use.")] = None,
    trust_code: options.TrustCode = False,
    json_: JsonFlag = False,
) -> None:
    """Estimate how often a list of names will be answered rightly, and which of them will be confused; no photo is
    needed. The estimate is too good for lists of very similar things, such as 25 small birds."""
    from unseen.answers.choice import expect

    model = prepare(bundle, "cpu", trust_code, names)
    expected = expect(model.bundle, model.candidates())
    result = expected.to_dict() | {"among": [item.to_dict() for item in model.listed]}

    def show() -> None:
        stdout.print(str(expected), soft_wrap=True)
        for a, b, share in expected.pairs[:5]:
            pair = f"{expected.names[a]} and {expected.names[b]}"
            stdout.print(f"  {escaped(pair)}: {per_cent(share)} of their photos", highlight=False)
        worst = ", ".join(f"{expected.names[id]} ({per_cent(share)})" for id, share in expected.classes[:5])
        stdout.print(f"  least often right: {escaped(worst)}", highlight=False, soft_wrap=True)

    emit(result, json_, show)


@command("demo", examples="unseen demo\nunseen demo --json")
def demo(json_: JsonFlag = False) -> None:
    """Name a photo of something that the network was never shown, and say why; then other samples, and a check."""
    import numpy as np

    from unseen.apps.web import sample_photos
    from unseen.training.settings import TrainSettings
    from unseen.training.stage1 import train

    started = time.monotonic()
    say("[bold]1.[/bold] A classifier for every ImageNet class, from the hierarchy, the names and the looks")
    model = open_model(None, "auto")
    bundle, classes = model.bundle, int(model.bundle.is_class.sum())
    say(f"   {bundle.method}: {classes:,} classes, {len(bundle.seen):,} of them seen, in {escaped(model.bundle.path)}")
    samples = sample_photos()
    features = model.features(samples)
    among_all, among_unseen = model.answers(features, 3), model.answers(features, 3, candidates="unseen")
    photos = list(zip([sample.name for sample in samples], among_all, among_unseen, strict=True))
    best = among_all[0].guesses[0]
    story = {
        "photo": samples[0].name,
        "alone": bundle.hierarchy.name(bundle.seen_ids[int((bundle.head @ np.append(features[0], 1)).argmax())]),
        "id": best.id,
        "say": best.say,
        "training": best.training,
        "probability": best.probability,
        "relatives": [near.name for near in model.explain(best.id, 3).neighbours],
        "heat": model.heatmap(samples[0], best.id).cells.tolist(),
    }
    if not json_:
        _tell_story(story)

    say("[bold]3.[/bold] A check without photos: hide a fifth of the seen classes and find their classifiers again")
    held = train(settings=TrainSettings(holdout=0.2)).training.holdout
    assert held is not None  # it was asked for
    say(f"   own classifier first among {held.classes}: {held.hit_1} %, among the first five: {held.hit_5} %")
    say("[bold]4.[/bold] All samples, over all classes; it gets the raccoon wrong")
    result = {
        "bundle": str(bundle.path),
        "method": bundle.method,
        "classes": classes,
        "seen": len(bundle.seen),
        "holdout": held.to_json(),
        "seconds": round(time.monotonic() - started, 1),
        "story": story,
        "photos": [
            {"photo": name} | answer.to_dict() | {"unseen": unseen.to_dict()["labels"]}
            for name, answer, unseen in photos
        ],
    }
    emit(result, json_, lambda: _show_demo(photos))


def _tell_story(story: dict[str, Any]) -> None:
    """What the network alone says, what it can say now, and the proof: the relatives, and where in the photo."""
    say(f"[bold]2.[/bold] {story['photo']}, a photo of something that the network was never shown")
    stdout.print(f"   the network alone says [green]{escaped(story['alone'])}[/green]")
    known = f"[bold magenta]{escaped(story['say'])}[/bold magenta]"
    stdout.print(f"   now its best guess is {known}, {per_cent(story['probability'])}: {story['training']}")
    stdout.print(f"   put together from {escaped(', '.join(story['relatives']))}; what speaks for it in the photo:")
    most = max(max(map(max, story["heat"])), 1e-9)
    for row in story["heat"]:
        stdout.print("      " + "".join(2 * " ░▒▓█"[round(4 * max(0.0, cell) / most)] for cell in row))


def _show_demo(photos: list[tuple[str, Answer, Answer]]) -> None:
    for name, answer, unseen in photos:
        show_answer(name, answer)
        listed = ", ".join(f"[magenta]{escaped(label.say)}[/magenta]" for label in unseen)
        stdout.print(f"   among unseen classes only: {listed}")
    stdout.print(
        "\nNow with your own: [bold]unseen classify photo.jpg[/bold]   in a browser: [bold]unseen serve[/bold]   "
        "all commands: [bold]unseen --help[/bold]"
    )
