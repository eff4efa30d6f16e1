"""ONNX models as networks: small ones, exported by torch or put together by hand."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import nn

import unseen
from support.bundles import SEEN, small_hierarchy
from unseen.networks.loading import load_network
from unseen.photos.transforms import PhotoTransform
from unseen.util.errors import UnseenError

onnxruntime = pytest.importorskip("onnxruntime")
SMALL = PhotoTransform(16)
IDS = ["cat", "dog", "emu"]


class Net(nn.Module):
    def __init__(self, classes: int = 3):
        super().__init__()
        self.conv, self.hidden, self.head = nn.Conv2d(3, 4, 3), nn.Linear(4, 6), nn.Linear(6, classes)

    def features(self, x):
        return torch.relu(self.hidden(self.conv(x).mean((2, 3))))

    def forward(self, x):
        return self.head(self.features(x)).softmax(1)


@pytest.mark.slow
@pytest.mark.parametrize("batch", ["any", "fixed"])
def test_a_network_exported_by_torch(batch, tmp_path):
    options = {"dynamic_shapes": {"x": {0: torch.export.Dim("batch")}}} if batch == "any" else {}
    net, photos = Net().eval(), torch.zeros(2, 3, 16, 16)
    torch.onnx.export(net, (photos,), str(tmp_path / "net.onnx"), dynamo=True, verbose=False, **options)
    network = load_network(f"onnx:{tmp_path / 'net.onnx'}", IDS)
    assert network.transform == SMALL and network.transform_assumed and network.class_ids == tuple(IDS)
    assert network.classifiers().shape == (3, 7)
    x = torch.randn(5, 3, 16, 16)
    features, head = network.features_of(x.numpy()), network.classifiers()
    with torch.no_grad():
        np.testing.assert_allclose(features, net.features(x).numpy(), atol=1e-5)
        scores = torch.from_numpy(features @ head[:, :-1].T + head[:, -1])
        assert torch.allclose(scores.softmax(1), net(x), atol=1e-5)
    assert not load_network(f"onnx:{tmp_path / 'net.onnx'}", IDS, transform=SMALL).transform_assumed
    with pytest.raises(UnseenError, match="of 16 pixels, not of 32"):
        load_network(f"onnx:{tmp_path / 'net.onnx'}", IDS, transform=PhotoTransform(32))


def graph(nodes, arrays, shape=("n", 3, 8, 8), output="scores") -> onnx.ModelProto:
    """A model of these nodes; `photo` goes in."""
    made = helper.make_graph(
        nodes,
        "hand-made",
        [helper.make_tensor_value_info("photo", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(output, TensorProto.FLOAT, ("n", "m"))],
        [numpy_helper.from_array(np.asarray(array, np.float32), name) for name, array in arrays.items()],
    )
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


POOL = [helper.make_node("GlobalAveragePool", ["photo"], ["pooled"]), helper.make_node("Flatten", ["pooled"], ["f"])]
WEIGHT = np.arange(9, dtype=np.float32).reshape(3, 3)  # classes x features


@pytest.mark.parametrize(
    ("head", "arrays", "bias"),
    [
        ([("Gemm", ["f", "w", "b"], {"transB": 1, "alpha": 2.0})], {"w": WEIGHT / 2, "b": [1, 2, 3]}, [1, 2, 3]),
        ([("Gemm", ["f", "w"], {})], {"w": WEIGHT.T}, [0, 0, 0]),
        ([("MatMul", ["f", "w"], {})], {"w": WEIGHT.T}, [0, 0, 0]),
        ([("MatMul", ["f", "w"], {}), ("Add", ["b", "0"], {})], {"w": WEIGHT.T, "b": [1, 2, 3]}, [1, 2, 3]),
        (
            [("Transpose", ["w"], {"perm": [1, 0]}), ("MatMul", ["f", "0"], {}), ("Add", ["1", "b"], {})],
            {"w": WEIGHT, "b": [[1, 2, 3]]},
            [1, 2, 3],
        ),
    ],
)
def test_the_last_linear_layer_is_found(head, arrays, bias, tmp_path):
    nodes = [helper.make_node(kind, given, [str(place)], **set_to) for place, (kind, given, set_to) in enumerate(head)]
    nodes += [helper.make_node("LogSoftmax", [str(len(head) - 1)], ["scores"])]
    onnx.save(graph([*POOL, *nodes], arrays), tmp_path / "net.onnx")
    network = load_network(f"onnx:{tmp_path / 'net.onnx'}", IDS)
    assert np.array_equal(network.classifiers(), np.column_stack([WEIGHT, bias]))
    x = np.random.default_rng(0).random((2, 3, 8, 8), np.float32)
    np.testing.assert_allclose(network.features_of(x), x.mean((2, 3)), atol=1e-6)


def test_channels_may_come_last(tmp_path):
    nodes = [
        helper.make_node("ReduceMean", ["photo"], ["f"], axes=[1, 2], keepdims=0),
        helper.make_node("MatMul", ["f", "w"], ["scores"]),
    ]
    onnx.save(graph(nodes, {"w": WEIGHT.T}, shape=(1, 8, 8, 3)), tmp_path / "net.onnx")
    x = np.random.default_rng(0).random((3, 3, 8, 8), np.float32)
    found = load_network(f"onnx:{tmp_path / 'net.onnx'}", IDS).features_of(x)
    np.testing.assert_allclose(found, x.mean((2, 3)), atol=1e-6)


def two_heads() -> onnx.ModelProto:
    heads = [helper.make_node("MatMul", ["f", name], [f"out-{name}"], name=name) for name in ("one", "two")]
    both = helper.make_node("Concat", ["out-one", "out-two"], ["scores"], axis=1)
    return graph([*POOL, *heads, both], {"one": WEIGHT.T, "two": WEIGHT.T + 1})


def test_a_layer_can_be_named(tmp_path):
    onnx.save(two_heads(), tmp_path / "net.onnx")
    with pytest.raises(UnseenError, match="ends in Concat"):
        load_network(f"onnx:{tmp_path / 'net.onnx'}", IDS)
    found = load_network(f"onnx:{tmp_path / 'net.onnx'}", IDS, layer="two").classifiers()
    assert np.array_equal(found[:, :3], (WEIGHT.T + 1).T)
    with pytest.raises(UnseenError, match="no linear layer named 'three'"):
        load_network(f"onnx:{tmp_path / 'net.onnx'}", IDS, layer="three")


def gemm(**options) -> onnx.ModelProto:
    return graph([*POOL, helper.make_node("Gemm", ["f", "w"], ["scores"], transB=1)], {"w": WEIGHT}, **options)


@pytest.mark.parametrize(
    ("model", "classes", "reason"),
    [
        (lambda: gemm(shape=("n", 3, 8, 6)), IDS, "square photos"),
        (lambda: gemm(shape=("n", 1, 8, 8)), IDS, r"one batch of photos.*it takes photo"),
        (gemm, None, "order of its 3 outputs"),
        (gemm, ["a", "b"], "3 outputs, but 2 class ids"),
        (lambda: graph([helper.make_node("GlobalAveragePool", ["photo"], ["scores"])], {}), IDS, "GlobalAveragePool"),
    ],
)
def test_what_cannot_work_is_refused_with_a_reason(model, classes, reason, tmp_path):
    onnx.save(model(), tmp_path / "net.onnx")
    with pytest.raises(UnseenError, match=reason):
        load_network(f"onnx:{tmp_path / 'net.onnx'}", classes)


def endless() -> onnx.ModelProto:
    """2^62 turns before the features."""
    infos = [helper.make_tensor_value_info(*one, []) for one in (("i", TensorProto.INT64), ("on", TensorProto.BOOL))]
    out = helper.make_tensor_value_info("out", TensorProto.BOOL, [])
    body = helper.make_graph([helper.make_node("Identity", ["on"], ["out"])], "body", infos, [out])
    turns = helper.make_node("Constant", [], ["turns"], value_int=2**62)
    loop = helper.make_node("Loop", ["turns", ""], ["end"], body=body)
    nodes = [turns, loop, *POOL, helper.make_node("Where", ["end", "f", "f"], ["g"])]
    return graph([*nodes, helper.make_node("Gemm", ["g", "w"], ["scores"], transB=1)], {"w": WEIGHT})


def immense() -> onnx.ModelProto:
    """A bias that claims 2^40 numbers."""
    model = graph([*POOL, helper.make_node("Gemm", ["f", "w", "b"], ["scores"])], {"w": WEIGHT, "b": [1, 2, 3]})
    model.graph.initializer[1].dims[:] = [2**40]
    return model


def in_a_circle() -> onnx.ModelProto:
    nodes = [helper.make_node("Identity", ["a"], ["scores"]), helper.make_node("Identity", ["scores"], ["a"])]
    return graph(nodes, {})


@pytest.mark.parametrize(
    ("model", "reason"),
    [(endless, "operator that is not allowed"), (immense, "not a readable ONNX model"), (in_a_circle, "ends in")],
)
def test_a_forged_model_is_refused_in_a_line(model, reason, tmp_path):
    onnx.save(model(), tmp_path / "net.onnx")
    with pytest.raises(UnseenError, match=reason):
        load_network(f"onnx:{tmp_path / 'net.onnx'}", IDS)


def test_files_that_are_no_models(tmp_path):
    (tmp_path / "text.onnx").write_text("hello")
    with pytest.raises(UnseenError, match="not a readable ONNX model"):
        load_network(f"onnx:{tmp_path / 'text.onnx'}", IDS)
    with pytest.raises(UnseenError, match="no such file"):
        load_network(f"onnx:{tmp_path / 'none.onnx'}", IDS)


def test_a_bundle_holds_it_and_needs_the_file_no_more(tmp_path):
    head = helper.make_node("MatMul", ["scaled", "w"], ["scores"])
    nodes = [helper.make_node("Mul", ["f", "scale"], ["scaled"]), head]
    onnx.save(graph([*POOL, *nodes], {"w": np.ones((3, len(SEEN))), "scale": [1, 2, 3]}), tmp_path / "net.onnx")
    network = load_network(f"onnx:{tmp_path / 'net.onnx'}", SEEN)
    unseen.train(small_hierarchy(), network, "structural", "glove", out=tmp_path / "bundle")
    model = onnx.load(tmp_path / "net.onnx")
    scale = next(tensor for tensor in model.graph.initializer if tensor.name == "scale")
    scale.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(scale) + 1, scale.name))
    onnx.save(model, tmp_path / "net.onnx")  # another first layer, the same classifier
    with pytest.raises(UnseenError, match="other weights"):
        unseen.load(tmp_path / "bundle", load_network(f"onnx:{tmp_path / 'net.onnx'}", SEEN))
    (tmp_path / "net.onnx").unlink()
    photo = np.full((224, 224, 3), 90, np.uint8)
    held = unseen.load(tmp_path / "bundle")
    assert held.network.checksum == network.checksum
    np.testing.assert_allclose(held.features(photo), network.features_of(network.transform.open_array(photo)[None]))


@pytest.mark.slow
@pytest.mark.parametrize("shape", [("n", 3, 8, 8), (4, 3, 8, 8), ("n", 8, 8, 3)])
def test_a_model_over_it_is_exported_again(shape, tmp_path):
    first = [] if shape[1] == 3 else [helper.make_node("Transpose", ["photo"], ["turned"], perm=[0, 3, 1, 2])]
    pool = helper.make_node("GlobalAveragePool", ["turned" if first else "photo"], ["pooled"])
    nodes = [*first, pool, POOL[1], helper.make_node("MatMul", ["f", "w"], ["scores"])]
    weights = np.random.default_rng(0).normal(size=(3, len(SEEN)))
    onnx.save(graph(nodes, {"w": weights}, shape), tmp_path / "net.onnx")
    network = load_network(f"onnx:{tmp_path / 'net.onnx'}", SEEN, transform=PhotoTransform(8, resize=8))
    model = unseen.train(small_hierarchy(), network, "kin", "glove")
    written = model.export("onnx", tmp_path / "model.onnx")
    assert written["max_difference"] < 1e-4
    pixels = np.random.default_rng(1).integers(0, 256, (4, 8, 8, 3), np.uint8)
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    probabilities = session.run(["probabilities"], {"photo": pixels.transpose(0, 3, 1, 2).astype(np.float32)})[0]
    np.testing.assert_allclose(probabilities, model.predict_proba(list(pixels)), atol=1e-5)
