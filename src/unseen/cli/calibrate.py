"""`unseen calibrate`: choose the trade between seen and unseen classes, on seen photos only."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from unseen.cli.app import JsonFlag, command, emit, escaped, stdout, tell
from unseen.cli.options import TrustCodeOption


@command("calibrate", examples="unseen calibrate my-bundle --images photos/seen-train --out calibrated")
def calibrate(
    bundle: Annotated[Path, typer.Argument(help="The bundle.")],
    images: Annotated[Path, typer.Option(help="Photos of seen classes: DIR/<id>/*, or a feature store.")],
    out: Annotated[Path, typer.Option(help="The bundle to write, with the choice in it; may be the same folder.")],
    holdout: Annotated[float, typer.Option(min=0.01, max=0.9, help="Share of seen classes to hide.")] = 0.2,
    candidates: Annotated[str, typer.Option(help="Unseen classes that compete meanwhile.")] = "hops:2",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace another bundle in OUT.")] = False,
    trust_code: TrustCodeOption = False,
    json_: JsonFlag = False,
) -> None:
    """Choose a seen-shift (calibrated stacking) and a novelty threshold on hidden seen classes."""
    from unseen.bundle import Bundle
    from unseen.calibration.shift import calibrate as choose

    untuned = Bundle.load(bundle, trust_code=trust_code)
    calibrated = choose(untuned, images, holdout, candidates, tell, out=out, overwrite=overwrite)
    assert calibrated.calibration is not None
    result = {"bundle": str(out), **calibrated.calibration.to_json()}
    emit(result, json_, lambda: _show(result))


def _show(result: dict) -> None:
    found = f"{result['harmonic_on_hidden']} on {result['hidden_classes']} hidden classes"
    if result["seen_shift"]:
        told = f"harmonic mean {found} ({result['harmonic_without']} without)"
    else:
        told = f"no shift is better than none; harmonic mean {found}"
    stdout.print(
        f"seen-shift [bold]{result['seen_shift']:.4g}[/bold]: {told}\n"
        f"novelty threshold {result['novelty_threshold']:.4f}, AUROC {result['novelty_auroc']}\n"
        f"Use it: unseen evaluate {escaped(result['bundle'])} --seen-shift auto, or --novelty auto"
    )
