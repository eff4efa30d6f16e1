"""ONNX models as networks (an extra): `onnx:FILE`. The last linear layer is found in the graph, its input are the
features, and onnxruntime computes them; the model cannot be finetuned."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from unseen.networks.base import LayerModule, Network, Options
from unseen.networks.custom import does_not_take
from unseen.networks.model_zoos import import_extra
from unseen.photos.transforms import PhotoTransform
from unseen.util.errors import UnseenError
from unseen.util.names import first_line

# What may follow the last linear layer: the order of its scores stays.
AFTERWARDS = {"Softmax", "LogSoftmax", "Sigmoid", "Identity", "Cast", "Flatten", "Reshape", "Squeeze", "Dropout"}
DTYPES = {1: np.float32, 10: np.float16, 11: np.float64}  # by ONNX's numbers


class Head(NamedTuple):
    features: str  # the name of the last linear layer's input
    weight: np.ndarray  # M x D
    bias: np.ndarray  # M


class Input(NamedTuple):
    name: str
    dtype: Any  # of NumPy
    batch: int | None  # None: any number of photos
    size: int | None  # pixels; None: any
    channels_last: bool


class OnnxModule(LayerModule):
    """Photos B x 3 x H x W -> features B x D, by onnxruntime; and the linear layer in torch."""

    def __init__(self, model: Any, head: Head, photos: Input):
        super().__init__(head.weight.shape[1], len(head.weight))
        self.layer.weight.data, self.layer.bias.data = (torch.from_numpy(part.copy()) for part in head[1:])
        self.photos, self.output = photos, head.features
        self._below = _up_to(model, head.features)
        content = self._below.SerializeToString(deterministic=True)
        digest = bytearray(hashlib.sha256(content).digest())  # so that the checksum tells one file from another
        self.register_buffer("file", torch.frombuffer(digest, dtype=torch.uint8))
        self.session = _session(content)

    def forward_features(self, x: Tensor) -> Tensor:
        pixels = x.detach().cpu().numpy().astype(self.photos.dtype)
        if self.photos.channels_last:
            pixels = np.ascontiguousarray(pixels.transpose(0, 2, 3, 1))
        count, batch = len(pixels), self.photos.batch or len(pixels)
        padding = -count % batch  # a model for batches of one size: the last one is filled up
        pixels = np.concatenate([pixels, np.zeros((padding, *pixels.shape[1:]), pixels.dtype)])
        parts = [pixels[start : start + batch] for start in range(0, len(pixels), batch)]
        features = [self.session.run([self.output], {self.photos.name: part})[0] for part in parts]
        return torch.from_numpy(np.concatenate(features)[:count]).to(x.device, x.dtype)

    def between(self, first: Any, rest: Any) -> Any:
        """An ONNX model: `first` on photos, then this network, then `rest` on its features; both are ONNX models."""
        from onnx import compose, version_converter

        version = next(one.version for one in rest.opset_import if not one.domain)
        below = compose.add_prefix(version_converter.convert_version(self._below, version), "network/")
        first = compose.add_prefix(first, "photo/", rename_inputs=False)
        below.ir_version = first.ir_version = rest.ir_version
        pixels, features = below.graph.input[0].name, below.graph.output[0].name
        below = compose.merge_models(first, below, io_map=[(first.graph.output[0].name, pixels)])
        return compose.merge_models(below, rest, io_map=[(features, rest.graph.input[0].name)])


def load_onnx(file: str, options: Options) -> Network:
    """The model in a file. Photos are prepared as for ImageNet unless `transform` says otherwise: a file does not."""
    where, path = f"onnx:{file}", Path(file)
    onnx = import_extra("onnx", "onnx", where)
    import_extra("onnxruntime", "onnx", where)
    if options.weights is not None:
        raise UnseenError(f"{where} has its weights already: omit other weights.")
    if not path.is_file():
        raise UnseenError(f"{where}: there is no such file.")
    try:
        model = onnx.load(path)
    except Exception as error:  # of protobuf, onnx or the file system
        raise UnseenError(f"{where}: is not a readable ONNX model ({first_line(error)}).") from None
    if not model.graph.node:
        raise UnseenError(f"{where}: is not a readable ONNX model (it has no nodes).")
    head, photos = find_head(model, options.layer, where), _input_of(model, where)
    transform = options.transform or PhotoTransform(photos.size or 224)
    if photos.size not in (None, transform.size):
        raise UnseenError(f"{where}: takes photos of {photos.size} pixels, not of {transform.size}.")
    ids = options.class_ids(where, len(head.weight))
    network = Network(OnnxModule(model, head, photos), ids, transform, f"onnx:{path.resolve()}")
    network.transform_assumed = options.transform is None
    try:
        shape = tuple(network.features(torch.zeros(2, 3, transform.size, transform.size)).shape)
    except Exception as error:  # onnxruntime's
        raise UnseenError(does_not_take(where, transform.size, error)) from None
    if shape != (2, network.num_features):
        raise UnseenError(f"{where}: its last linear layer takes {shape} for two photos, not one row for each.")
    return network


def find_head(model: Any, layer: str | None = None, where: str = "The model") -> Head:
    """The Gemm, or MatMul and Add, that the scores come from; `layer` names its node where there are several."""
    graph = _Graph(model)
    heads, ends = {}, []
    waiting = [output.name for output in model.graph.output]
    while waiting:
        node = graph.nodes.get(waiting.pop(0))
        if node is None:
            continue
        head, name = graph.linear(node), node.name or node.output[0]
        if head is not None and layer in (None, node.name):
            heads[name] = head
        elif layer is not None or node.op_type in AFTERWARDS:
            waiting += node.input if layer is not None else node.input[:1]
        else:
            ends.append(f"{node.op_type} ({name})")
    if not heads:
        problem = f"has no linear layer named {layer!r}" if layer else f"ends in {', '.join(ends) or 'nothing'}"
        raise UnseenError(f"{where} {problem}, not in a linear layer (Gemm, or MatMul and Add, with constant weights).")
    if len(heads) > 1:
        raise UnseenError(f"{where} ends in several linear layers: {', '.join(map(repr, heads))}. Name one of them.")
    return next(iter(heads.values()))


class _Graph:
    def __init__(self, model: Any):
        from onnx import numpy_helper

        self.to_array = numpy_helper.to_array
        self.nodes = {output: node for node in model.graph.node for output in node.output}
        self.stored = {tensor.name: tensor for tensor in model.graph.initializer}

    def linear(self, node: Any) -> Head | None:
        """The linear layer that ends in this node, if it is one with constant weights."""
        product, bias, options = node, np.zeros(1), {}
        if node.op_type == "Gemm":
            options = {item.name: item.f if item.name in ("alpha", "beta") else item.i for item in node.attribute}
            bias = self.constant(node.input[2]) if len(node.input) > 2 else bias
        elif node.op_type == "Add":
            constants = {name: self.constant(name) for name in node.input}
            bias = next((array for array in constants.values() if array is not None), None)
            product = next((self.nodes.get(name) for name, array in constants.items() if array is None), None)
        kind = "Gemm" if product is node and node.op_type == "Gemm" else "MatMul"
        if bias is None or product is None or product.op_type != kind or options.get("transA"):
            return None
        weight = self.constant(product.input[1])
        if weight is None or weight.ndim != 2:
            return None
        weight = np.asarray((weight if options.get("transB") else weight.T) * options.get("alpha", 1.0), np.float32)
        bias = np.asarray(bias * options.get("beta", 1.0), np.float32).reshape(-1)
        if len(bias) not in (1, len(weight)):
            return None
        return Head(product.input[0], np.ascontiguousarray(weight), np.broadcast_to(bias, (len(weight),)))

    def constant(self, name: str) -> np.ndarray | None:
        """The array of that name, if it does not depend on the photo."""
        if name in self.stored:
            return self.to_array(self.stored[name])
        node: Any = self.nodes.get(name)
        kind = node.op_type if node else None
        if kind == "Constant":
            return self.to_array(node.attribute[0].t) if node.attribute[0].HasField("t") else None
        if kind not in ("Identity", "Cast", "Transpose"):
            return None
        array = self.constant(node.input[0])
        if kind != "Transpose" or array is None:
            return array
        return array.T if array.ndim == 2 else None


def _input_of(model: Any, where: str) -> Input:
    stored = {tensor.name for tensor in model.graph.initializer}
    inputs = [item for item in model.graph.input if item.name not in stored]
    shapes = [[side.dim_value or None for side in item.type.tensor_type.shape.dim] for item in inputs]
    dtype = DTYPES.get(inputs[0].type.tensor_type.elem_type) if len(inputs) == 1 else None
    if dtype is None or len(shapes[0]) != 4 or 3 not in (shapes[0][1], shapes[0][3]):
        listed = ", ".join(f"{item.name} {shape}" for item, shape in zip(inputs, shapes, strict=True))
        raise UnseenError(f"{where} must take one batch of photos, B x 3 x H x W in floating point; it takes {listed}.")
    batch, *sides = shapes[0]
    channels_last = sides[0] != 3
    height, width = sides[:2] if channels_last else sides[1:]
    if height != width:
        raise UnseenError(f"{where}: networks for square photos are supported, not for {height} x {width}.")
    return Input(inputs[0].name, dtype, batch, height, channels_last)


def _up_to(model: Any, features: str) -> Any:
    """The model with the features as its only output."""
    cut = type(model)()
    cut.CopyFrom(model)
    del cut.graph.output[:]
    output = cut.graph.output.add(name=features)
    for item in model.graph.value_info:
        if item.name == features:
            output.CopyFrom(item)
    return cut


def _session(content: bytes) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # errors: a warning would name the nodes above the features
    options.intra_op_num_threads = torch.get_num_threads()
    try:
        return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime has no common base for its errors
        raise UnseenError(f"onnxruntime cannot run the model: {first_line(error)}") from None
