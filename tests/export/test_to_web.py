"""The folder for the browser: what is in it, what 8 bits cost, and that its scripts do what `unseen classify` does."""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from support.bundles import small_bundle, small_network, small_photo
from unseen.answers.answer import Label, fold
from unseen.answers.probability import (
    CONFIDENCE,
    LIKELY,
    SURE,
    NodeSums,
    exponent,
    node_probabilities,
    select_verdicts,
)
from unseen.answers.words import training_in_words, with_article, words_of
from unseen.bundle.records import CalibrationRecord, ProbabilityNumbers
from unseen.export import to_web
from unseen.export.to_onnx import _hierarchy, _verdict_rule
from unseen.hierarchy.core import Hierarchy
from unseen.model import Model
from unseen.networks.base import Network
from unseen.photos.transforms import PhotoTransform
from unseen.util.errors import UnseenError

PHOTOS = [small_photo(seed) for seed in range(3)]
NUMBERS = ProbabilityNumbers(1.2, 1.9, 0.1, 0.7, 1.0, 0.5, 0.2, (0.6, 1.0, 1.7, 3.1, 7.7, 18.0, 55.0), 0.004, 0.9, 0.1)
RUNTIME = {name: name.encode() for name in to_web.WASM}


@pytest.fixture
def without_npm(monkeypatch):
    """As if onnxruntime-web were here."""
    monkeypatch.setattr("unseen.export.to_onnx.read_runtime", lambda: RUNTIME)
    monkeypatch.setattr("unseen.export.to_web.read_runtime", lambda: RUNTIME)


def calibrated_model(network: Network | None = None, **numbers) -> Model:
    network, record = network or small_network(), CalibrationRecord(probability=replace(NUMBERS, **numbers))
    return Model(small_bundle("kin", network=network).change(calibration=record), network, device="cpu")


# -- the folder ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_folder_is_complete_and_its_model_agrees(without_npm, tmp_path):
    onnx = pytest.importorskip("onnx", reason="the extra `onnx` is not installed")
    import onnxruntime

    model, out = calibrated_model(), tmp_path / "page"
    result = model.export("web", out)
    files = {path.relative_to(out).as_posix(): path.read_bytes() for path in out.rglob("*.*")}
    assert result["bytes"] == sum(map(len, files.values())) and result["precision"] == "int8"
    assert 0 < result["rounding"] < 0.01
    scripts = ("page.js", "worker.js", "answer.js", "answers.js", "crop.js", "ui.js", "words.js")
    for name in ("index.html", *scripts):  # whatever they ask for
        named = re.findall(
            r'(?:from|src=|href=|fetched\(|get\(|URL\()\s*"(?:\./)?([\w./-]+\.\w+)"', files[name].decode()
        )
        assert set(named) <= set(files), name
    about = json.loads(files["classes.json"])
    assert about["sizes"] == {name: len(files[name]) for name in ("model.onnx", *RUNTIME)}
    graph = onnx.load_from_string(files["model.onnx"])
    stored = {tensor.name: tensor for tensor in graph.graph.initializer}
    weights = [tensor for tensor in stored.values() if list(tensor.dims) == [9, result["classes"]]]
    assert [tensor.data_type for tensor in weights] == [onnx.TensorProto.UINT8] and not graph.metadata_props
    session = onnxruntime.InferenceSession(files["model.onnx"], providers=["CPUExecutionProvider"])
    pixels = np.stack([model.network.transform.crop(photo) for photo in PHOTOS]).transpose(0, 3, 1, 2)
    found = session.run(["probabilities"], {"photo": pixels.astype(np.float32)})[0]
    np.testing.assert_allclose(found, model.predict_proba(features=model.features(PHOTOS)), atol=0.01)


@pytest.mark.slow
def test_a_model_that_loses_too_much_is_not_written(without_npm, tmp_path, monkeypatch):
    pytest.importorskip("onnxruntime", reason="the extra `onnx` is not installed")
    monkeypatch.setattr("unseen.export.to_web.TOLERANCE", -1.0)
    with pytest.raises(UnseenError, match=r"8 bits change a probability by .*: not written"):
        calibrated_model().export("web", tmp_path / "page")
    assert list(tmp_path.iterdir()) == []


def test_products_in_8_bits():
    """Only the weights are rounded to 8 bits, each column by half of its unit at most; a row of zeros stays so."""
    onnx = pytest.importorskip("onnx", reason="the extra `onnx` is not installed")
    import onnxruntime

    generator = np.random.default_rng(0)
    weights = (generator.normal(size=(300, 40)) * generator.uniform(0.01, 10, 40)).astype(np.float16)
    x = np.stack([generator.normal(size=300), 1e4 * generator.uniform(size=300), np.zeros(300)]).astype(np.float32)
    graph = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["": 18]> product (float[n, 300] x) => (float[n, 40] y)'
        "{ w = Cast<to = 1> (half) y = MatMul (x, w) }"
    )
    graph.graph.initializer.append(onnx.numpy_helper.from_array(weights, "half"))
    to_web.store_in_8_bits(graph)
    onnx.checker.check_model(graph)
    session = onnxruntime.InferenceSession(graph.SerializeToString(), providers=["CPUExecutionProvider"])
    (found,) = session.run(["y"], {"x": x})
    wide = weights.astype(np.float64)
    unit = np.abs(wide).max(axis=0) / 127
    rounded = np.rint(wide / unit) * unit
    length = np.linalg.norm(x, axis=1, keepdims=True) * np.linalg.norm(wide, axis=0)
    assert (np.abs(found - x @ rounded) <= 1e-4 * length + 1e-12).all()
    assert (np.abs(found - x @ wide) <= 0.01 * length + 1e-12).all() and (found[2] == 0).all()


