"""Every program of the cookbook runs, and the notebook is the first of them."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from support.bundles import small_photo
from support.command_line import run_command

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
    assert set(re.findall(r"```python (\S+)", PAGE)) == {"shop", "timm", "sklearn", "hugging-face", "service"}
    assert "```python\n" not in PAGE


def test_shop(capsys):
    names = run(program("shop"))
    assert len(names["known"]) == 20 == len(names["model"].bundle.seen)
    assert len(names["answer"]) == 3 and capsys.readouterr().out.endswith("24 products\n")
    assert Path("shop").is_file()


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
