"""What is taken away scores photos as the bundle does, without this package."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from support.bundles import OKAPI, SEEN, small_bundle, small_network, small_photo
from unseen.apps.web import sample_photos
from unseen.bundle.records import CalibrationRecord, ProbabilityNumbers
from unseen.export.to_onnx import head_graph
from unseen.model import Model
from unseen.networks.loading import load_network
from unseen.networks.run import open_session
from unseen.networks.store import SeenFeatures
from unseen.util.errors import UnseenError

PHOTOS = [small_photo(seed) for seed in range(3)]
NUMBERS = ProbabilityNumbers(1.2, 1.9, 0.1, 0.7, 1.0, 0.5, 0.2, (0.6, 1.0, 1.7, 3.1, 7.7, 18.0, 55.0))


def small_model(method: str = "kin", **options) -> Model:
    return Model(small_bundle(method, **options), small_network(), device="cpu")


@pytest.fixture(scope="module")
def model() -> Model:
    return small_model()


@pytest.fixture(scope="module")
def lite() -> Model:
    """The built-in network with classes near the seen ones."""
    network = load_network()
    return Model(small_bundle("structural", hierarchy="imagenet", network=network), network, device="cpu")


@pytest.fixture(scope="module")
def onnx_file(lite, tmp_path_factory) -> Path:
    pytest.importorskip("onnxruntime", reason="the extra `onnx` is not installed")
    out = tmp_path_factory.mktemp("onnx") / "lite.onnx"
    result = lite.export("onnx", out, candidates="hops:1")
    assert result["max_difference"] <= 1e-4 and result["bytes"] == out.stat().st_size
    return out


def pixels(model: Model, photos) -> np.ndarray:
    """Photos resized and cropped as the network wants them, still 0..255: B x 3 x H x W."""
    transform = model.network.transform
    mean, std = (torch.tensor(values).view(3, 1, 1) for values in (transform.mean, transform.std))
    return torch.stack([(transform.open(photo) * std + mean) * 255 for photo in photos]).numpy()


def relative(found: np.ndarray, expected: np.ndarray) -> float:
    """The largest difference as a share of the largest score."""
    return float(np.abs(found - expected).max() / np.abs(expected).max())


def run_onnx(path: Path, photos: np.ndarray) -> tuple[np.ndarray, dict[str, str]]:
    onnxruntime = pytest.importorskip("onnxruntime", reason="the extra `onnx` is not installed")
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return session.run(["scores"], {"photo": photos})[0], session.get_modelmeta().custom_metadata_map


# -- ONNX ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_onnx_agrees_with_torch_on_photos(lite, onnx_file):
    """To 1e-4, as a share of the largest score and absolutely on cosines; any number of photos at a time."""
    features = lite.features(sample_photos())
    expected = lite.scores(features, "hops:1")
    found, about = run_onnx(onnx_file, pixels(lite, sample_photos()))
    assert relative(found, expected) <= 1e-4
    lengths = np.linalg.norm(np.pad(features, ((0, 0), (0, 1)), constant_values=1), axis=1, keepdims=True)
    assert np.abs(found / lengths - expected / lengths).max() <= 1e-4
    assert np.array_equal(found.argmax(1), expected.argmax(1))
    one, _ = run_onnx(onnx_file, pixels(lite, sample_photos()[:1]))
    assert relative(one, expected[:1]) <= 1e-4
    labels = json.loads(about["labels"])
    assert [label["id"] for label in labels] == [lite.bundle.ids[row] for row in lite.candidates("hops:1")]
    assert not any(label["seen"] for label in labels)
    assert json.loads(about["transform"])["resize"] == 256 and about["network"] == "efficientnet-lite0"


@pytest.mark.slow
@pytest.mark.parametrize("method", ["conse", "exem"])
def test_onnx_of_other_projections(method, tmp_path):
    pytest.importorskip("onnxruntime", reason="the extra `onnx` is not installed")
    labels = np.arange(60) % len(SEEN)
    features = SeenFeatures(np.random.default_rng(0).normal(size=(60, 8)).astype(np.float32), labels)
    model = small_model(method, features=features)
    model.export("onnx", tmp_path / "m.onnx")
    scores = model.scores(model.features(PHOTOS))
    assert relative(run_onnx(tmp_path / "m.onnx", pixels(model, PHOTOS))[0], scores[:, np.isfinite(scores[0])]) < 1e-4


@pytest.mark.slow
def test_half_precision_onnx_keeps_the_answers(model, tmp_path):
    pytest.importorskip("onnxruntime", reason="the extra `onnx` is not installed")
    result = model.export("onnx", tmp_path / "m.onnx", half=True)
    assert 1e-6 < result["max_difference"] < 5e-3  # rounded, but not by much
    expected = model.scores(model.features(PHOTOS))
    assert relative(run_onnx(tmp_path / "m.onnx", pixels(model, PHOTOS))[0], expected) < 5e-3
    import onnx

    stored = {tensor.data_type for tensor in onnx.load(tmp_path / "m.onnx").graph.initializer if len(tensor.dims) > 1}
    assert onnx.TensorProto.FLOAT not in stored and onnx.TensorProto.FLOAT16 in stored


@pytest.mark.slow
def test_a_file_that_disagrees_is_not_left_behind(model, tmp_path, monkeypatch):
    pytest.importorskip("onnxruntime", reason="the extra `onnx` is not installed")
    monkeypatch.setattr("unseen.export.to_onnx.TOLERANCE", {False: -1.0})
    with pytest.raises(UnseenError, match=r"disagrees with unseen by .* of the largest number: not written"):
        model.export("onnx", tmp_path / "m.onnx")
    assert list(tmp_path.iterdir()) == []


# -- mistakes ------------------------------------------------------------------------------------------------------


def test_mistakes_are_told(model, tmp_path):
    with pytest.raises(UnseenError, match="no export to 'tflite'; there are: onnx, web"):
        model.export("tflite", tmp_path / "m")
    with pytest.raises(UnseenError, match="no candidates named 'none'"):
        model.export("onnx", tmp_path / "m", candidates="none")
    with pytest.raises(UnseenError, match="network has an answer for none of these classes"):
        small_model("network").export("onnx", tmp_path / "m", candidates="unseen")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "m").write_text("mine")
    with pytest.raises(UnseenError, match="exists: choose another name"):
        model.export("onnx", tmp_path / "m")


@pytest.mark.parametrize("numbers", [None, NUMBERS])
def test_the_scorer_does_all_that_the_model_does(model, numbers):
    record = CalibrationRecord(probability=numbers)
    model = Model(model.bundle.change(calibration=record), model.network, device="cpu")
    features = model.features(PHOTOS)
    session = open_session(
        head_graph(model.bundle, model.scorer(), model.candidates("any")).SerializeToString(), "the graph"
    )
    scores, probabilities = session.run(["scores", "probabilities"], {"features": features})
    assert relative(scores, model.scores(features)) < 1e-5
    assert model.scorer().calibrated == (numbers is not None)
    np.testing.assert_allclose(probabilities, model.predict_proba(features=features), atol=1e-5)


def test_a_list_answers_in_the_file_as_it_does_here(model, tmp_path):
    among = model.among([SEEN[0], OKAPI, "zebra"])
    among.export("onnx", tmp_path / "m.onnx")
    session = open_session((tmp_path / "m.onnx").read_bytes(), "the file")
    (found,) = session.run(["probabilities"], {"photo": pixels(model, PHOTOS)})
    np.testing.assert_allclose(found, among.predict_proba(PHOTOS), atol=1e-5)


# -- the consumers in docs/export.md -------------------------------------------------------------------------------

PAGE = Path(__file__).resolve().parents[2] / "docs" / "export.md"


def run_consumer(kind: str, folder: Path, *without: str) -> list[tuple[str, str, float]]:
    """Run the page's script of that kind in a folder that holds its files; what it prints: name, id, score."""
    (script,) = re.findall(rf"```python {kind}\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    assert len([line for line in script.splitlines() if line.strip()]) <= 17
    script += f"\nimport sys\nassert not {set(without)!r} & set(sys.modules), 'not without it'\n"
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", script], capture_output=True, text=True, cwd=folder)
    assert done.returncode == 0, done.stderr
    lines = [line.rsplit(" ", 2) for line in done.stdout.splitlines()]
    return [(name, id, float(score)) for name, id, score in lines]


def check_consumer(found, model: Model, photo, candidates: str = "any") -> None:
    expected = {label.id: label for label in model.classify(photo, k=10, candidates=candidates, prior="uniform")}
    assert len(found) == 5 and found[0][1] == next(iter(expected))
    for name, id, score in found:
        assert expected[id].name == name and score == pytest.approx(expected[id].score, rel=0.02)


@pytest.fixture
def photo_folder(tmp_path) -> Path:
    """With a photo that is not square, so that cropping counts."""
    (tmp_path / "photo.jpg").write_bytes(next(path for path in sample_photos() if path.stem == "cat").read_bytes())
    return tmp_path


@pytest.mark.slow
def test_the_onnx_consumer(lite, onnx_file, photo_folder):
    (photo_folder / "model.onnx").write_bytes(onnx_file.read_bytes())
    found = run_consumer("onnx", photo_folder, "unseen", "torch")
    expected = lite.predict_proba([photo_folder / "photo.jpg"], "hops:1")[0]
    of = dict(zip([lite.bundle.ids[row] for row in lite.candidates("hops:1")], expected.tolist(), strict=True))
    assert [p for _, _, p in found] == pytest.approx(sorted(of.values(), reverse=True)[:5], abs=1e-3)
    assert [of[id] for _, id, _ in found] == pytest.approx([p for _, _, p in found], abs=1e-3)  # some classes tie


@pytest.mark.slow
def test_the_verdict_in_numpy(lite, onnx_file, photo_folder):
    """The page's lines give the verdict that `classify` gives."""
    (photo_folder / "model.onnx").write_bytes(onnx_file.read_bytes())
    parts = [
        re.findall(rf"```python {kind}\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)[0] for kind in ("onnx", "verdict")
    ]
    done = subprocess.run([sys.executable, "-c", "".join(parts)], capture_output=True, text=True, cwd=photo_folder)
    assert done.returncode == 0, done.stderr
    name, _, probability = done.stdout.splitlines()[-1].rpartition(" ")
    verdict = lite.classify(photo_folder / "photo.jpg", candidates="hops:1").verdict
    assert name == (verdict.say or "don't know") and float(probability) == pytest.approx(verdict.probability, abs=0.05)
