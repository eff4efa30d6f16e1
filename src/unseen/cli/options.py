"""Options that several commands share, each with one wording."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

DeviceOption = Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1, mps.")]
TrustCodeOption = Annotated[
    bool,
    typer.Option(
        "--trust-code", help="Let the bundle import the module of your own that it names as its network or method."
    ),
]

# The network of `train` and `features`.
BackboneOption = Annotated[
    str, typer.Option(help="efficientnet-lite0, -lite1, -lite2, resnet50, timm/NAME, or module:callable.")
]
ClassesOption = Annotated[Path | None, typer.Option(help="The network's class ids in its order, one a line.")]
LayerOption = Annotated[str | None, typer.Option(help="Name of the network's last linear layer, if not found.")]
WeightsOption = Annotated[Path | None, typer.Option(help="Weights of the network: safetensors or a torch file.")]
