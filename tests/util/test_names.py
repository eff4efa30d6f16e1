"""Names that are safe as ids and as folders."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from unseen.util import names
from unseen.util.names import how_to_install, slug


@pytest.mark.parametrize(
    ("name", "made"),
    [
        ("Rescue Drone", "rescue-drone"),
        ("a/b\\c", "a-b-c"),
        ("Ölofen 3", "ölofen-3"),
        ("  snake_case  ", "snake_case"),
        ("日本", "日本"),
        ("हिन्दी", "हिन्दी"),  # letters with the marks that belong to them
        ("e\u0301tat", "état"),  # the same letter, written in two ways
        ("ﬁne ①", "fine-1"),
        ("../../etc", "etc"),
        (".hidden", "hidden"),
        ("C:\\x", "c-x"),
        ("!!!", "class"),
        ("", "class"),
        ("\x00", "class"),
        ("\ud800", "class"),
        ("CON", "con-class"),
        ("com¹", "com1-class"),
        ("con fig", "con-fig"),
        ("x" * 500, "x" * 60),
        ("x" * 59 + " y", "x" * 59),
    ],
)
def test_slugs(name, made):
    assert slug(name) == made


@given(st.text(st.characters()))
@example("İ")
@example("x" * 60 + "-")
def test_any_name_gives_a_harmless_one(name):
    made = slug(name)
    assert slug(made) == made
    assert 1 <= len(made) <= 60 and len(made.encode()) <= 255
    assert made[0] not in ".-" and not set(made) & set('/\\:*?"<>|. \0\n')


def test_commands_that_install_name_packages_and_leave_torch_alone(monkeypatch):
    text = (Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8")
    (stated,) = re.findall(r"(?m)^onnx = \[(.*)\]$", text)
    monkeypatch.setattr(names, "requires", lambda _: [f"{item}; extra == 'onnx'" for item in json.loads(f"[{stated}]")])
    assert how_to_install("onnx") == "pip install " + " ".join(repr(item) for item in json.loads(f"[{stated}]"))
    needed = ["pandas>=2; extra == 'bulk'", "unseen[bulk]; extra == 'ray'", "ray[data]>=2; extra == 'ray'"]
    monkeypatch.setattr(names, "requires", lambda _: needed)
    assert how_to_install("ray") == "pip install 'ray[data]>=2'  and  pip install 'pandas>=2'"
    for build, command in (("2.13.0+cpu", "--no-deps torchvision=="), ("2.13.0", "timm 'torch==2.13.0'")):
        monkeypatch.setattr(names, "version", lambda _, build=build: build)
        assert command in how_to_install("timm")
    makefile = (Path(__file__).parents[2] / "Makefile").read_text(encoding="utf-8")
    assert f"TIMM := {names.NO_DEPENDENCIES}\n" in makefile
