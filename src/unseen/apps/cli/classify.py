"""`unseen classify` and `unseen expect`: labels for photos, and why; what to expect of a list."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

from unseen.answers.answer import Answer, Unreadable, support_in_words
from unseen.answers.ask import Ask
from unseen.answers.choice import expect as expect_list
from unseen.answers.explain import Explanation
from unseen.answers.prior import Prior
from unseen.answers.probability import Verdict
from unseen.answers.words import LEVELS, training_in_words
from unseen.apps.bulk import check_format, label_photos
from unseen.apps.cli import options
from unseen.apps.cli.app import JsonFlag, command
from unseen.apps.cli.output import emit, print_table, stderr, stdout
from unseen.model import Model, load
from unseen.networks.folders import read_named_rows
from unseen.photos.inputs import Item, list_inputs
from unseen.photos.reading import Source
from unseen.util.devices import quick_start
from unseen.util.errors import UnseenError
from unseen.util.names import list_some

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
        items = read_arguments(photos or [], None, column, key)
        if heatmap is not None:
            items = list(items)
            if len(items) != 1:
                raise UnseenError(f"--heatmap takes one photo, not {len(items)}: run the command for each of them")
        model = prepare(bundle, device, trust_code, ask.among)
    ask = replace(ask, among=None)
    if explain:
        model.bundle.make_method()  # or an error, before photos are read
    if features is None:
        names, sources = name_photos(items)
        found = list(model.stream(sources, **vars(ask), show_progress=True))
    else:
        names, matrix = read_named_rows(features, model.bundle.network.checksum, lambda: model.network)
        found = model.answers(matrix, **vars(ask))
    named = list(zip(names, found, strict=True))
    answers = [(name, item) for name, item in named if isinstance(item, Answer)]
    unreadable = [(name, item.why) for name, item in named if isinstance(item, Unreadable)]
    best = dict.fromkeys(answer[0].id for _, answer in answers if answer and explain)
    reasons = {id: model.explain(id) for id in best}
    if heatmap is not None and answers and answers[0][1].guesses:
        photo = next(iter(items)).source
        model.heatmap(photo, answers[0][1].guesses[0].id).save(heatmap, photo)
        stderr.print(f"The heat map is in {heatmap}")
    result = {
        "photos": [
            {"photo": name}
            | answer.to_dict()
            | ({"explanation": reasons[answer[0].id].to_dict()} if explain and answer else {})
            for name, answer in answers
        ],
        "unreadable": [{"photo": name, "why": why} for name, why in unreadable],
        "confidence": ask.confidence,
        **({"among": [item.to_dict() for item in model.listed]} if model.listed else {}),
        "calibrated": bool(model.listed) or model.bundle.calibration is not None,
        "prior": str(model.prior if ask.prior is None else Prior.read(ask.prior, model.bundle.hierarchy)),
    }

    def show() -> None:
        for name, answer in answers:
            show_answer(name, answer)
        for reason in reasons.values():
            _show_explanation(model, reason)
        for name, why in unreadable:
            _show_unreadable(name, why)
        if not result["calibrated"]:
            stderr.print("Not calibrated: fit these probabilities on photos of seen classes, with `unseen calibrate`")

    emit(result, json_, show)
    end_with(len(answers), unreadable)


def end_with(readable: int, unreadable: Sequence[Any]) -> None:
    """Exit status 1 where nothing could be read, 3 where some photos could not."""
    if unreadable or not readable:
        raise typer.Exit(3 if readable else 1)


def prepare(bundle: Path | None, device: str, trust_code: bool, among: str | None) -> Model:
    """The model, for a list of names if there is one; says what those mean that may mean something else."""
    model = load(bundle, device=device, trust_code=trust_code)
    if among is None:
        return model
    model = model.among(among)
    for item in model.listed:
        if item.new or not item.certain:
            stderr.print(item.note)
    return model


def write_labels(
    find: Callable[[], Iterable[Item]],
    out: Path,
    load_model: Callable[[], Model],
    json_: bool,
    **settings: Any,
) -> None:
    """Write the labels of photos into a file. `settings` are those of `label_photos`."""
    with quick_start():
        check_format(out)
        photos = find()
    done = label_photos(load_model(), photos, out, **settings, show_progress=True)
    result = done.to_dict()
    for item in done.unreadable:
        _show_unreadable(item.photo, item.why)
    before = f", {done.already:,} were there" if done.already else ""
    if done.again:
        stderr.print(f"labelled again, since they had changed or could not be read: {list_some(done.again, 5)}")
    rate = f" ({result['photos_per_s']:,} photos/s)" if done.labelled else ""
    line = f"{done.labelled:,} photos labelled in {done.out}{before}{rate}."
    emit(result, json_, lambda: stdout.print(line))
    end_with(done.labelled + done.already, done.unreadable)


def read_arguments(
    arguments: Iterable[str], but: Path | None, column: str | None, key: str | None
) -> list[Item] | Iterator[Item]:
    """The photos named on the command line, each once; `but` is a file that is none of them."""
    places = list(dict.fromkeys(arguments))
    items = list_inputs([place for place in places if place != "-"], column, key)
    given = [Item("-", sys.stdin.buffer.read())] if "-" in places else []
    every = (item for item in chain(items, given) if but is None or item.source != str(but))
    return list(every) if isinstance(items, list) else every


def name_photos(items: list[Item] | Iterator[Item]) -> tuple[list[str], Iterable[Source]]:
    """Names and photos; of a tar file or a table a photo is read, and its name known, only when its turn comes."""
    names: list[str] = []
    if isinstance(items, list):
        return [item.name for item in items], [item.source for item in items]

    def sources() -> Iterator[Source]:
        for item in items:
            names.append(item.name)
            yield item.source

    return names, sources()


def _show_unreadable(photo: str, why: str) -> None:
    stderr.print("unreadable", style="red", end=" ")
    stderr.print(f"{photo}: {why}")


def show_answer(name: str, answer: Answer) -> None:
    """The verdict first, then the best guesses, a line each."""
    stdout.print(name, style="bold")
    stdout.print(f"  {verdict_in_words(answer.verdict)}")
    titles = [guess.title + _also(guess.also) for guess in answer.guesses]
    width = max(map(len, titles), default=0)
    for guess, title in zip(answer.guesses, titles, strict=True):
        bar = "█" * round(12 * guess.probability)
        stdout.print(f"  {title:<{width}}  {bar:<12} {per_cent(guess.probability):>5}  ", end="")
        colour = "green" if guess.seen else "magenta" if guess.novel else "yellow"
        stdout.print(f"{guess.training}{', ' if guess.support else ''}{guess.support}", style=colour)
    if answer.none is not None and answer.none >= NONE_SHOWN:
        stdout.print(f"  none of these: {per_cent(answer.none)}")


def _also(titles: Sequence[str]) -> str:
    """Classes that are folded into a line, the first two of them."""
    more = f" and {len(titles) - 2} more" if len(titles) > 2 else ""
    return f" ({', '.join(titles[:2])}{more})" if titles else ""


def verdict_in_words(verdict: Verdict) -> str:
    if verdict.probability is None:
        return "Don't know: nothing useful is sure enough."
    which = "" if verdict.classes == 1 else f", one of {verdict.classes:,} classes"
    way = " › ".join(verdict.path[-4:-1])
    return f"{LEVELS[verdict.level]}: {verdict.text} ({per_cent(verdict.probability)}{which}) {way}".rstrip()


def per_cent(probability: float) -> str:
    return "< 1 %" if probability < 0.01 else f"{100 * probability:.0f} %"


def _show_explanation(model: Model, reason: Explanation) -> None:
    hierarchy = model.bundle.hierarchy
    is_novel = bool(model.bundle.is_novel[hierarchy.index(reason.id)])
    known = f"{reason.id}, {training_in_words(reason.seen, is_novel, reason.photos)}"
    if reason.trust is not None and not reason.seen:
        known += f", {support_in_words(reason.trust)}: {reason.trust:.2f}"
    stdout.print(f"{reason.name} ({known}): {reason.definition}")
    rows = []
    for near in reason.neighbours:
        path = " – ".join(hierarchy.name(id) for id in near.path)
        similarity = "" if near.similarity is None else f"{near.similarity:.2f}"
        rows.append([near.name, near.id, path, f"{near.share:.0%}", similarity])
    print_table(["borrows from", "id", "path in the hierarchy", "share", "similarity"], rows, words=3)


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
    model = prepare(bundle, "cpu", trust_code, names)
    expected = expect_list(model.bundle, model.candidates())
    result = expected.to_dict() | {"among": [item.to_dict() for item in model.listed]}

    def show() -> None:
        stdout.print(str(expected))
        for a, b, share in expected.pairs[:5]:
            stdout.print(f"  {expected.names[a]} and {expected.names[b]}: {per_cent(share)} of their photos")
        worst = ", ".join(f"{expected.names[id]} ({per_cent(share)})" for id, share in expected.classes[:5])
        stdout.print(f"  least often right: {worst}")

    emit(result, json_, show)
