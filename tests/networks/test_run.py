"""A bundle holds its network: it answers without torch and without the network's code, and asks nobody for anything."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import nn

import unseen
from support.bundles import SEEN, small_bundle, small_hierarchy, small_network, small_photo
from support.problems import make_hierarchy
from support.tiny_network import build, make_photos
from unseen.bundle import Bundle
from unseen.networks.run import OnnxNetwork
from unseen.networks.translate import translate
from unseen.photos.transforms import PhotoTransform
from unseen.util.errors import UnseenError
from unseen.util.run import Run

ALONE = """
import json, socket, sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "timm", "own_networks"):
            raise ImportError(f"{name} is refused here")

def connect(*arguments):
    raise AssertionError("a connection that nobody asked for")

sys.meta_path.insert(0, Refuse())
socket.socket.connect = socket.socket.connect_ex = connect
import unseen
model = unseen.load("bundle")
print(json.dumps([answer.to_dict() for answer in model.stream(["photo.png"] * 2)]))
"""


def alone(folder: Path, home: Path) -> list[dict]:
    """What a process makes of bundle and photo in a folder, where neither torch nor the network's code is."""
    home.mkdir(exist_ok=True)
    environment = {name: value for name, value in os.environ.items() if name != "ORT_DISABLE_TELEMETRY"}
    environment |= {"HOME": str(home), "UNSEEN_CACHE": str(home / "cache")}
    done = subprocess.run(
        [sys.executable, "-c", ALONE], cwd=folder, env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("kind", ["own", "linear"])
def test_a_bundle_answers_without_torch_and_leaves_no_trace(kind, tmp_path):
    network = small_network()
    if kind == "linear":
        network = unseen.from_linear(np.eye(len(SEEN), 8), None, SEEN, network)
    model = unseen.train(small_hierarchy(), network, "kin", "glove", out=tmp_path / "bundle")
    small_photo().save(tmp_path / "photo.png")
    there = {path.name for path in tmp_path.iterdir()}
    expected = model.classify(tmp_path / "photo.png").to_dict()
    for answer in alone(tmp_path, tmp_path / "home"):
        assert [one["id"] for one in answer["labels"]] == [one["id"] for one in expected["labels"]]
        for one, other in zip(answer["labels"], expected["labels"], strict=True):
            assert one["probability"] == pytest.approx(other["probability"], abs=1e-5)
    written = {path.relative_to(tmp_path / "home").parts[0] for path in (tmp_path / "home").rglob("*")}
    assert written <= {"cache"} and {path.name for path in tmp_path.iterdir()} == there | {"home"}


def test_features_are_torchs_and_depend_on_no_neighbour_or_thread():
    network = small_network()
    ran = OnnxNetwork(translate(network).onnx, "tiny", SEEN, network.transform, "", network.classifiers())
    pixels = np.random.default_rng(0).normal(size=(12, 3, 32, 32)).astype(np.float32)
    features = ran.features_of(pixels)
    np.testing.assert_allclose(features, network.features_of(pixels), atol=1e-6)
    assert np.array_equal(ran.features_of(pixels[5:7]), features[5:7])
    with ThreadPoolExecutor(4) as pool:
        assert all(np.array_equal(part, features) for part in pool.map(ran.features_of, [pixels] * 8))
    assert ran.features_of(pixels[:0]).shape == (0, 8)


@pytest.mark.slow
def test_the_built_in_network_is_plain_convolutions(tmp_path):
    network = unseen.load_network()
    graph = onnx.load_from_string(translate(network).onnx)
    assert not {"BatchNormalization", "Loop", "If"} & {node.op_type for node in graph.graph.node}
    facts = network.name, network.class_ids, network.transform, "", network.classifiers()
    ran = OnnxNetwork(translate(network).onnx, *facts)
    pixels = np.random.default_rng(0).normal(size=(3, 3, 224, 224)).astype(np.float32)
    expected = network.features_of(pixels)
    assert np.abs(ran.features_of(pixels) - expected).max() <= 1e-5 * expected.max()


def test_a_half_precision_network_is_run_in_full_precision():
    network = small_network()
    network.half()
    assert translate(network).onnx is not None


class Stubborn(nn.Module):
    """What no exporter translates rightly: it looks into the numbers of a photo."""

    def __init__(self):
        super().__init__()
        self.head = nn.Linear(3, len(SEEN))

    def forward(self, x):
        means = x.mean((2, 3))
        return self.head(torch.from_numpy(np.sort(means.detach().numpy(), axis=1)))


@pytest.mark.slow
def test_what_cannot_be_translated_answers_features_or_needs_torch(tmp_path, caplog):
    network = unseen.from_module(Stubborn(), SEEN, PhotoTransform(32))
    model = unseen.train(small_hierarchy(), network, "kin", "glove", out=tmp_path / "bundle")
    assert "cannot be turned into an ONNX graph" in caplog.text and "answers rows of features" in caplog.text
    loaded = unseen.load(tmp_path / "bundle")
    assert len(loaded.answers(np.ones((1, 3)))) == 1
    with pytest.raises(UnseenError, match="build it again and pass it"):
        loaded.classify(small_photo())
    again = unseen.load(tmp_path / "bundle", network)
    assert again.classify(small_photo()).labels == model.classify(small_photo()).labels


# -- forged bundles ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def bundle() -> Bundle:
    return small_bundle()


def open_forged(bundle: Bundle, folder: Path, onnx: bytes | None = None, **facts) -> unseen.Model:
    """The bundle with other facts of its network, and another graph, from a file."""
    if onnx is not None:
        facts["onnx"] = hashlib.sha256(onnx).hexdigest()
    forged = bundle.change(network=replace(bundle.network, **facts), onnx=onnx or bundle.onnx)
    forged.save(folder / "forged")
    return unseen.load(folder / "forged")


@pytest.mark.parametrize("checksum", ["/dev/zero", "../../poison/e0", "fifo"])
def test_a_recorded_checksum_is_never_a_path(bundle, checksum, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    os.mkfifo("fifo")  # whoever opens it waits for ever
    model = open_forged(bundle, tmp_path, checksum=checksum)
    assert model.classify(small_photo()).labels == unseen.load(bundle).classify(small_photo()).labels


@pytest.mark.parametrize(
    ("name", "weights"),
    [("hf:evil/model", None), ("timm/resnet18", None), ("onnx:/dev/zero", None), ("linear@hf:evil/model", None)]
    + [("efficientnet-lite0", "/dev/zero"), ("linear:/dev/zero", None)],
)
def test_a_recorded_name_reads_and_downloads_nothing(bundle, name, weights, tmp_path):
    model = open_forged(bundle, tmp_path, name=name, weights=weights)
    assert model.classify(small_photo()).labels
    for work in (lambda: model.heatmap(small_photo(), SEEN[0]), lambda: model.torch_network):
        with pytest.raises(UnseenError, match=r"that whoever made the bundle chose.*trust_code"):
            work()


def test_another_graph_than_the_recorded_one_is_refused(bundle, tmp_path):
    model = open_forged(bundle, tmp_path, onnx=translate(small_network(seed=1)).onnx, checksum="0" * 64)
    model.classify(small_photo())  # forged with all its checksums, it is a bundle of its own
    with pytest.raises(UnseenError, match="holds another network than it says"):
        open_forged(bundle, tmp_path / "other").bundle.change(onnx=b"other").open_network()


@pytest.mark.parametrize("facts", [{"class_ids": ["a"] * 6}, {"below": {"path": "/etc"}}, {"transform": {"file": 1}}])
def test_facts_that_do_not_fit_are_refused_in_a_line(bundle, facts, tmp_path):
    with pytest.raises(UnseenError, match="its network"):
        open_forged(bundle, tmp_path, **facts).classify(small_photo())


def graph(*nodes, external: bool = False) -> bytes:
    """A graph photos -> features with a constant `w`."""
    constant = numpy_helper.from_array(np.ones((1, 8), np.float32), "w")
    if external:
        constant.ClearField("raw_data")
        constant.data_location = TensorProto.EXTERNAL
        constant.external_data.add(key="location", value="../secret")
    infos = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in (("photos", ("n", 3, 32, 32)), ("features", ("n", 8)))
    ]
    made = helper.make_graph(nodes or [helper.make_node("Identity", ["w"], ["features"])], "g", *[[i] for i in infos])
    made.initializer.append(constant)
    domains = [helper.make_opsetid("", 17), helper.make_opsetid("evil", 1)]
    return helper.make_model(made, opset_imports=domains, ir_version=9).SerializeToString()


def loop() -> bytes:
    """2^62 turns."""
    turns = helper.make_node("Constant", [], ["turns"], value_int=2**62)
    ints = [helper.make_tensor_value_info("i", TensorProto.INT64, [])]
    bools = [helper.make_tensor_value_info(name, TensorProto.BOOL, []) for name in ("on", "on_out")]
    body = helper.make_graph([helper.make_node("Identity", ["on"], ["on_out"])], "body", ints + bools[:1], bools[1:])
    branch = helper.make_graph([helper.make_node("Loop", ["turns", ""], [], body=body)], "branch", [], [])
    yes = helper.make_node("Constant", [], ["yes"], value_int=1)
    inside = helper.make_node("If", ["yes"], [], then_branch=branch, else_branch=branch)
    return graph(turns, yes, inside, helper.make_node("Identity", ["w"], ["features"]))


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"no graph", "is not readable|cannot run"),
        (graph(external=True), "reads another file"),
        (loop(), "an operator that is not allowed"),
        (graph(helper.make_node("Steal", ["w"], ["features"], domain="evil")), "an operator that is not allowed"),
        (graph(helper.make_node("Concat", ["w", "w"], ["features"], axis=1)), "gives .* for a photo, not 8 features"),
        (graph(helper.make_node("Sin", ["photos"], ["other"])), "cannot run"),
    ],
)
def test_a_forged_graph_is_refused_in_a_line(bundle, content, reason, tmp_path):
    model = open_forged(bundle, tmp_path, onnx=content)
    with pytest.raises(UnseenError, match=reason):
        model.classify(small_photo())


def test_a_finetuned_bundle_holds_the_finetuned_network(tmp_path):
    photos, network = make_photos(tmp_path / "photos", a_class=2), build()
    model = unseen.train(make_hierarchy(), network, "structural", "glove")
    before = model.features(small_photo())
    model.finetune(photos, unseen.FinetuneSettings(epochs=1, learning_rate=0.1), run=Run(show_progress=False))
    tuned = unseen.load(model.save(tmp_path / "tuned")).features(small_photo())
    assert np.abs(tuned - before).max() > 1e-3 and np.array_equal(tuned, model.features(small_photo()))
    pixels = network.transform.open_array(small_photo())[None]
    np.testing.assert_allclose(tuned, model.torch_network.features_of(pixels), atol=1e-5)
