"""Options that several commands share, each with one wording."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unseen.errors import UnseenError

if TYPE_CHECKING:
    from unseen.photos import PhotoTransform

DeviceOption = Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1, mps.")]
TrustCodeOption = Annotated[
    bool,
    typer.Option(
        "--trust-code", help="Let the bundle import the module of your own that it names as its network or method."
    ),
]

CANDIDATES_HELP = (
    "any, unseen, seen, own (what you added), leaves, hops:N, subtree:NAME, 2-hops, 3-hops, all, awa2-test, a file of "
    "ids, or the CSV that you added; several joined by +, as own+seen."
)
FeaturesOption = Annotated[
    Path | None,
    typer.Option(help="Features instead of photos: .npy, .npz with `features` (and `labels`), or a feature store."),
]

# The network of `train` and `features`.
BackboneOption = Annotated[
    str,
    typer.Option(
        help="efficientnet-lite0, -lite1, -lite2, resnet50, timm/NAME, torchvision/NAME, hf:FOLDER, onnx:FILE, "
        "linear:FILE (weight, bias and classes over features of your own; linear:FILE@NAME over a network's), or "
        "module:callable."
    ),
]
ClassesOption = Annotated[Path | None, typer.Option(help="The network's class ids in its order, one a line.")]
LayerOption = Annotated[str | None, typer.Option(help="Name of the network's last linear layer, if not found.")]
WeightsOption = Annotated[Path | None, typer.Option(help="Weights of the network: safetensors or a torch file.")]
TransformOption = Annotated[
    str | None,
    typer.Option(
        help="How photos are prepared, if the network does not say: JSON, or a JSON file, with size and as needed "
        'resize, mean, std, interpolation, squash: \'{"size": 160, "mean": 0.5, "std": 0.5}\'.'
    ),
]


def read_transform(typed: str | None) -> PhotoTransform | None:
    """The transform that `--transform` states; a single mean or deviation counts for all three channels."""
    if typed is None:
        return None
    from unseen.photos import PhotoTransform

    try:
        text = typed if typed.lstrip().startswith("{") else Path(typed).read_text(encoding="utf-8")
        stated = json.loads(text)
        for key in ("mean", "std"):
            if isinstance(stated.get(key), (int, float)):
                stated[key] = [stated[key]] * 3
        return PhotoTransform(**stated)
    except UnseenError as error:
        raise UnseenError(f"--transform: {error}") from None
    except OSError as error:
        raise UnseenError(f"--transform: {typed!r} is neither JSON nor a file ({error.strerror})") from None
    except (ValueError, TypeError, AttributeError, ArithmeticError, RecursionError) as error:
        raise UnseenError(
            f"--transform takes a JSON object with size, resize, mean, std, interpolation and squash: {error}"
        ) from None
