"""`unseen train`: a bundle from files, a module in the current folder, and clear words where that fails."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from support.conditions import needs_proc
from unseen.bundle import Bundle

OWN = ("--hierarchy", "tree.csv", "--vectors", "glove", "--network", "cli_networks:build", "--classes", "classes.txt")


def test_the_json_of_a_graph_network(here, unseen):
    done = unseen("train", "--method", "dgp", *OWN, "--epochs", 5, "--set", "hidden=16", "--holdout", 0.34,
                  "--out", "dgp", "--json")  # fmt: skip
    assert done.code == 0
    found = done.json
    assert set(found) >= {"bundle", "method", "nodes", "seen", "epochs", "loss", "seconds", "weights", "hop_weights"}
    assert (found["bundle"], found["method"], found["epochs"], found["nodes"]) == ("dgp", "dgp", 5, 43)
    assert set(found["hop_weights"]) == {"descendants", "ancestors"}
    assert sum(found["hop_weights"]["ancestors"]) == pytest.approx(1, abs=0.01)
    assert found["holdout"]["classes"] == 2 and found["seen"] == 4
    header = unseen("info", "dgp", "--json").json
    assert header["settings"]["hidden"] == 16 and header["network"]["name"] == "cli_networks:build"


def test_for_people(here, unseen):
    done = unseen("train", *OWN, "--out", "new")
    shown = dict(line.split(maxsplit=1) for line in done.out.splitlines()[1:])
    assert done.code == 0 and (shown["method"], shown["nodes"], shown["seen"]) == ("kin", "43", "6")
    assert "Try it: unseen classify PHOTO --bundle new" in done.out


@pytest.mark.slow
def test_in_a_process_of_its_own_without_torch_in_the_way(here):
    """The real thing: the installed command, in a folder with the user's module; stdout is one JSON object."""
    done = subprocess.run(
        [sys.executable, "-m", "unseen", "train", *OWN, "--out", "new", "--json"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["method"] == "kin"
    done = subprocess.run(
        [sys.executable, "-m", "unseen", "classify", "photo.png", "--bundle", "new", "--trust-code", "--json"],
        capture_output=True, text=True,
    )  # fmt: skip
    assert len(json.loads(done.stdout)["photos"][0]["labels"]) == 5


def test_a_finished_bundle_is_not_trained_over_without_overwrite(here, unseen):
    done = unseen("train", *OWN, "--out", "bundle")
    assert done.code == 1 and "error: bundle is another bundle: choose another name, or overwrite it" in done.err
    done = unseen("train", *OWN, "--out", "bundle", "--resume", "--json")
    assert done.code == 0 and "finished already" in done.err and done.json["method"] == "kin"
    done = unseen("train", *OWN, "--out", "bundle", "--resume", "--seed", 1, "--precision", "fp16")
    assert done.code == 1 and "seed was 0, now 1; precision was fp32, now fp16. Choose another name, or" in done.err
    done = unseen("train", "--method", "structural", *OWN, "--out", "bundle", "--overwrite", "--json")
    assert done.code == 0 and done.json["method"] == "structural"


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"--hierarchy": "none.csv"}, "none.csv: cannot be read: No such file"),
        ({"--classes": "foreign.txt"}, "1 of the network's 6 classes are not in the hierarchy: cow. Add them, or"),
        ({"--network": "no_module:build"}, "there is no Python module 'no_module' here"),
        ({"--network": "bad_networks:build"}, "importing bad_networks failed: SyntaxError"),
        ({"--network": "worse_networks:build"}, "calling it without arguments failed: ZeroDivisionError"),
        ({"--network": "worse_networks:build"}, "worse_networks.py:2)"),
        ({"--transform": "none.json"}, "--transform: 'none.json' is neither JSON nor a file"),
        ({"--transform": '{"sise": 9}'}, "--transform takes a JSON object with size, resize, mean"),
        ({"--check-photos": "none"}, "none: cannot be read as a folder of photos"),
        ({"--weights": "classes.txt"}, "Save the tensors alone: torch.save(model.state_dict(), file)"),
        ({"--epochs": "3"}, "kin has no setting 'epochs'"),
        ({"--out": "."}, ". is a folder, and a bundle is a file"),
        ({"--set": "k"}, "--set takes name=value, not 'k'"),
        ({"--seed": "-1"}, "the seed must be an integer from 0 to 2^63 - 1, not -1"),
        ({"--holdout": "0.05"}, "a holdout of 0.05 would hide none of 6 seen classes"),
        ({"--out": "tree.csv"}, "tree.csv exists and is not a bundle"),
        pytest.param({"--out": "/proc/bundle"}, "cannot write to /proc", marks=needs_proc),
    ],
)
def test_mistakes_are_one_line_and_exit_1(here, unseen, changes, says):
    ids = Path("classes.txt").read_text().split()
    Path("short.txt").write_text(ids[0])
    Path("foreign.txt").write_text("\n".join([*ids[:5], "cow"]))
    Path("bad_networks.py").write_text("def build(:\n")
    Path("worse_networks.py").write_text("def build():\n    return 1 / 0\n")
    options = dict(zip(OWN[::2], OWN[1::2], strict=True)) | {"--out": "new"} | changes
    done = unseen("train", *(part for pair in options.items() for part in pair), "--json")
    assert done.code == 1 and says in done.json["error"]
    assert "error: " in done.err and says in done.err  # perhaps after a warning that the transform is a guess
    assert not Path("new").exists()


