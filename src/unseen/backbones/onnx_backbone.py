"""ONNX models as networks (an extra): `onnx:FILE`. The last linear layer is found in the graph, its input are the
features, and onnxruntime computes them; the model cannot be finetuned."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from unseen.assets import imagenet_1k
from unseen.backbones.base import Backbone
from unseen.backbones.hub import import_extra
from unseen.errors import UnseenError
from unseen.photos.transforms import PhotoTransform

# What may follow the last linear layer: the order of its scores stays.
AFTERWARDS = {"Softmax", "LogSoftmax", "Sigmoid", "Identity", "Cast", "Flatten", "Reshape", "Squeeze", "Dropout"}


class Head(NamedTuple):
    """The last linear layer of a graph."""

    features: str  # the name of its input
    weight: np.ndarray  # M x D
    bias: np.ndarray  # M


class Input(NamedTuple):
    """What the model takes."""

    name: str
    dtype: Any  # of NumPy
    batch: int | None  # None: any number of photos
    size: int | None  # pixels; None: any
    channels_last: bool


class OnnxModule(nn.Module):
    """Photos B x 3 x H x W -> features B x D, by onnxruntime; and the linear layer as torch knows it."""

    file: Tensor

    def __init__(self, model: Any, head: Head, given: Input):
        super().__init__()
        self.layer = nn.Linear(head.weight.shape[1], len(head.weight))
        self.layer.weight.data, self.layer.bias.data = (torch.from_numpy(part.copy()) for part in head[1:])
        self.given, self.wanted = given, head.features
        content = _cut(model, head)
        # The weights below the head are onnxruntime's: this tells one file from another.
        digest = hashlib.sha256(content).digest()
        self.register_buffer("file", torch.frombuffer(bytearray(digest), dtype=torch.uint8))
        self.session = _session(content)

    def forward_features(self, x: Tensor) -> Tensor:
        pixels = x.detach().cpu().numpy()
        if self.given.channels_last:
            pixels = np.ascontiguousarray(pixels.transpose(0, 2, 3, 1))
        step = self.given.batch or len(pixels)
        found = [self._run(pixels[start : start + step]) for start in range(0, len(pixels), step)]
        return torch.from_numpy(np.concatenate(found)).to(x.device, x.dtype)

    def _run(self, pixels: np.ndarray) -> np.ndarray:
        count, wanted = len(pixels), self.given.batch or len(pixels)
        if count < wanted:  # a model for batches of one size: the last one is filled up
            pixels = np.concatenate([pixels, np.zeros((wanted - count, *pixels.shape[1:]), pixels.dtype)])
        (found,) = self.session.run([self.wanted], {self.given.name: pixels.astype(self.given.dtype)})
        return np.asarray(found, np.float32)[:count]

    def forward_head(self, x: Tensor, pre_logits: bool = False) -> Tensor:
        return x if pre_logits else self.layer(x)

    def get_classifier(self) -> nn.Linear:
        return self.layer


def load_onnx(
    file: str, classes: Sequence[str] | None, layer: str | None, transform: PhotoTransform | None
) -> Backbone:
    """The model in a file. Photos are prepared as for ImageNet unless `transform` says otherwise: a file does not."""
    onnx = import_extra("onnx", "onnx", f"onnx:{file}")
    import_extra("onnxruntime", "onnx", f"onnx:{file}")
    path = Path(file)
    if not path.is_file():
        raise UnseenError(f"onnx:{file}: there is no such file.")
    try:
        model = onnx.load(path)
    except Exception as error:  # protobuf, onnx and the file system each have errors of their own
        why = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise UnseenError(f"onnx:{file}: is not a readable ONNX model ({why}).") from None
    if not model.graph.node:
        raise UnseenError(f"onnx:{file}: is not a readable ONNX model (it has no nodes).")
    head, given = find_head(model, layer, f"onnx:{file}"), _input_of(model, f"onnx:{file}")
    if classes is None:
        if len(head.weight) != len(imagenet_1k()):
            raise UnseenError(
                f"onnx:{file}: say which classes it knows, in the order of its {len(head.weight)} outputs, with "
                "classes=...",
                "classes=...",
            )
        classes = imagenet_1k()
    assumed = transform is None
    transform = PhotoTransform(given.size or 224) if transform is None else transform
    if given.size not in (None, transform.size):
        raise UnseenError(f"onnx:{file}: takes photos of {given.size} pixels, not of {transform.size}.")
    backbone = Backbone(OnnxModule(model, head, given), classes, transform, f"onnx:{path.resolve()}")
    backbone.transform_assumed = assumed
    _try(backbone, f"onnx:{file}")
    return backbone


def find_head(model: Any, layer: str | None = None, where: str = "The model") -> Head:
    """The Gemm, or MatMul and Add, that the scores come from; `layer` names its node where there are several."""
    graph = _Graph(model)
    found, met = [], []
    waiting = [output.name for output in model.graph.output]
    while waiting:
        node = graph.maker.get(waiting.pop(0))
        if node is None:
            continue
        head = graph.linear(node)
        if head is not None and (layer is None or layer == node.name):
            found.append((node.name or node.output[0], head))
        elif node.op_type in AFTERWARDS or layer is not None:
            waiting += list(node.input) if layer is not None else [node.input[0]]
        else:
            met.append(f"{node.op_type} ({node.name or node.output[0]})")
    if not found:
        what = f"has no linear layer named {layer!r}" if layer else f"ends in {', '.join(met) or 'nothing'}"
        raise UnseenError(
            f"{where} {what}, not in a linear layer (Gemm, or MatMul and Add, with constant weights). Predicted "
            "classifiers are weights of one."
        )
    if len({name for name, _ in found}) > 1:
        names = ", ".join(repr(name) for name, _ in found)
        raise UnseenError(f"{where} ends in several linear layers: {names}. Name one with layer=...", "layer=...")
    return found[0][1]


class _Graph:
    def __init__(self, model: Any):
        from onnx import numpy_helper

        self.to_array = numpy_helper.to_array
        self.maker = {output: node for node in model.graph.node for output in node.output}
        self.stored = {tensor.name: tensor for tensor in model.graph.initializer}

    def linear(self, node: Any) -> Head | None:
        if node.op_type == "Gemm":
            return self._gemm(node)
        if node.op_type == "MatMul":
            return self._matmul(node, None)
        if node.op_type == "Add":
            for one, other in ((0, 1), (1, 0)):
                product, bias = self.maker.get(node.input[one]), self.constant(node.input[other])
                if product is not None and product.op_type == "MatMul" and bias is not None:
                    return self._matmul(product, bias)
        return None

    def _gemm(self, node: Any) -> Head | None:
        set_to = {item.name: item.f if item.name in ("alpha", "beta") else item.i for item in node.attribute}
        weight = self.constant(node.input[1])
        bias = self.constant(node.input[2]) if len(node.input) > 2 else np.zeros(1)
        if weight is None or bias is None or set_to.get("transA"):
            return None
        weight = weight if set_to.get("transB") else weight.T
        return _head(node.input[0], weight * set_to.get("alpha", 1.0), bias * set_to.get("beta", 1.0))

    def _matmul(self, node: Any, bias: np.ndarray | None) -> Head | None:
        weight = self.constant(node.input[1])
        return None if weight is None or weight.ndim != 2 else _head(node.input[0], weight.T, bias)

    def constant(self, name: str) -> np.ndarray | None:
        """The array of that name, if it does not depend on the photo."""
        if name in self.stored:
            return self.to_array(self.stored[name])
        node = self.maker.get(name)
        if node is None:
            return None
        if node.op_type == "Constant":
            return self.to_array(node.attribute[0].t) if node.attribute[0].HasField("t") else None
        if node.op_type in ("Identity", "Cast"):
            return self.constant(node.input[0])
        if node.op_type == "Transpose":
            inner = self.constant(node.input[0])
            return None if inner is None or inner.ndim != 2 else inner.T
        return None


def _head(features: str, weight: np.ndarray, bias: np.ndarray | None) -> Head | None:
    weight = np.asarray(weight, np.float32)
    bias = np.zeros(1, np.float32) if bias is None else np.asarray(bias, np.float32)
    if weight.ndim != 2 or bias.size not in (1, len(weight)):
        return None
    return Head(features, np.ascontiguousarray(weight), np.broadcast_to(bias.reshape(-1), (len(weight),)))


def _input_of(model: Any, where: str) -> Input:
    stored = {tensor.name for tensor in model.graph.initializer}
    given = [item for item in model.graph.input if item.name not in stored]
    types = {1: np.float32, 10: np.float16, 11: np.float64}
    kind = given[0].type.tensor_type if len(given) == 1 else None
    shape = [] if kind is None else [item.dim_value or None for item in kind.shape.dim]
    if kind is None or len(shape) != 4 or 3 not in (shape[1], shape[3]) or kind.elem_type not in types:
        shapes = [[d.dim_value or "?" for d in item.type.tensor_type.shape.dim] for item in given]
        listed = ", ".join(f"{item.name} {shape}" for item, shape in zip(given, shapes, strict=True))
        raise UnseenError(f"{where} must take one batch of photos, B x 3 x H x W in floating point; it takes {listed}.")
    channels_last = shape[1] != 3
    height, width = shape[1:3] if channels_last else shape[2:]
    if height != width:
        raise UnseenError(f"{where}: networks for square photos are supported, not for {height} x {width}.")
    return Input(given[0].name, types[kind.elem_type], shape[0], height, channels_last)


def _cut(model: Any, head: Head) -> bytes:
    """The graph up to the features, whose only output they are."""
    from onnx import ModelProto, ValueInfoProto

    cut = ModelProto()
    cut.CopyFrom(model)
    kind = next((item.type for item in model.graph.value_info if item.name == head.features), None)
    del cut.graph.output[:]
    output = ValueInfoProto(name=head.features)
    if kind is not None:
        output.type.CopyFrom(kind)
    cut.graph.output.append(output)
    return cut.SerializeToString(deterministic=True)


def _session(content: bytes) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # what is above the features is not needed, and need not be told
    options.intra_op_num_threads = torch.get_num_threads()
    try:
        return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise UnseenError(f"onnxruntime cannot run the model: {str(error).strip().splitlines()[0]}") from None


def _try(backbone: Backbone, where: str) -> None:
    size = backbone.transform.size
    try:
        shape = tuple(backbone.features(torch.zeros(2, 3, size, size)).shape)
    except UnseenError:
        raise
    except Exception as error:
        raise UnseenError(
            f"{where} does not take photos of 3 x {size} x {size}: {str(error).strip().splitlines()[0]}. "
            "Say what it expects with transform=PhotoTransform(size)."
        ) from None
    if shape != (2, backbone.num_features):
        raise UnseenError(f"{where}: its last linear layer is given {shape} for two photos, not one row for each.")
