"""`unseen export`."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.mark.slow
def test_onnx_for_people(here, unseen):
    pytest.importorskip("onnxruntime", reason="the extra `onnx` is not installed")
    done = unseen("export", "bundle", "--to", "onnx", "--half", "--out", "m.onnx")
    assert done.code == 0 and "classes         43\n" in done.out and "max_difference" in done.out
    assert Path("m.onnx").stat().st_size > 0


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--to", "tflite"), "no export to 'tflite'; there are: onnx, web"),
        (("--to", "onnx", "--candidates", "none"), "no candidates named 'none'"),
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