@pytest.mark.parametrize(
    "arguments", [(), ("--out",), ("--out", "new", "--epochs", "0"), ("--out", "new", "--epochs", "x"), ("--foo",)]
)
def test_wrong_usage_is_exit_2(here, unseen, arguments):
    done = unseen("train", *arguments)
    assert done.code == 2 and done.out == ""


def test_the_transform_is_reported_and_tried(here, unseen):
    for id in Path("classes.txt").read_text().split():
        Path("labelled", id).mkdir(parents=True)
        shutil.copy("photo.png", Path("labelled", id, "1.png"))
    done = unseen("train", *OWN, "--out", "new", "--check-photos", "labelled", "--json")
    assert done.code == 0
    assert "Photos: short side to 256 px (bicubic), centre 224 x 224, mean 0.485 0.456 0.406, deviation" in done.err
    assert "This is an assumption" in done.err and "check it on labelled photos" in done.err
    found = done.json["check_photos"]
    assert (found["photos"], found["classes"], found["accuracy"]) == (6, 6, 16.7)  # six times the same photo
    half = '{"size": 32, "mean": 0.5, "std": [0.5, 0.5, 0.25]}'
    done = unseen("train", *OWN, "--out", "half", "--transform", half, "--json")
    assert done.code == 0 and "assumption" not in done.err and "deviation 0.5 0.5 0.25" in done.err
    assert done.json["transform"]["size"] == 32 and done.json["transform"]["mean"] == [0.5, 0.5, 0.5]
    assert Bundle.load("half").load_network(trust_code=True).transform.size == 32


@pytest.mark.slow
def test_stopped_from_outside_and_resumed(here, unseen):
    """Ctrl-C ends it after the epoch under way, in one line; --resume goes on."""
    command = ["train", "--method", "dgp", *OWN, "--set", "hidden=16", "--checkpoint-every", "1", "--out", "long"]
    process = subprocess.Popen(
        [sys.executable, "-m", "unseen", *command, "--epochs", "1000000"], stderr=subprocess.PIPE, text=True
    )
    try:
        deadline = time.monotonic() + 60
        while not Path("long.training/checkpoint.safetensors").exists() and time.monotonic() < deadline:
            assert process.poll() is None, process.stderr.read()
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 1 and "Traceback" not in err
    assert "resume it with the same settings" in " ".join(err.split())
    done = int(re.search(r"stopped after epoch (\d+)", " ".join(err.split()))[1])
    again = unseen(*command, "--epochs", done + 3)
    assert again.code == 1 and "the training of long was interrupted: resume it, or" in again.err
    again = unseen(*command, "--epochs", done + 3, "--resume", "--json")
    assert again.code == 0 and again.json["epochs"] == done + 3
    epochs = [record["epoch"] for record in Bundle.load("long").log]
    assert epochs[0] == 1 and epochs[-1] == done + 3
