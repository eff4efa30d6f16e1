"""A network as answers need it: photos -> features by ONNX Runtime on a CPU, without torch.

A bundle holds the graph of its network (`networks.translate` makes it, once). The graph takes `photos`, B x 3 x H x W,
and gives `features`, B x D, both float32. It came with a file from somewhere, so it is checked before it runs.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import Any, NamedTuple, Protocol

import numpy as np

from unseen.photos.transforms import PhotoTransform
from unseen.util.errors import UnseenError
from unseen.util.names import first_line

DOMAINS = ("", "ai.onnx", "com.microsoft")  # whose operators ONNX Runtime brings along
ENDLESS = ("Loop", "Scan")  # a forged one never ends


class PhotoNetwork(Protocol):
    """What answers, stores and evaluations need of a network: `OnnxNetwork`, or `networks.base.Network` in torch."""

    name: str
    transform: PhotoTransform
    class_ids: tuple[str, ...]  # of its M outputs, in their order
    takes_photos: bool  # or rows of features

    @property
    def num_features(self) -> int: ...
    @property
    def checksum(self) -> str: ...  # of its weights
    @property
    def below(self) -> Any: ...  # the network that a linear layer was put over: its name and checksum; or None
    @property
    def device(self) -> Any: ...  # torch's; None: ONNX Runtime on the CPU
    def classifiers(self) -> np.ndarray: ...  # M x (D + 1)
    def features_of(self, pixels: np.ndarray) -> np.ndarray: ...  # B x 3 x H x W -> B x D, float32


class Below(NamedTuple):
    """The network below a linear layer, whose features these are."""

    name: str
    checksum: str
    num_features: int


class OnnxNetwork:
    """A network as a graph, ready to run.

    Each photo runs alone and on one thread: that is fastest, since its activations stay in the cache, and no photo's
    features depend on the photos around it. Any number of threads may share a network.
    """

    takes_photos, transform_assumed, kept_in_bundle = True, False, False
    device = layer = weights_file = None

    def __init__(
        self,
        onnx: bytes,
        name: str,
        class_ids: Sequence[str],
        transform: PhotoTransform,
        checksum: str,
        head: np.ndarray,
        below: Below | None = None,
    ):
        self.onnx, self.name, self.class_ids, self.transform = onnx, name, tuple(class_ids), transform
        self.checksum, self.head, self.below = checksum, head, below
        self.num_features = head.shape[1] - 1
        where = f"the ONNX graph of {name}"
        check_graph(onnx, where)
        self._session = open_session(onnx, where)

    def features_of(self, pixels: np.ndarray) -> np.ndarray:
        """B x 3 x H x W -> B x D, float32."""
        features = np.empty((len(pixels), self.num_features), np.float32)
        for row, photo in zip(features, np.asarray(pixels, np.float32), strict=True):
            try:
                (found,) = self._session.run(["features"], {"photos": photo[None]})
            except Exception as error:  # onnxruntime has no common base for its errors
                raise UnseenError(f"{self.name} cannot run on a photo: {first_line(error)}") from None
            if found.shape != (1, self.num_features):
                raise UnseenError(f"{self.name} gives {found.shape} for a photo, not {self.num_features} features")
            row[:] = found[0]
        return features

    def classifiers(self) -> np.ndarray:
        """The seen classifiers [weight, bias], M x (D + 1) float32, in the order of `class_ids`."""
        return self.head

    def __reduce__(self) -> tuple[Any, ...]:
        """A session cannot be copied: each process opens its own."""
        facts = self.name, self.class_ids, self.transform, self.checksum, self.head, self.below
        return OnnxNetwork, (self.onnx, *facts)


def import_onnxruntime() -> ModuleType:
    """ONNX Runtime without its telemetry, which the variable stops only if it is set before the import."""
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    import onnxruntime

    return onnxruntime


def open_session(graph: bytes, where: str) -> Any:
    """A session of one thread; of a graph from elsewhere `check_graph` first."""
    onnxruntime = import_onnxruntime()
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    try:
        return onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime has no common base for its errors
        raise UnseenError(f"onnxruntime cannot run {where}: {first_line(error)}") from None


def check_graph(graph: bytes, where: str) -> None:
    """Refuse a graph that reads other files, asks for operators of somebody else, or may never end."""
    import onnx

    try:
        parts = list(messages(onnx.load_from_string(graph)))
    except Exception as error:  # protobuf's, and any that a forged file provokes
        raise UnseenError(f"{where} is not readable ({first_line(error)})") from None
    for part in parts:
        if isinstance(part, onnx.TensorProto) and (part.external_data or part.data_location):
            raise UnseenError(f"{where} reads another file ({part.name}), which is not allowed")
        if isinstance(part, onnx.NodeProto) and (part.op_type in ENDLESS or part.domain not in DOMAINS):
            raise UnseenError(f"{where} has an operator that is not allowed ({part.domain} {part.op_type})")


def messages(message: Any) -> Iterator[Any]:
    """A protobuf message with all messages in it: in branches and functions too."""
    yield message
    if message.DESCRIPTOR.name == "TensorProto":  # may be large, and holds no others
        return
    for field, value in message.ListFields():
        if field.message_type is not None:
            for part in value if hasattr(value, "__len__") else [value]:
                yield from messages(part)
