"""Options that several commands share, each with one wording."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from unseen.util.errors import UnseenError

if TYPE_CHECKING:
    from unseen.networks.base import Network as LoadedNetwork
    from unseen.photos import PhotoTransform

Bundle = Annotated[Path, Argument(help="The bundle.")]
Out = Annotated[Path, Option(help="Where the changed bundle goes; may be the same file.")]
Overwrite = Annotated[bool, Option("--overwrite", help="Replace another bundle in OUT.")]
Seed = Annotated[int, Option(help="Random seed.")]
Workers = Annotated[int, Option(min=0, help="Processes that decode photos.")]
Confidence = Annotated[float, Option(help="How often the verdict must be right: 0.9 is 9 times in 10.")]
PRIOR_HELP = "common (unseen classes with common names are more probable), uniform, or a file of weights: name,weight."
Resume = Annotated[bool, Option(help="Continue what was interrupted in OUT.")]
Restart = Annotated[bool, Option("--overwrite/--no-overwrite", help="Replace what is in OUT, finished or interrupted.")]
Device = Annotated[str, Option(help="auto, cpu, cuda, cuda:1, mps.")]
TrustCode = Annotated[bool, Option("--trust-code", help="Let the bundle import a module of your own that it names.")]

BY_CLASS_HELP = "Photos by class: DIR/<id or name>/*, LIST.txt, .parquet, .tar, a quoted glob, a URL"
Features = Annotated[
    Path | None,
    Option(help="Features instead of photos: .npy, .npz with `features` (and `labels`), or a feature store."),
]

# The network of `train` and `features`.
Network = Annotated[
    str,
    Option(
        help="efficientnet-lite0, -lite1, -lite2, resnet50, timm/NAME, torchvision/NAME, hf:FOLDER, onnx:FILE, "
        "linear:FILE (weight, bias and classes over features of your own; linear:FILE@NAME over a network's), or "
        "module:callable."
    ),
]
Classes = Annotated[Path | None, Option(help="The network's class ids in its order, one per line.")]
Layer = Annotated[str | None, Option(help="Name of the network's last linear layer, if not found.")]
Weights = Annotated[Path | None, Option(help="Weights of the network: safetensors or a torch file.")]
Transform = Annotated[
    str | None,
    Option(
        help="How photos are prepared, if the network does not say: JSON, or a JSON file, with size and as needed "
        'resize, mean, std, interpolation, squash: \'{"size": 160, "mean": 0.5, "std": 0.5}\'.'
    ),
]


def load_network(
    name: str, classes: Path | None, layer: str | None, weights: Path | None, transform: str | None
) -> LoadedNetwork:
    """The network that `--network` and the options beside it name."""
    from unseen.naming.reading import read_ids
    from unseen.networks.loading import load_network

    return load_network(name, read_ids(classes) if classes else None, weights, layer, read_transform(transform))


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
