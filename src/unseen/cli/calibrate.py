"""`unseen calibrate`: probabilities that hold, and the balance of seen and unseen classes, from seen photos only."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from unseen.cli.app import JsonFlag, command, emit, escaped, stdout, tell
from unseen.cli.options import TrustCodeOption


@command("calibrate", examples="unseen calibrate my-bundle --images photos/seen-train --out calibrated")
def calibrate(
    bundle: Annotated[Path, typer.Argument(help="The bundle.")],
    images: Annotated[Path, typer.Option(help="Photos of seen classes: DIR/<id or name>/*, a feature store, or .npz.")],
    out: Annotated[Path, typer.Option(help="The bundle to write, with the choice in it; may be the same folder.")],
    holdout: Annotated[float, typer.Option(min=0.01, max=0.9, help="Share of seen classes to hide.")] = 0.2,
    candidates: Annotated[str, typer.Option(help="Unseen classes that compete while the shift is chosen.")] = "hops:2",
    harm: Annotated[
        float,
        typer.Option(help="Points of accuracy that photos of seen classes may lose against the network alone."),
    ] = 5.0,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace another bundle in OUT.")] = False,
    trust_code: TrustCodeOption = False,
    json_: JsonFlag = False,
) -> None:
    """Fit what makes probabilities and verdicts hold, on photos of seen classes of which some are hidden.

    Also chooses a seen-shift (calibrated stacking) and a novelty threshold, the paper's two ways."""
    from unseen.bundle import Bundle
    from unseen.calibration.fit import calibrate as choose

    untuned = Bundle.load(bundle, trust_code=trust_code)
    calibrated = choose(untuned, images, holdout, candidates, tell, out=out, overwrite=overwrite, harm=harm)
    assert calibrated.calibration is not None
    result = {"bundle": str(out), **calibrated.calibration.to_json()}
    emit(result, json_, lambda: _show(result))


def _show(result: dict) -> None:
    effect = result["effect"]
    seen, hidden = effect["seen"], effect["hidden"]
    stdout.print(
        f"[bold]{result['photos']:,} photos[/bold], {result['hidden_classes']} classes hidden at a time\n"
        f"seen photos among all classes, Hit@1: {seen['before_hit@1']} before, [bold]{seen['hit@1']}[/bold] after "
        f"(the network alone {seen['network_hit@1']}; at most {result['harm']:g} points less were allowed)\n"
        f"photos of hidden classes, Hit@5: {hidden['before_hit@5']} before, [bold]{hidden['hit@5']}[/bold] after",
        soft_wrap=True,
    )
    table = Table("sureness", "seen: right", "bits", "hidden: right", "bits")
    for row in effect["verdicts"]:
        figures = [row[kind][key] for kind in ("seen", "hidden") for key in ("right", "information")]
        table.add_row(f"{row['sure']:g}", *(f"{figure:.1f}" for figure in figures))
    stdout.print(table)
    stdout.print(
        f"seen-shift {result['seen_shift']:.4g} (harmonic mean {result['harmonic_on_hidden']} on hidden classes, "
        f"{result['harmonic_without']} without); novelty threshold {result['novelty_threshold']:.4f}, "
        f"AUROC {result['novelty_auroc']}\n"
        f"Use it: unseen classify photo.jpg --bundle {escaped(result['bundle'])}",
        soft_wrap=True,
    )
