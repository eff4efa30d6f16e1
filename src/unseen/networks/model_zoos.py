"""Networks of timm and Hugging Face's transformers (extras): `timm/resnet50.a1_in1k`, and `hf:FOLDER`, which
`save_pretrained` writes, or `hf:OWNER/NAME` from their hub.

Weights are the published ones, downloaded or from the library's cache, or those of a file. Code in them is never run.
"""

from __future__ import annotations

import difflib
import json
import math
import os
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from torch import nn

from unseen.data import imagenet_1k
from unseen.networks.base import CLASSES_NEEDED, Network, Options, check_class_ids, load_strictly
from unseen.networks.custom import from_module, read_weights
from unseen.photos.transforms import PhotoTransform
from unseen.util.errors import UnseenError
from unseen.util.names import first_line, how_to_install, list_some

RESAMPLING = {0: "nearest", 1: "lanczos", 2: "bilinear", 3: "bicubic"}  # Pillow's numbers


def import_extra(module: str, extra: str, network: str) -> Any:
    """An optional package, or an error with the command that installs it."""
    os.environ.setdefault("HF_HUB_ETAG_TIMEOUT", "3")  # seconds until Hugging Face's hub counts as out of reach
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Failed to load image Python extension")  # of torchvision
        try:
            return import_module(module)
        except ImportError as error:
            needed = module.partition(".")[0] + ("" if error.name in (None, module) else f" ({error})")
            raise UnseenError(f"{network} needs {needed}. Run: {how_to_install(extra)}") from None


def load_timm(name: str, options: Options) -> Network:
    """`name` without "timm/"."""
    timm = import_extra("timm", "timm", f"timm/{name}")
    _check_name(f"timm {timm.__version__}", name, timm.is_model(name), timm.list_models())
    classes, weights, layer, transform = options
    settings = {"num_classes": len(classes)} if classes is not None and weights is not None else {}
    try:
        module = timm.create_model(name, pretrained=weights is None, **settings)
    except RuntimeError as error:
        raise UnseenError(f"timm/{name}: {error}") from error
    except OSError as error:
        raise _no_download(f"timm/{name}", error, f"https://huggingface.co/timm/{name}") from None
    if weights is not None:
        load_strictly(module, weights, f"The weights given for timm/{name}")
    config = module.pretrained_cfg
    tag = f".{config['tag']}" if config.get("tag") else ""
    full_name = f"timm/{config.get('architecture', name)}{tag}"
    outputs = getattr(module, "num_classes", 0)
    if not outputs:
        raise UnseenError(f"{full_name} has no classifier: choose a network trained to classify.")
    ids = options.class_ids(full_name, outputs)
    module.to(memory_format=torch.channels_last)  # a quarter faster on a CPU, with the same result
    head = module.get_classifier()
    if layer is None and isinstance(head, nn.Linear):
        layer = next((name for name, child in module.named_modules() if child is head), None)
    return from_module(module, ids, transform or timm_transform(config), layer, full_name)


def timm_transform(config: dict) -> PhotoTransform:
    """timm's `pretrained_cfg` as our transform, at the size of training, as in timm's examples."""
    channels, height, width = config["input_size"]
    if channels != 3 or height != width:
        raise UnseenError(f"Photos must be square, with three channels, not {channels} x {height} x {width}.")
    mode = config.get("crop_mode") or "center"
    if mode not in ("center", "squash"):
        raise UnseenError(f"timm's crop mode {mode!r} is not supported; 'center' and 'squash' are.")
    interpolation, share = config.get("interpolation") or "bicubic", config.get("crop_pct") or 0.875
    resize = math.floor(height / share)
    return PhotoTransform(height, config["mean"], config["std"], interpolation, resize, mode == "squash")


def _check_name(library: str, name: str, known: bool, names: list[str]) -> None:
    if not known:
        near = difflib.get_close_matches(name, names, 3) or names[:3]
        raise UnseenError(f"{library} has no classifier {name!r}. Similar names: {', '.join(near)}.")


def _no_download(network: str, error: OSError, address: str) -> UnseenError:
    return UnseenError(
        f"The weights of {network} could not be downloaded ({error}). Without a connection, download the file "
        f"elsewhere, from {address}, and give it as the network's weights."
    )


def load_hugging_face(place: str, options: Options) -> Network:
    """`place` is a folder, or a name on the hub, whose files are then downloaded or taken from their cache."""
    transformers = import_extra("transformers", "hf", f"hf:{place}")
    folder = Path(place)
    if not folder.is_dir() and not re.fullmatch(r"[\w.-]+(/[\w.-]+)?", place):
        raise UnseenError(f"hf:{place}: there is no such folder.")
    if folder.is_dir() and not (folder / "config.json").is_file():
        raise UnseenError(f"hf:{place}: has no config.json. Save the model there with model.save_pretrained(folder).")
    with _quiet(transformers.utils.logging):
        module = _load_model(transformers, place)
        processor = _load_processor(transformers, place)
    name = f"hf:{folder.resolve()}" if folder.is_dir() else f"hf:{place}"
    if options.weights is not None:
        load_strictly(module, options.weights, f"The weights given for {name}")
    outputs = int(module.config.num_labels)
    ids = check_class_ids(options.classes or _class_ids(name, module.config, outputs), outputs)
    transform = options.transform or (None if processor is None else transform_of(processor, name))
    size = getattr(module.config, "image_size", None)
    guess = PhotoTransform(size if isinstance(size, int) else 224)
    network = from_module(module, ids, transform or guess, options.layer, name)
    network.transform_assumed = transform is None
    return network


