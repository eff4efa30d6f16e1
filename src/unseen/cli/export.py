"""`unseen export`: a bundle as a file for onnxruntime, torch or timm."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from unseen.cli.app import JsonFlag, command, emit, escaped, stdout
from unseen.cli.options import CANDIDATES_HELP, TrustCodeOption


@command(
    "export",
    examples="""
    unseen export my-bundle --to onnx --out model.onnx
    unseen export my-bundle --to torch --candidates subtree:feline --out felines.safetensors
    unseen export my-bundle --to timm --out my-timm-model --half
    """,
)
def export(
    bundle: Annotated[Path, typer.Argument(help="The bundle.")],
    to: Annotated[str, typer.Option(help="onnx, torch or timm.")],
    out: Annotated[Path, typer.Option(help="The file to write; for timm, a folder.")],
    candidates: Annotated[str, typer.Option(help=f"Which classes: {CANDIDATES_HELP}")] = "any",
    half: Annotated[bool, typer.Option("--half", help="Store weights as fp16.")] = False,
    trust_code: TrustCodeOption = False,
    json_: JsonFlag = False,
) -> None:
    """Write network and classes as one file that needs no unseen to run."""
    from unseen.classifier import load
    from unseen.exporting.files import export as write

    result = write(load(bundle, device="cpu", trust_code=trust_code), to, out, candidates, half)
    emit(result, json_, lambda: _show(result))


def _show(result: dict) -> None:
    size = result["bytes"] / 1e6
    checked = ""
    if "max_difference" in result:
        checked = f", agrees with torch to {result['max_difference']:.1e} of the largest score"
    stdout.print(f"[bold]{escaped(result['out'])}[/bold]: {result['classes']:,} classes, {size:.1f} MB{checked}")
