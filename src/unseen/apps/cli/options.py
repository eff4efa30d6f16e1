"""Options that several commands share, each with one wording."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from unseen.naming.reading import read_ids
from unseen.photos.transforms import PhotoTransform
from unseen.util.errors import UnseenError

if TYPE_CHECKING:  # with torch
    from unseen.networks.base import Network

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
TrustCode = Annotated[
    bool, Option("--trust-code", help="Let the bundle import code, read files and download weights that it names.")
]

BY_CLASS_HELP = "Photos by class: DIR/<id or name>/*, LIST.txt, .parquet, .tar, a quoted glob, a URL"
Features = Annotated[
    Path | None,
    Option(help="Features instead of photos: .npy, .npz with `features` (and `labels`), or a feature store."),
]


@dataclass(frozen=True)
class NetworkSettings:
    """The network of `train` and `features`.

    Args:
        network: efficientnet-lite0, -lite1, -lite2, resnet50, timm/NAME, hf:FOLDER, onnx:FILE, linear:FILE (weight,
            bias and classes over features of your own; linear:FILE@NAME over a network's), or module:callable.
        classes: The network's class ids in its order, one per line.
        layer: Name of the network's last linear layer, if not found.
        weights: Weights of the network: safetensors or a torch file.
        transform: How photos are prepared, if the network does not say: JSON, or a JSON file, with size and as needed
            resize, mean, std, interpolation, squash: '{"size": 160, "mean": 0.5, "std": 0.5}'.
    """

    network: str = "efficientnet-lite0"
    classes: Path | None = None
    layer: str | None = None
    weights: Path | None = None
    transform: str | None = None

    def load(self) -> Network:
        from unseen.networks.loading import load_network  # with torch

        classes = read_ids(self.classes) if self.classes else None
        return load_network(self.network, classes, self.weights, self.layer, read_transform(self.transform))


def read_transform(typed: str | None) -> PhotoTransform | None:
    """The transform that `--transform` states; a single mean or deviation counts for all three channels."""
    if typed is None:
        return None
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