def transform_of(processor: Mapping[str, Any], where: str = "The processor") -> PhotoTransform:
    """A processor's settings as our transform: size, crop, interpolation, scale, mean and deviation."""
    size, crop = processor.get("size") or {}, processor.get("crop_size") or {}
    crops = bool(processor.get("do_center_crop")) and bool(crop)
    if not processor.get("do_resize", True) or not size:
        raise UnseenError(f"{where}: its processor does not say how large photos become. Give a PhotoTransform(size).")
    squash = not crops if isinstance(size, int) else "shortest_edge" not in size
    resize = _side(size, where)
    final = _side(crop, where) if crops else resize
    share = processor.get("crop_pct")
    if share and not crops:  # as ConvNeXT does: small photos are cropped, from 384 px on they are squashed
        squash, final = resize >= 384, resize
        resize = resize if squash else int(resize / share)
    mean: Any = np.zeros(3)
    std: Any = np.ones(3)
    if processor.get("do_normalize", True):
        mean, std = mean + (processor.get("image_mean") or 0), std * (processor.get("image_std") or 1)
    if processor.get("rescale_offset"):  # EfficientNet: x / 127.5 - 1
        mean = mean + 1
    if processor.get("include_top"):  # EfficientNet divides twice
        std = std * std
    scale = 255 * (processor.get("rescale_factor") or 1 / 255) if processor.get("do_rescale", True) else 255.0
    resample = processor.get("resample")
    interpolation = RESAMPLING.get(2 if resample is None else int(resample))
    if interpolation is None:
        raise UnseenError(f"{where}: Pillow's interpolation {resample} is not supported.")
    return PhotoTransform(final, mean / scale, std / scale, interpolation, max(resize, final), squash)


def _side(size: Any, where: str) -> int:
    """Of a square, or of its shortest edge."""
    if isinstance(size, int):
        return size
    sides = {size.get("shortest_edge", size.get("height")), size.get("shortest_edge", size.get("width"))}
    if len(sides) > 1 or None in sides:
        raise UnseenError(f"{where}: networks for square photos are supported, not for {dict(size)}.")
    return int(sides.pop())


def _class_ids(name: str, config: Any, outputs: int) -> Sequence[str]:
    """The model's names of its classes; ImageNet's ids where those are its 1,000 names."""
    labels = [str(config.id2label.get(number, "")) for number in range(outputs)]
    if outputs == 1000 and labels[0].startswith("tench") and labels[-1].startswith("toilet t"):
        return imagenet_1k()
    if any(not label or re.fullmatch(r"LABEL_\d+", label) for label in labels):
        raise UnseenError(CLASSES_NEEDED.format(name, outputs))
    return labels


def _load_model(transformers: Any, place: str) -> Any:
    auto, folder, safe = transformers.AutoModelForImageClassification, Path(place), {"trust_remote_code": False}
    try:
        if folder.is_dir() and not any(folder.glob("*.safetensors")):
            # An older file: read by us, so that no code in it is run.
            model = auto.from_config(transformers.AutoConfig.from_pretrained(place, **safe), **safe)
            load_strictly(model, read_weights(folder / "pytorch_model.bin"), f"The weights in hf:{place}")
            return model
        model, info = auto.from_pretrained(place, use_safetensors=True, output_loading_info=True, **safe)
    except OSError as error:
        advice = "Without a connection, give the folder of a model that was downloaded before: hf:FOLDER."
        raise UnseenError(f"hf:{place} could not be loaded ({first_line(error)}). {advice}") from None
    except (ValueError, KeyError, ImportError, RuntimeError, SafetensorError) as error:
        raise UnseenError(f"hf:{place} is not an image classifier that can be loaded: {first_line(error)}") from None
    if info["missing_keys"]:
        missing = list_some(sorted(info["missing_keys"]), 3)
        raise UnseenError(f"hf:{place}: its file of weights lacks {missing}: it is no trained image classifier.")
    return model


def _load_processor(transformers: Any, place: str) -> dict[str, Any] | None:
    """Its settings, with the defaults of its kind; None where there is none."""
    try:
        return transformers.AutoImageProcessor.from_pretrained(place, trust_remote_code=False).to_dict()
    except ImportError:  # some of them need torchvision: the file then has to say it all
        file = Path(place) / "preprocessor_config.json"
        return json.loads(file.read_text(encoding="utf-8")) if file.is_file() else None
    except (OSError, ValueError):
        return None


@contextmanager
def _quiet(logging: Any) -> Iterator[None]:
    """No progress bars and no advice on standard error while a model is loaded."""
    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()
