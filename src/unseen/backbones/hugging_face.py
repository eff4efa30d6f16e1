"""Image classifiers of Hugging Face's transformers (an extra): `hf:FOLDER`, or `hf:OWNER/NAME` from their hub.

The folder is what `save_pretrained` writes. Photos are prepared as its processor says.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from unseen.assets import imagenet_1k
from unseen.backbones.base import Backbone, Weights, check_class_ids, load_strictly
from unseen.backbones.custom import HookedBackbone, find_classifier, read_weights
from unseen.backbones.hub import impatient_hub, import_extra
from unseen.errors import UnseenError
from unseen.photos.transforms import PhotoTransform

RESAMPLING = {0: "nearest", 1: "lanczos", 2: "bilinear", 3: "bicubic"}  # Pillow's numbers
PROCESSOR_FILES = ("preprocessor_config.json", "processor_config.json")


def load_hugging_face(
    place: str,
    classes: Sequence[str] | None,
    weights: Weights | None,
    layer: str | None,
    transform: PhotoTransform | None,
) -> Backbone:
    """`place` is a folder, or a name on the hub, whose files are then downloaded or taken from their cache."""
    transformers = import_extra("transformers", "hf", f"hf:{place}")
    folder = Path(place)
    if not folder.is_dir() and not re.fullmatch(r"[\w.-]+(/[\w.-]+)?", place):
        raise UnseenError(f"hf:{place}: there is no such folder.")
    if folder.is_dir() and not (folder / "config.json").is_file():
        raise UnseenError(f"hf:{place}: has no config.json. Save the model there with model.save_pretrained(folder).")
    with _quiet(transformers), impatient_hub():
        module = _load_model(transformers, place)
        processor = _load_processor(transformers, place)
    name = f"hf:{folder.resolve()}" if folder.is_dir() else f"hf:{place}"
    if weights is not None:
        load_strictly(module, weights, f"The weights given for {name}")
    outputs = int(module.config.num_labels)
    ids = _class_ids(name, module.config, outputs) if classes is None else list(classes)
    check_class_ids(ids, outputs)
    assumed = transform is None and processor is None
    if transform is None:
        transform = PhotoTransform(_size_of(module.config)) if processor is None else transform_of(processor, name)
    layer = layer or find_classifier(module, transform.size, outputs)
    backbone = HookedBackbone(module, layer, ids, transform, name)
    backbone.transform_assumed = assumed
    return backbone


def transform_of(processor: Mapping[str, Any], where: str = "The processor") -> PhotoTransform:
    """A processor's settings as our transform: size, crop, interpolation, scale, mean and deviation."""
    size, crop = processor.get("size") or {}, processor.get("crop_size") or {}
    crops = bool(processor.get("do_center_crop")) and bool(crop)
    if not processor.get("do_resize", True) or not size:
        raise UnseenError(
            f"{where}: its processor does not say how large photos become. Say it: transform=PhotoTransform(size)."
        )
    squash, resize = _resize(size, crops)
    final = _side(crop, where) if crops else resize
    share = processor.get("crop_pct")
    if share and not crops:  # as ConvNeXT does: small photos are cropped, from 384 px on they are squashed
        squash, final = resize >= 384, resize
        resize = resize if squash else int(resize / share)
    scale = 255 * (processor.get("rescale_factor") or 1 / 255) if processor.get("do_rescale", True) else 255.0
    mean, std = _each(processor, "image_mean", 0.0), _each(processor, "image_std", 1.0)
    if not processor.get("do_normalize", True):
        mean, std = [0.0] * 3, [1.0] * 3
    if processor.get("rescale_offset"):  # EfficientNet: x / 127.5 - 1
        mean = [value + 1 for value in mean]
    if processor.get("include_top"):  # EfficientNet divides twice
        std = [value * value for value in std]
    resample = processor.get("resample", 2)
    interpolation = RESAMPLING.get(int(2 if resample is None else resample))
    if interpolation is None:
        raise UnseenError(f"{where}: Pillow's interpolation {resample} is not supported.")
    return PhotoTransform(
        final,
        mean=(mean[0] / scale, mean[1] / scale, mean[2] / scale),
        std=(std[0] / scale, std[1] / scale, std[2] / scale),
        interpolation=interpolation,
        resize=max(resize, final),
        squash=squash,
    )


