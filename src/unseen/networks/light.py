"""Networks through onnxruntime, for a photo or two: importing torch takes longer than all the rest.

`keep_light` translates a built-in network to ONNX once and keeps it in the cache, where `find_light` finds it by the
checksum of its weights. A translation that is missing, damaged or not to be run here costs nothing but time.
"""

from __future__ import annotations

import hashlib
import io
import logging
import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unseen.photos.transforms import PhotoTransform
from unseen.util.files import cache_folder, write_atomically

if TYPE_CHECKING:
    from torch import Tensor

    from unseen.networks.base import Network

OPSET = 18
logger = logging.getLogger(__name__)
CLOSE = 1e-4  # of the largest feature: how far a translation may be from the network
NEEDED = ("onnx", "onnxruntime")
DIGITS = 64  # of SHA-256, before the model in its file


class LightNetwork:
    """What answers need of a network: its transform, and features of photos; arrays in, arrays out."""

    device = None

    def __init__(self, session: Any, transform: PhotoTransform, num_features: int):
        self.session, self.transform, self.num_features = session, transform, num_features

    def features_of(self, pixels: np.ndarray) -> np.ndarray:
        """B x 3 x H x W -> B x D."""
        return self.session.run(["features"], {"photos": pixels})[0]


def _place(checksum: str) -> Path:
    return cache_folder() / "networks" / checksum


def _read(checksum: str) -> bytes | None:
    """The translation that is kept, behind its own checksum; None if there is none, or it is damaged."""
    try:
        content = _place(checksum).read_bytes()
    except OSError:
        return None
    model = content[DIGITS:]
    return model if hashlib.sha256(model).hexdigest().encode() == content[:DIGITS] else None


def find_light(checksum: str, transform: PhotoTransform, num_features: int) -> LightNetwork | None:
    """The translation of the network with these weights; None if there is none that works here."""
    model = _read(checksum) if find_spec("onnxruntime") else None
    if model is None:
        return None
    try:
        return LightNetwork(_session(model), transform, num_features)
    except Exception:  # onnxruntime has no common base for its errors; torch does as well
        return None


def _session(model: bytes) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # threads that wait sleep
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def keep_light(network: Network) -> bool:
    """Translate a built-in network, unless that was done before; False where it cannot be."""
    import torch

    from unseen.networks.base import ConvNet

    if _read(network.checksum) is not None:
        return True
    if not isinstance(network.module, ConvNet) or not all(map(find_spec, NEEDED)):
        return False

    class Features(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.network = network

        def forward(self, photos: Tensor) -> Tensor:
            return self.network.forward_pre_logits(photos)

    logger.info("First use: getting %s ready for onnxruntime, so that the next photo needs no torch", network.name)
    written: Any = io.BytesIO()
    kept = False
    side = network.transform.size
    probe = torch.rand(2, 3, side, side, generator=torch.Generator().manual_seed(0))
    names: Any = {"input_names": ["photos"], "output_names": ["features"], "dynamic_axes": {"photos": {0: "batch"}}}
    try:
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch's newer exporter takes seven times as long
            torch.onnx.export(Features().cpu(), (probe,), written, **names, opset_version=OPSET, dynamo=False)
        model = written.getvalue()
        light = LightNetwork(_session(model), network.transform, network.num_features)
        features, expected = light.features_of(probe.numpy()), network.features_of(probe.numpy())
        kept = bool(np.abs(features - expected).max() <= CLOSE * np.abs(expected).max())
        if kept:
            write_atomically(_place(network.checksum), hashlib.sha256(model).hexdigest().encode() + model)
    except Exception as error:  # of torch's exporter, of onnxruntime, or a full disk: torch does as well
        kept = False
        logger.debug("%s is not ready for onnxruntime: %s", network.name, error)
    return kept
