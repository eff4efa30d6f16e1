"""`unseen export`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from safetensors import safe_open


def test_torch(here, unseen):
    options = ("--to", "torch", "--candidates", "classes.txt", "--out", "m.safetensors", "--json")
    done = unseen("export", "bundle", *options)
    assert done.code == 0
    assert done.json | {"bytes": 0} == {
        "out": "m.safetensors", "to": "torch", "classes": 6, "precision": "fp32", "bytes": 0, "last_layer": "head",
        "bias": True,
    }  # fmt: skip
    with safe_open("m.safetensors", "pt") as file:
        assert len(json.loads(file.metadata()["labels"])) == 6


@pytest.mark.slow
def test_onnx_for_people(here, unseen):
    pytest.importorskip("onnxruntime", reason="the extra `onnx` is not installed")
    done = unseen("export", "bundle", "--to", "onnx", "--half", "--out", "m.onnx")
    assert done.code == 0 and "43 classes" in done.out and "agrees with torch to" in done.out
    assert Path("m.onnx").stat().st_size > 0


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--to", "tflite"), "no export to 'tflite'; there are: onnx, torch, timm, web"),
        (("--to", "timm"), "cli_networks:build is not a network of timm"),
        (("--to", "torch", "--candidates", "none"), "no candidates named 'none'"),
    ],
)
def test_mistakes_are_one_line_and_exit_1(here, unseen, options, says):
    done = unseen("export", "bundle", *options, "--out", "m", "--json")
    assert done.code == 1 and says in done.json["error"]
    assert done.err.startswith("error: ") and says in done.err
    assert not Path("m").exists()


def test_wrong_usage_is_exit_2(here, unseen):
    assert unseen("export", "bundle", "--out", "m").code == 2
    assert unseen("export", "bundle", "--to", "onnx").code == 2
