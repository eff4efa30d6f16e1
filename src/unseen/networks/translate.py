"""A torch network as an ONNX graph, which a bundle keeps: whoever uses the bundle then needs neither torch nor the code
of the network."""

from __future__ import annotations

import copy
import io
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from unseen.networks.base import Network
from unseen.networks.run import Below, OnnxNetwork
from unseen.util.names import first_line

OPSET = 18
CLOSE = 1e-4  # of a photo's largest feature: how far the graph may be from torch
PROBES = 8  # pictures of noise, from faint to loud, on which that is measured


class Translation(NamedTuple):
    onnx: bytes | None
    problem: str = ""  # why there is none


class _Features(nn.Module):
    def __init__(self, network: Network):
        super().__init__()
        self.network = network

    def forward(self, photos: Tensor) -> Tensor:
        return self.network.forward_pre_logits(photos)


def translate(network: Network | OnnxNetwork) -> Translation:
    """The graph photos -> features of a network, compared with torch on noise; or the reason why there is none."""
    if isinstance(network, OnnxNetwork):
        return Translation(network.onnx)
    if not network.takes_photos:
        return Translation(None, "it takes no photos")
    return network.cached("translation", lambda: _translate(network))


def for_photos(network: Network | OnnxNetwork) -> Network | OnnxNetwork:
    """The network as ONNX Runtime runs it, twice as fast on a CPU; or as it is, where it cannot be translated."""
    onnx = translate(network).onnx
    if onnx is None or isinstance(network, OnnxNetwork):
        return network
    below = network.below and Below(network.below.name, network.below.checksum, network.below.num_features)
    facts = network.name, network.class_ids, network.transform, network.checksum, network.classifiers()
    return OnnxNetwork(onnx, *facts, below)


def _translate(network: Network) -> Translation:
    problem = ""
    for export in (_trace, _capture):
        try:
            copied = copy.deepcopy(network).cpu().float().eval()
            size = copied.transform.size
            noise = torch.randn(PROBES, 3, size, size, generator=torch.Generator().manual_seed(0))
            noise *= torch.logspace(-1, 1, PROBES).view(-1, 1, 1, 1)
            with _quiet(), torch.no_grad():
                onnx = export(_Features(copied), noise[:1])
            facts = network.name, network.class_ids, network.transform, network.checksum, network.classifiers()
            difference = _difference(OnnxNetwork(onnx, *facts).features_of(noise.numpy()), copied.features(noise))
            if difference <= CLOSE:
                return Translation(onnx)
            problem = problem or f"its features differ by {difference:.1g} of the largest one"
        except Exception as error:  # of torch's exporters, of the network's own code, or of onnxruntime
            problem = problem or first_line(error)
    return Translation(None, problem)


def _trace(module: nn.Module, photo: Tensor) -> bytes:
    """By torch's older exporter: seven times as fast as the newer one, and it knows more networks."""
    written: Any = io.BytesIO()
    axes = {"photos": {0: "batch"}, "features": {0: "batch"}}
    names: Any = {"input_names": ["photos"], "output_names": ["features"], "dynamic_axes": axes}
    torch.onnx.export(module, (photo,), written, **names, opset_version=OPSET, dynamo=False)
    return written.getvalue()


def _capture(module: nn.Module, photo: Tensor) -> bytes:
    """By torch's newer exporter, which needs onnxscript; the older one may be gone one day."""
    shapes = ({0: torch.export.Dim("batch", min=1)},)
    names: Any = {"input_names": ["photos"], "output_names": ["features"], "dynamic_shapes": shapes}
    program = torch.onnx.export(module, (photo,), **names, opset_version=OPSET, dynamo=True, verbose=False)
    assert program is not None  # as the exporter promises for dynamo=True
    return program.model_proto.SerializeToString()


def _difference(found: np.ndarray, expected: Tensor) -> float:
    """The largest difference in a feature, as a share of the photo's largest one."""
    theirs = expected.numpy()
    finite = np.isfinite(theirs).all(axis=1)
    largest = np.maximum(np.abs(theirs[finite]).max(axis=1, initial=0), np.finfo(np.float32).tiny)
    return float((np.abs(found - theirs)[finite].max(axis=1, initial=0) / largest).max(initial=0))


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the exporters' remarks on their own versions, which do not help a user."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
