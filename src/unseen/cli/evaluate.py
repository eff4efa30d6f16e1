"""`unseen evaluate`: the paper's figures for a bundle, on photos by class."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from unseen.cli.app import JsonFlag, command, emit, escaped, stdout, tell
from unseen.cli.options import CANDIDATES_HELP, DeviceOption, FeaturesOption, TrustCodeOption


@command(
    "evaluate",
    examples="""
    unseen evaluate my-bundle --images photos/unseen --candidates 2-hops
    unseen evaluate calibrated --images photos/unseen --candidates any --sure 0.9
    unseen evaluate my-bundle --images photos/unseen --candidates all --with-seen
    unseen evaluate my-bundle --images photos/seen-val --candidates 2-hops --with-seen
    unseen evaluate my-bundle --images photos/unseen --images photos/seen-val --candidates 2-hops+1K --seen-shift 0.5
    unseen evaluate calibrated --images photos/unseen --images photos/seen-val --candidates 2-hops+1K --novelty auto
    unseen evaluate sounds --features hidden.npz --candidates unseen
    unseen evaluate my-bundle --images photos/unseen --candidates hops:2 --ties pessimistic --json
    torchrun --nproc-per-node 8 -m unseen evaluate my-bundle --images features --candidates all --json
    """,
)
def evaluate(
    bundle: Annotated[Path, typer.Argument(help="The bundle.")],
    images: Annotated[
        list[Path] | None, typer.Option(help="DIR/<id or name>/* or a feature store; may be repeated.")
    ] = None,
    features: FeaturesOption = None,
    candidates: Annotated[str, typer.Option(help=CANDIDATES_HELP)] = "unseen",
    with_seen: Annotated[bool, typer.Option(help="Add the seen classes to the candidates (+1K).")] = False,
    seen_shift: Annotated[
        str | None,
        typer.Option(
            help="Rank by score, less this for seen classes; `auto`: what `unseen calibrate` chose. By default a "
            "calibrated bundle ranks by probability."
        ),
    ] = None,
    novelty: Annotated[
        str | None,
        typer.Option(
            help="Also evaluate with a novelty detector: photos for which the network's confidence reaches this "
            "threshold compete among seen classes only, the others among unseen ones; `auto`: what "
            "`unseen calibrate` chose."
        ),
    ] = None,
    photos_of: Annotated[
        str,
        typer.Option(
            help="Which photos count with --with-seen or +1K: unseen, seen, both; auto: in each folder those of the "
            "list, and those of seen classes only where it has no others."
        ),
    ] = "auto",
    sure: Annotated[float, typer.Option(help="The sureness of the verdicts that are judged.")] = 0.9,
    verdicts: Annotated[bool, typer.Option(help="Judge verdicts too, which takes most of the time.")] = True,
    ties: Annotated[str, typer.Option(help="realistic, optimistic or pessimistic (the authors' way).")] = "realistic",
    per_class: Annotated[bool, typer.Option(help="Also report every class.")] = False,
    workers: Annotated[int, typer.Option(min=0, help="Processes that decode photos.")] = 2,
    trust_code: TrustCodeOption = False,
    device: DeviceOption = "auto",
    json_: JsonFlag = False,
) -> None:
    """Measure Hit@k on the photos of DIR/<class id>/*, averaged over photos and over classes."""
    from unseen.classifier import load
    from unseen.evaluation.protocol import evaluate_lists
    from unseen.runtime.processes import Processes

    sources = [*(images or []), *([features] if features else [])]
    if not sources:
        raise typer.BadParameter("name the photos with --images DIR, or features with --features FILE")
    with Processes(device) as processes:  # alone, or one of torchrun's
        first = processes.rank == 0
        model = load(bundle, device=str(processes.device), trust_code=trust_code)
        result = evaluate_lists(
            model,
            sources,
            [candidates],
            with_seen,
            None if seen_shift is None else number_or_text(seen_shift),
            ties,
            novelty=None if novelty is None else number_or_text(novelty),
            workers=workers,
            show_progress=first,
            say=tell if first else lambda message: None,
            photos_of=photos_of,
            sure=sure if verdicts else None,
            processes=processes,
        )[0]
    if first:
        emit(result.as_dict(per_class), json_, lambda: _show(result, per_class))


def number_or_text(typed: str) -> float | str:
    """A number where it is one; what else it may be, such as `auto`, the library knows."""
    try:
        return float(typed)
    except ValueError:
        return typed


def _show(result, per_class: bool) -> None:
    title = f"{escaped(result.candidates)}: {result.candidate_classes:,} candidates, ties {result.ties}"
    table = Table("Hit@k (%)", *(key.removeprefix("hit@") for key in result.image), title=title, title_justify="left")
    for name, figures in (("over images", result.image), ("over classes", result.class_)):
        table.add_row(name, *(f"{value:.1f}" for value in figures.values()))
    stdout.print(table)
    stdout.print(
        f"{result.images:,} photos of {result.classes:,} classes (the list has {result.listed_classes:,}); "
        f"{result.unreadable} unreadable, {result.skipped_classes} folders skipped",
        soft_wrap=True,
    )
    if result.generalised:
        figures = result.generalised["class"]
        stdout.print(
            f"generalised, over classes: seen {figures['seen']}, unseen {figures['unseen']}, "
            f"harmonic mean {figures['harmonic']}, AUSUC {figures['ausuc']}",
            soft_wrap=True,
        )
    if result.novelty:
        figures = result.novelty
        stdout.print(
            f"with a novelty detector at {figures['threshold']:.4g}, over classes: seen {figures['seen']}, unseen "
            f"{figures['unseen']}, harmonic mean {figures['harmonic']}; recognised correctly: "
            f"{figures['seen_told_rightly']} % of seen photos, {figures['unseen_told_rightly']} % of unseen ones",
            soft_wrap=True,
        )
    if result.verdict:
        _show_verdicts(result)
    if per_class:
        table = Table("id", "photos", *result.image)
        for row in result.per_class:
            table.add_row(escaped(row["id"]), str(row["photos"]), *(f"{row[key]:.1f}" for key in result.image))
        stdout.print(table)


def _show_verdicts(result) -> None:
    verdict, told = result.verdict, result.hierarchical
    stdout.print(
        f"verdicts at sureness {verdict['sure']:g}{'' if result.calibrated else ', not calibrated'}: "
        f"{verdict['right']:.1f} % right, {verdict['information']:.2f} bits, {verdict['unknown']:.1f} % don't know\n"
        f"hierarchical: precision@5 {told['precision@5']:.1f} %, F1 {told['f1']:.1f} %, mistakes "
        f"{'-' if told['severity'] is None else told['severity']} steps up, area {told['area']:.3f}",
        soft_wrap=True,
    )