def _resize(size: Any, crops: bool) -> tuple[bool, int]:
    """Whether the proportions are given up, and the pixels of the short side."""
    if isinstance(size, int):
        return not crops, size
    if "shortest_edge" in size:
        return False, int(size["shortest_edge"])
    return True, _side(size, "The processor")


def _side(size: Any, where: str) -> int:
    if isinstance(size, int):
        return size
    if "height" not in size or size["height"] != size.get("width"):
        raise UnseenError(f"{where}: networks for square photos are supported, not for {dict(size)}.")
    return int(size["height"])


def _each(processor: Mapping[str, Any], key: str, default: float) -> list[float]:
    given = processor.get(key)
    if given is None:
        return [default] * 3
    given = [given] if isinstance(given, (int, float)) else list(given)
    return [float(value) for value in (given * 3 if len(given) == 1 else given)]


def _size_of(config: Any) -> int:
    size = getattr(config, "image_size", None)
    return size if isinstance(size, int) else 224


def _class_ids(name: str, config: Any, outputs: int) -> list[str]:
    """What the model calls its outputs; ImageNet's ids where those are its 1,000 names."""
    labels = [str(config.id2label.get(number, "")) for number in range(outputs)]
    if outputs == 1000 and labels[0].startswith("tench") and labels[-1].startswith("toilet t"):
        return list(imagenet_1k())
    if any(not label or re.fullmatch(r"LABEL_\d+", label) for label in labels):
        raise UnseenError(
            f"{name}: say which classes it knows, in the order of its {outputs} outputs, with classes=...",
            "classes=...",
        )
    return labels


def _load_model(transformers: Any, place: str) -> Any:
    maker, folder = transformers.AutoModelForImageClassification, Path(place)
    try:
        if folder.is_dir() and not any(folder.glob("*.safetensors")):
            # An older file: read by us, so that no code in it is run.
            model = maker.from_config(transformers.AutoConfig.from_pretrained(place))
            load_strictly(model, read_weights(folder / "pytorch_model.bin"), f"The weights in hf:{place}")
            return model
        model, told = maker.from_pretrained(place, use_safetensors=True, output_loading_info=True)
    except UnseenError:
        raise
    except OSError as error:  # nothing there, or no connection and nothing in the cache
        raise UnseenError(
            f"hf:{place} could not be loaded ({_first_line(error)}). Without a connection, give the folder of a model "
            f"that was downloaded before: hf:FOLDER."
        ) from None
    except Exception as error:  # a configuration of something else, a damaged file
        raise UnseenError(f"hf:{place} is not an image classifier that can be loaded: {_first_line(error)}") from None
    if told["missing_keys"]:
        some = ", ".join(sorted(told["missing_keys"])[:3])
        raise UnseenError(f"hf:{place}: its file of weights lacks {some}: it is no trained image classifier.")
    return model


def _load_processor(transformers: Any, place: str) -> dict[str, Any] | None:
    """Its settings, with the defaults of its kind; None where there is none."""
    try:
        return transformers.AutoImageProcessor.from_pretrained(place).to_dict()
    except ImportError:  # some of them need torchvision: the file then has to say it all
        for name in PROCESSOR_FILES:
            if (Path(place) / name).is_file():
                held = json.loads((Path(place) / name).read_text(encoding="utf-8"))
                return held.get("image_processor", held)
        return None
    except (OSError, ValueError):
        return None


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")


class _quiet:
    """No bars and no advice on standard error while a model is loaded."""

    def __init__(self, transformers: Any):
        self.logging = transformers.utils.logging

    def __enter__(self) -> None:
        self.level, self.bars = self.logging.get_verbosity(), self.logging.is_progress_bar_enabled()
        self.logging.set_verbosity_error()
        self.logging.disable_progress_bar()

    def __exit__(self, *_: Any) -> None:
        self.logging.set_verbosity(self.level)
        if self.bars:
            self.logging.enable_progress_bar()