# -- the scripts, without a browser --------------------------------------------------------------------------------


def run_script(name: str, script: str, data: dict, folder: Path):
    """What a script gives that sees the exports of a module of the page, and `data`."""
    if shutil.which("node") is None:
        pytest.skip("node is not installed: the page's scripts cannot be run")
    (folder / "data.json").write_text(json.dumps(data))
    (folder / "package.json").write_text('{"type": "module"}')
    shutil.copy(to_web.PAGE / name, folder)
    (folder / "main.js").write_text(
        f'import {{ readFileSync }} from "node:fs"; import * as module from "./{name}";\n'
        f'const data = JSON.parse(readFileSync("data.json")); {script}'
    )
    done = subprocess.run(["node", "main.js"], capture_output=True, text=True, cwd=folder, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    ("transform", "size"),
    [
        (PhotoTransform(20), (61, 48)),
        (PhotoTransform(21, interpolation="bilinear"), (300, 33)),
        (PhotoTransform(24, interpolation="lanczos", resize=29), (50, 26)),
        (PhotoTransform(24, interpolation="nearest"), (77, 90)),
        (PhotoTransform(16, squash=True, resize=17), (40, 12)),
        (PhotoTransform(32), (9, 7)),
    ],
)
def test_photos_are_cut_and_scaled_as_pillow_does_it(transform, size, tmp_path):
    """To the same bytes, but for sums that end in one half. (Pillow 13 goes down tall photos first.)"""
    photo = small_photo(3, size)
    script = """
      const read = (x, y, width, height) => {
        const bytes = [];
        for (let row = y; row < y + height; row++)
          for (let at = x; at < x + width; at++) bytes.push(...data.pixels[row][at], 255);
        return bytes;
      };
      console.log(JSON.stringify([...module.crop(data.size[0], data.size[1], data.transform, read)]));"""
    data = {"pixels": np.asarray(photo).tolist(), "size": size, "transform": transform.to_dict()}
    found = np.array(run_script("crop.js", script, data, tmp_path)).reshape(3, transform.size, transform.size)
    expected = transform.crop(photo).transpose(2, 0, 1)
    assert np.abs(found - expected).max() <= 1 and (found != expected).mean() < 0.02


def test_verdicts_and_guesses_are_those_of_classify(tmp_path):
    """On all classes of ImageNet, for probabilities as photos give them: most on relatives of some class."""
    hierarchy, generator, most = Hierarchy.imagenet(), np.random.default_rng(0), 5
    words, rows = words_of(hierarchy), np.arange(len(hierarchy))
    seen = generator.permutation(len(rows))[:1000]
    rows = np.concatenate([seen, np.setdiff1d(rows, seen)])
    trainings = [training_in_words(place < len(seen), novel=True) for place in range(len(rows))]
    sums = NodeSums(hierarchy, rows, len(seen))
    column = np.argsort(rows)
    photos, (lower, upper, _) = [], hierarchy.ancestor_pairs()
    for share in np.linspace(0.3, 0.999, 40):  # that of the classes below some node
        below = column[lower[upper == generator.integers(len(rows))]]
        weights = (1 - share) * generator.dirichlet(np.full(len(rows), 0.003))
        weights[below] += share * generator.dirichlet(np.full(len(below), 0.3))
        photos.append(weights)
    probabilities = np.stack(photos).astype(np.float32)
    about = {
        "labels": [
            {"id": hierarchy.ids[row], "name": hierarchy.names[row], "seen": place < len(seen)}
            for place, row in enumerate(rows.tolist())
        ],
        "hierarchy": _hierarchy(hierarchy, rows),
        "verdict": _verdict_rule(NUMBERS),
        "calibration": {},
        "transform": {},
    }
    classes = to_web.classes_in_words(about, trainings)
    script = """
      const known = module.prepare(data.classes);
      console.log(JSON.stringify(data.photos.map((photo) => module.answer(known, photo))));"""
    found = run_script("answer.js", script, {"classes": classes, "photos": probabilities.tolist()}, tmp_path)

    masses, cautious = node_probabilities(NUMBERS, sums, probabilities)
    verdicts = select_verdicts(sums, cautious, exponent(NUMBERS, CONFIDENCE))
    told = 0
    for answer, p, mass, node in zip(found, probabilities, masses, verdicts.tolist(), strict=True):
        verdict = answer["verdict"]
        if node < 0:
            assert verdict == {"id": None}
        else:
            told, say, chance = told + 1, sums.says[node], float(mass[node])
            assert (verdict["say"], verdict["text"]) == (say, with_article(say))
            assert verdict["probability"] == pytest.approx(chance, abs=1e-4)
            assert verdict["hedge"] == ("Sure" if chance >= SURE else "Likely" if chance >= LIKELY else "A guess")
        best = np.argsort(-p, kind="stable")[: 4 * most].tolist()
        labels = [
            Label(id=hierarchy.ids[row], name=hierarchy.names[row], score=0.0, seen=at < len(seen), trust=None,
                  path=(), probability=float(p[at]), say=words.says[row], novel=True)
            for at, row in ((at, int(rows[at])) for at in best)
        ]  # fmt: skip
        above = [set(sums.ids[sums.above(at)]) for at in best]
        guesses = fold(hierarchy, labels, above, mass[np.searchsorted(sums.nodes, rows[best])], most)
        assert [guess["title"] for guess in answer["guesses"]] == [guess.say for guess in guesses]
        assert [guess["training"] for guess in answer["guesses"]] == [guess.training for guess in guesses]
        ours = [guess["probability"] for guess in answer["guesses"]]
        assert ours == pytest.approx([guess.probability for guess in guesses], abs=1e-4)
    assert 5 < told < len(found)  # both kinds of answers were compared


