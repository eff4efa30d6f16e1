"""Every program of the cookbook runs, and the notebook is the first of them."""

from __future__ import annotations

import json
import os
import pickle
import re
import shlex
import sys
from pathlib import Path

import numpy as np
import pytest

from support.bundles import SEEN, small_bundle, small_photo
from support.command_line import run_command
from unseen.networks.linear import from_linear
from unseen.networks.loading import load_network
from unseen.vectors.class_vectors import load_vectors

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = (DOCS / "cookbook.md").read_text()
SHOP = json.loads((DOCS / "examples" / "shop.ipynb").read_text())


def program(name: str) -> str:
    (code,) = re.findall(rf"```python {name}\n(.*?)```", PAGE, flags=re.DOTALL)
    return code


def run(code: str) -> dict:
    names: dict = {"__name__": "cookbook"}
    exec(compile(code, "cookbook", "exec"), names)
    return names


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_every_program_is_tried():
    assert set(re.findall(r"```python (\S+)", PAGE)) == {
        *("shop", "timm", "layer", "sklearn", "hugging-face", "word2vec", "service"),
        *("estimator", "dask", "ray", "spark"),
    }
    assert "```python\n" not in PAGE


def test_shop(capsys):
    names = run(program("shop"))
    assert len(names["known"]) == 20 == len(names["model"].bundle.seen)
    assert len(names["answer"]) == 3 and capsys.readouterr().out.endswith("24 products\n")
    assert Path("shop").is_file()


def test_layer(capsys):
    run(program("layer"))
    assert capsys.readouterr().out == "lime\n"


def test_word2vec():
    rows = {"dog": [1, 2.5], "new_york": [-3, 1e-3]}
    content = b"".join(word.encode() + b" " + np.array(row, "<f4").tobytes() + b"\n" for word, row in rows.items())
    Path("vectors.bin").write_bytes(b"2 2\n" + content)
    run(program("word2vec"))
    (source,) = load_vectors("vectors.txt")
    assert source.words == ["dog", "new_york"] and np.allclose(source.vectors, list(rows.values()))


def test_the_notebook_is_the_program_of_the_page():
    cells = ["".join(cell["source"]) for cell in SHOP["cells"] if cell["cell_type"] == "code"]
    assert "\n\n".join(cells) == program("shop").strip()


@pytest.mark.slow
def test_timm(capsys):
    pytest.importorskip("timm")
    run(program("timm"))
    assert capsys.readouterr().out == "4 species with photos, 8 to recognise\n"


@pytest.mark.slow
def test_sklearn(capsys):
    pytest.importorskip("sklearn")
    run(program("sklearn"))
    assert capsys.readouterr().out == "viola\n"
    run(program("sklearn") + program("estimator"))
    assert capsys.readouterr().out.split("\n")[1] == "['cello' 'trumpet' 'violin' 'viola' 'trombone']"


@pytest.mark.slow
def test_hugging_face_then_service_then_batch():
    pytest.importorskip("transformers")
    testing = pytest.importorskip("fastapi.testclient")
    run(program("hugging-face"))

    service = program("service")
    assert len([line for line in service.splitlines() if line.strip()]) <= 15
    client = testing.TestClient(run(service)["app"])
    small_photo().save("photo.png")
    done = client.post("/classify", files={"photo": Path("photo.png").read_bytes()})
    assert done.status_code == 200 and len(done.json()["labels"]) == 3
    assert client.post("/classify", files={"photo": b"no photo"}).status_code == 422

    (command,) = re.findall(r"```sh\nunseen (.*?)\n```", PAGE)
    Path("incoming").mkdir()
    for night in (1, 2):
        small_photo(night).save(f"incoming/{night}.png")
        assert run_command(*shlex.split(command)).code == 0
    rows = [line.split(",") for line in Path("labels.csv").read_text().splitlines()]
    assert [row[0] for row in rows] == ["photo", "incoming/1.png", "incoming/2.png"]
    documented = set(re.findall(r"`((?:verdict_)?\w+)`", PAGE.split("| column")[1].split("\n\n")[0])) - {"unknown"}
    assert documented <= set(rows[0]) and {name for name in rows[0] if not name.endswith("_2")} == documented


@pytest.fixture
def garden(tmp_path) -> None:
    """Beside the program: a photo, and the bundle that the page calls a garden, with a network that can be loaded."""
    small_photo().save("photo.jpg")
    below = load_network("efficientnet-lite0")
    network = from_linear(np.random.default_rng(0).normal(size=(len(SEEN), below.num_features)), None, SEEN, below)
    small_bundle("kin", network=network).save("garden")


def check_labels(labels) -> None:
    labels = labels.sort_values("photo")
    assert labels["photo"].tolist() == ["a", "b"] and isinstance(labels["name_1"].iloc[0], str)
    assert "No such file" in labels["unreadable"].iloc[1] and len(labels.columns) == 9


@pytest.mark.slow
def test_dask(garden):
    pytest.importorskip("dask.dataframe")
    check_labels(run(program("dask"))["labels"])


@pytest.mark.slow
def test_ray(garden, folder):
    ray = pytest.importorskip("ray")
    pytest.importorskip("ray.data")
    environment = {"env_vars": {"PYTHONPATH": os.pathsep.join(sys.path)}}
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, runtime_env=environment)
    try:
        code = program("ray").replace('"garden"', repr(str(folder / "garden")))  # actors begin in another folder
        check_labels(run(code.replace('"photo.jpg"', repr(str(folder / "photo.jpg"))))["labels"])
    finally:
        ray.shutdown()


@pytest.mark.slow
def test_spark(garden):
    pandas = pytest.importorskip("pandas")

    class Photos:
        """What Spark does with the function: it is called with an iterator of tables."""

        def mapInPandas(self, function, schema):
            tables = [pandas.DataFrame({"id": [id], "path": [path]}) for id, path in zip("ab", PATHS, strict=True)]
            labels = pandas.concat(pickle.loads(pickle.dumps(function))(iter(tables)))
            assert [column.split()[0] for column in schema.split(", ")] == list(labels.columns)
            return labels

    check_labels(run(program("spark"))["label"](Photos()))


PATHS = ("photo.jpg", "nowhere.jpg")
