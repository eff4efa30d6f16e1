"""ONNX models as networks: `onnx:FILE`. The last linear layer is found in the graph, its input are the features, and
what lies below is what a bundle holds and ONNX Runtime runs. It cannot be finetuned, and there are no heat maps."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from unseen.networks.base import Options
from unseen.networks.custom import does_not_take
from unseen.networks.run import OnnxNetwork, messages
from unseen.photos.transforms import PhotoTransform
from unseen.util.errors import UnseenError
from unseen.util.names import first_line

# What may follow the last linear layer: the order of its scores stays.
AFTERWARDS = {"Softmax", "LogSoftmax", "Sigmoid", "Identity", "Cast", "Flatten", "Reshape", "Squeeze", "Dropout"}
FLOATS = (1, 10, 11)  # single, half and double, by ONNX's numbers


class Head(NamedTuple):
    features: str  # the name of the last linear layer's input
    weight: np.ndarray  # M x D
    bias: np.ndarray  # M


class Input(NamedTuple):
    name: str
    kind: int  # float, by ONNX's numbers
    size: int | None  # pixels; None: any
    channels_last: bool


def load_onnx(file: str, options: Options) -> OnnxNetwork:
    """The model in a file. Photos are prepared as for ImageNet unless `transform` says otherwise: a file does not."""
    import onnx

    where, path = f"onnx:{file}", Path(file)
    if options.weights is not None:
        raise UnseenError(f"{where} has its weights already: omit other weights.")
    if not path.is_file():
        raise UnseenError(f"{where}: there is no such file.")
    try:
        model = onnx.load(path)
        head, photos = find_head(model, options.layer, where), _input_of(model, where)
    except UnseenError:
        raise
    except Exception as error:  # of protobuf, onnx, the file system, or what a forged file claims
        raise UnseenError(f"{where}: is not a readable ONNX model ({first_line(error)}).") from None
    transform = options.transform or PhotoTransform(photos.size or 224)
    if photos.size not in (None, transform.size):
        raise UnseenError(f"{where}: takes photos of {photos.size} pixels, not of {transform.size}.")
    ids = options.class_ids(where, len(head.weight))
    below = _features_of(model, head, photos).SerializeToString(deterministic=True)
    checksum = hashlib.sha256(below + head.weight.tobytes() + head.bias.tobytes()).hexdigest()
    classifiers = np.column_stack([head.weight, head.bias])
    try:
        network = OnnxNetwork(below, f"onnx:{path.resolve()}", ids, transform, checksum, classifiers)
        network.transform_assumed = options.transform is None
        network.features_of(np.zeros((1, 3, transform.size, transform.size), np.float32))
    except UnseenError as error:
        raise UnseenError(does_not_take(where, transform.size, error)) from None
    return network


def find_head(model: Any, layer: str | None = None, where: str = "The model") -> Head:
    """The Gemm, or MatMul and Add, that the scores come from; `layer` names its node where there are several."""
    graph = _Graph(model)
    heads, ends, passed = {}, [], set()
    waiting = [output.name for output in model.graph.output]
    while waiting:
        node = graph.nodes.get(name := waiting.pop(0))
        if node is None or name in passed:
            continue
        passed.add(name)
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
    kind = inputs[0].type.tensor_type.elem_type if len(inputs) == 1 else None
    if kind not in FLOATS or len(shapes[0]) != 4 or 3 not in (shapes[0][1], shapes[0][3]):
        listed = ", ".join(f"{item.name} {shape}" for item, shape in zip(inputs, shapes, strict=True))
        raise UnseenError(f"{where} must take one batch of photos, B x 3 x H x W in floating point; it takes {listed}.")
    channels_last = shapes[0][1] != 3
    height, width = shapes[0][1:3] if channels_last else shapes[0][2:]
    if height != width:
        raise UnseenError(f"{where}: networks for square photos are supported, not for {height} x {width}.")
    return Input(inputs[0].name, kind, height, channels_last)


def _features_of(model: Any, head: Head, photos: Input) -> Any:
    """The model from `photos`, B x 3 x H x W float32, to the features as `features`, float32; a batch of any size."""
    from onnx import NodeProto, TensorProto, compose, helper

    model = compose.add_prefix(model, "network/")
    graph, pixels, features = model.graph, f"network/{photos.name}", f"network/{head.features}"
    wanted, nodes = {features}, [helper.make_node("Cast", [features], ["features"], to=TensorProto.FLOAT)]
    for node in reversed(graph.node):  # which come after those that they need
        if wanted.intersection(node.output):
            nodes.append(node)
            wanted |= {name for part in messages(node) if isinstance(part, NodeProto) for name in part.input}
    order = [0, 2, 3, 1] if photos.channels_last else [0, 1, 2, 3]
    nodes.append(helper.make_node("Cast", ["turned"], [pixels], to=photos.kind))
    nodes.append(helper.make_node("Transpose", ["photos"], ["turned"], perm=order))
    stored = [tensor for tensor in graph.initializer if tensor.name in wanted]
    # Shapes that were noted may be for another batch.
    del graph.value_info[:], graph.output[:], graph.input[:]
    for field, items in ((graph.node, nodes[::-1]), (graph.initializer, stored)):
        items = [type(item).FromString(item.SerializeToString()) for item in items]
        del field[:]
        field.extend(items)
    size = photos.size or "side"
    graph.input.append(helper.make_tensor_value_info("photos", TensorProto.FLOAT, ["batch", 3, size, size]))
    width = head.weight.shape[1]
    graph.output.append(helper.make_tensor_value_info("features", TensorProto.FLOAT, ["batch", width]))
    return model