def test_few_classes_that_nobody_has_a_word_for(tmp_path):
    """Their names are the guesses then."""
    nodes = {
        "thing": {"name": "thing", "say": None, "parents": []},
        "a": {"name": "<b>a</b>", "say": None, "parents": ["thing"]},
        "b": {"name": "b", "say": None, "parents": ["thing"]},
    }
    labels = [{"id": id, "name": nodes[id]["name"], "seen": id == "a"} for id in "ab"]
    about = {"labels": labels, "hierarchy": nodes, "verdict": _verdict_rule(None), "calibration": None, "transform": {}}
    classes = to_web.classes_in_words(about, ["trained on it", "never shown"])
    script = "console.log(JSON.stringify(module.answer(module.prepare(data), [0.25, 0.75])));"
    found = run_script("answer.js", script, classes, tmp_path)
    assert found["verdict"] == {"id": None} and found["calibrated"] is False
    assert found["guesses"] == [
        {"title": "b", "probability": 0.75, "training": "never shown", "mark": "unseen"},
        {"title": "<b>a</b>", "probability": 0.25, "training": "trained on it", "mark": "seen"},
    ]
    assert math.isfinite(classes["rule"]["exponent"])


# -- onnxruntime-web -------------------------------------------------------------------------------------------------


@pytest.fixture
def npm(tmp_path, monkeypatch):
    """Nothing is here but an npm that does what a test says, as a shell script; $3 is --silent, $5 the folder."""
    if os.name != "posix":
        pytest.skip("npm is played by a shell script")
    monkeypatch.setenv("UNSEEN_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("UNSEEN_ASSETS", raising=False)
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")

    def play(script: str) -> None:
        (tmp_path / "bin" / "npm").write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / "bin" / "npm").chmod(0o755)

    return play


def test_without_npm_the_way_out_is_told(npm, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    with pytest.raises(
        UnseenError, match=r"nor is npm\. Where npm works, run: npm pack onnxruntime-web@.*UNSEEN_ASSETS"
    ):
        to_web.read_runtime()


def test_npm_that_fails_is_quoted(npm):
    npm("echo 'npm error network unreachable' >&2; exit 1")
    with pytest.raises(UnseenError, match=r"could not fetch .* \(npm error network unreachable\)\. Where npm works"):
        to_web.read_runtime()


def test_another_package_is_refused(npm, tmp_path):
    npm(f'echo other > "$5/{to_web.ARCHIVE}"')
    with pytest.raises(UnseenError, match=r"not the expected file \(sha256 .*Where npm works"):
        to_web.read_runtime()
    assert not (tmp_path / "cache" / "assets" / to_web.ARCHIVE).exists()


def test_it_is_fetched_once(npm, tmp_path, monkeypatch):
    import tarfile

    from unseen.util.files import sha256

    with tarfile.open(tmp_path / "own.tgz", "w:gz") as package:
        for name, content in RUNTIME.items():
            (tmp_path / name).write_bytes(content)
            package.add(tmp_path / name, f"package/dist/{name}")
    monkeypatch.setattr(to_web, "SHA256", sha256(tmp_path / "own.tgz"))
    npm(f'cp "{tmp_path}/own.tgz" "$5/{to_web.ARCHIVE}"')
    assert to_web.read_runtime() == RUNTIME
    npm("exit 1")
    assert to_web.read_runtime() == RUNTIME
    (tmp_path / "cache" / "assets" / to_web.ARCHIVE).write_bytes(b"torn")
    with pytest.raises(UnseenError, match="Delete it: then it is fetched again"):
        to_web.read_runtime()
