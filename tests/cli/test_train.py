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

import numpy as np
import pytest
import torch

from support.conditions import needs_proc
from unseen.bundle import Bundle

OWN = ("--graph", "tree.csv", "--vectors", "glove", "--backbone", "cli_networks:build", "--classes", "classes.txt")


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
    header = json.loads(Path("dgp/bundle.json").read_text())
    assert header["settings"]["hidden"] == 16 and header["backbone"]["name"] == "cli_networks:build"


def test_for_people(here, unseen):
    done = unseen("train", *OWN, "--out", "new")
    assert done.code == 0 and "kin, 43 classes from 6 seen ones" in done.out
    assert "Try it: unseen classify PHOTO --bundle new" in done.out


@pytest.mark.parametrize(("method", "says"), [("sync", "  loss 0."), ("conse", ""), ("network", "")])
def test_what_a_method_does_not_have_is_not_told(here, unseen, method, says):
    done = unseen("train", "--method", method, *OWN, "--holdout", 0.5, "--out", "new")
    assert done.code == 0 and says in done.out and "None" not in done.out


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


def test_a_finished_bundle_is_not_trained_over_unasked(here, unseen):
    weights = Bundle.load("bundle").load_backbone(trust_code=True).weights()
    torch.save({name: 2 * tensor for name, tensor in weights.items()}, "other.pth")
    Path("turned.txt").write_text("\n".join(reversed(Path("classes.txt").read_text().split())))
    done = unseen("train", *OWN, "--out", "bundle")
    assert done.code == 1 and "error: bundle is a finished bundle: choose another name, or replace it" in done.err
    done = unseen("train", *OWN, "--out", "bundle", "--resume", "--json")
    assert done.code == 0 and "finished already" in done.err and done.json["method"] == "kin"
    done = unseen("train", *OWN, "--out", "bundle", "--resume", "--seed", 1, "--precision", "fp16")
    assert done.code == 1 and "seed was 0, now 1; precision was fp32, now fp16. Choose another name, or" in done.err
    done = unseen("train", "--method", "structural", *OWN, "--out", "bundle", "--resume")
    assert done.code == 1 and "is finished, but not as asked for: method was kin, now structural" in done.err
    done = unseen("train", *OWN, "--graph", "imagenet", "--out", "bundle", "--resume")
    assert done.code == 1 and "nodes" in done.err and "now Taxonomy(imagenet: 23,547 nodes" in done.err
    for other, says in {
        ("--vectors", "text"): "vectors was glove (lower, ",
        ("--holdout", 0.34): "hidden classes was 0, now 2",
        ("--weights", "other.pth"): "backbone was cli_networks:build (",
        ("--classes", "turned.txt"): "disagree on the seen classes or their order",
    }.items():
        done = unseen("train", *OWN, *other, "--out", "bundle", "--resume")
        assert done.code == 1 and says in done.err
    done = unseen("train", "--method", "structural", *OWN, "--out", "bundle", "--overwrite", "--json")
    assert done.code == 0 and done.json["method"] == "structural"


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"--graph": "none.csv"}, "none.csv: cannot be read: No such file"),
        ({"--graph": "tree.xls"}, "There is no hierarchy 'tree.xls'"),
        ({"--classes": "none.txt"}, "none.txt: cannot be read"),
        ({"--classes": "short.txt"}, "has 1 outputs, as many as class ids were given"),
        ({"--classes": "foreign.txt"}, "1 of the network's 6 classes are not in the hierarchy: cow. Add them, or"),
        ({"--backbone": "cli_networks:nothing"}, "cli_networks:nothing: module 'cli_networks' has no attribute"),
        ({"--backbone": "no_module:build"}, "there is no Python module 'no_module' here"),
        ({"--backbone": "bad_networks:build"}, "importing bad_networks failed: SyntaxError"),
        ({"--backbone": "worse_networks:build"}, "calling it without arguments failed: ZeroDivisionError"),
        ({"--backbone": "worse_networks:build"}, "worse_networks.py:2)"),
        ({"--backbone": "resnet51"}, "There is no network 'resnet51'"),
        ({"--backbone": "linear:none.npz"}, "none.npz: there is no such file"),
        ({"--backbone": "onnx:none.onnx"}, "onnx:none.onnx: there is no such file"),
        ({"--transform": "none.json"}, "--transform: 'none.json' is neither JSON nor a file"),
        ({"--transform": '{"size": 0}'}, "--transform: A photo transform needs a positive size"),
        ({"--transform": '{"sise": 9}'}, "--transform takes a JSON object with size, resize, mean"),
        ({"--transform": '{"size": ' + '{"a": ' * 3000}, "--transform takes a JSON object with size, resize, mean"),
        ({"--transform": '{"size": Infinity}'}, "--transform takes a JSON object with size, resize, mean"),
        ({"--check-photos": "none"}, "none: cannot be read as a folder of photos"),
        ({"--layer": "tail"}, "no linear layer named 'tail'. It has: 'head'"),
        ({"--weights": "none.pth"}, "none.pth: there is no such file of weights"),
        ({"--weights": "classes.txt"}, "Save the tensors alone: torch.save(model.state_dict(), file)"),
        ({"--vectors": "word3vec"}, "There are no vectors 'word3vec'"),
        ({"--method": "kim"}, "no method named 'kim'. Did you mean 'kin'"),
        ({"--epochs": "3"}, "kin has no setting 'epochs'"),
        ({"--set": "holdout=0.5"}, "kin has no setting 'holdout'. It has: "),
        ({"--set": "method=dgp"}, "kin has no setting 'method'. It has: "),
        ({"--out": "."}, ". is the current folder or one around it: name a new folder"),
        ({"--set": "k"}, "--set takes name=value, not 'k'"),
        ({"--seed": "-1"}, "the seed must be an integer from 0 to 2^63 - 1, not -1"),
        ({"--features": "store"}, "kin does not learn from photos: omit --features"),
        ({"--holdout": "0.05"}, "a holdout of 0.05 would hide none of 6 seen classes"),
        ({"--holdout": "1"}, "--holdout is a share of the seen classes"),
        ({"--precision": "int8"}, "--precision is fp32 or fp16, not 'int8'"),
        ({"--out": "tree.csv"}, "tree.csv is a file; a bundle is a folder"),
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
    assert done.code == 1 and done.out == ""
    assert done.err.startswith("error: ") and says in done.err
    assert not Path("new/bundle.json").exists()


@pytest.mark.parametrize(
    "arguments", [(), ("--out",), ("--out", "new", "--epochs", "0"), ("--out", "new", "--epochs", "x"), ("--foo",)]
)
def test_wrong_usage_is_exit_2(here, unseen, arguments):
    done = unseen("train", *arguments)
    assert done.code == 2 and done.out == ""


def test_the_transform_is_told_and_tried(here, unseen):
    for id in Path("classes.txt").read_text().split():
        Path("labelled", id).mkdir(parents=True)
        shutil.copy("photo.png", Path("labelled", id, "1.png"))
    done = unseen("train", *OWN, "--out", "new", "--check-photos", "labelled", "--json")
    assert done.code == 0
    assert "Photos: short side to 256 px (bicubic), centre 224 x 224, mean 0.485 0.456 0.406, deviation" in done.err
    assert "This is an assumption" in done.err and "with --check-photos ..." in done.err
    found = done.json["check_photos"]
    assert (found["photos"], found["classes"], found["accuracy"]) == (6, 6, 16.7)  # six times the same photo
    half = '{"size": 32, "mean": 0.5, "std": [0.5, 0.5, 0.25]}'
    done = unseen("train", *OWN, "--out", "half", "--transform", half, "--json")
    assert done.code == 0 and "assumption" not in done.err and "deviation 0.5 0.5 0.25" in done.err
    assert done.json["transform"]["size"] == 32 and done.json["transform"]["mean"] == [0.5, 0.5, 0.5]
    assert Bundle.load("half").load_backbone(trust_code=True).transform.size == 32


def test_a_linear_classifier_needs_no_photos(here, unseen):
    ids = Path("classes.txt").read_text().split()
    np.savez("head.npz", weight=np.eye(6, 9), bias=np.zeros(6), classes=ids)
    done = unseen("train", "--graph", "tree.csv", "--vectors", "glove", "--backbone", "linear:head.npz",
                  "--out", "new", "--json")  # fmt: skip
    assert done.code == 0 and "takes rows of 9 features, no photos" in done.err
    assert done.json["seen"] == 6 and done.json["transform"] is None
    Path("head.npz").unlink()
    assert Bundle.load("new").load_backbone().num_features == 9


def test_skipping_what_the_hierarchy_lacks(here, unseen):
    Path("classes.txt").write_text("\n".join([*Path("classes.txt").read_text().split()[:5], "cow"]))
    done = unseen("train", *OWN, "--skip-missing", "--out", "new", "--json")
    assert done.code == 0 and done.json["seen"] == 5
    assert "1 of the network's 6 classes are not in the hierarchy: cow. They are left out." in done.err


def test_brackets_in_messages_are_kept(here, unseen, monkeypatch):
    monkeypatch.setattr("unseen.training.inputs.encoder_installed", lambda: False)
    Path("tree.csv").write_text(Path("tree.csv").read_text() + "x,[red] thing,n00001740\n")
    options = [part for pair in zip(OWN[::2], OWN[1::2], strict=True) for part in pair if pair[0] != "--vectors"]
    done = unseen("train", *options, "--out", "new")
    assert done.code == 0 and "pip install 'unseen[text]'" in done.err


def test_nan_in_the_weights_is_told(here, unseen):
    sys.path.insert(0, str(here))
    try:
        from cli_networks import build
    finally:
        sys.path.remove(str(here))
    state = build().state_dict()
    state["head.weight"][0, 0] = float("nan")
    torch.save(state, "nan.pth")
    done = unseen("train", *OWN, "--weights", "nan.pth", "--out", "new")
    assert done.code == 1 and "the network's classifiers hold NaN or infinity: check its weights file" in done.err


@pytest.mark.slow
def test_stopped_from_outside_and_resumed(here, unseen):
    """Ctrl-C ends it after the epoch under way, in one line; --resume goes on."""
    command = ["train", "--method", "dgp", *OWN, "--set", "hidden=16", "--checkpoint-every", "1", "--out", "long"]
    process = subprocess.Popen(
        [sys.executable, "-m", "unseen", *command, "--epochs", "1000000"], stderr=subprocess.PIPE, text=True
    )
    try:
        deadline = time.monotonic() + 60
        while not Path("long/checkpoint.safetensors").exists() and time.monotonic() < deadline:
            assert process.poll() is None, process.stderr.read()
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 1 and "continue with --resume and the same settings" in err and "Traceback" not in err
    done = int(re.search(r"stopped after epoch (\d+)", " ".join(err.split()))[1])
    again = unseen(*command, "--epochs", done + 3)
    assert again.code == 1 and "long holds an interrupted training: continue it with --resume, or" in again.err
    again = unseen(*command, "--epochs", done + 3, "--resume", "--json")
    assert again.code == 0 and again.json["epochs"] == done + 3
    epochs = [json.loads(line)["epoch"] for line in Path("long/log.jsonl").read_text().splitlines()]
    assert epochs[0] == 1 and epochs[-1] == done + 3


def test_an_interrupted_replacement_goes_on(here, unseen, monkeypatch):
    """The bundle that is to be replaced stays whole meanwhile."""
    from unseen.errors import UnseenError
    from unseen.methods.graph.training import Training

    command = ["train", "--method", "dgp", *OWN, "--set", "hidden=16", "--epochs", 6, "--checkpoint-every", 2]
    command += ["--out", "bundle"]
    step, steps = Training.step, []

    def stopping(training):
        steps.append(1)
        if len(steps) == 4:
            raise UnseenError("stopped")
        return step(training)

    monkeypatch.setattr(Training, "step", stopping)
    assert unseen(*command, "--overwrite").code == 1
    assert unseen("info", "bundle", "--json").json["method"] == "kin"
    again = unseen(*command)
    assert again.code == 1 and "holds an interrupted training: continue it with --resume" in again.err
    assert unseen(*command, "--resume", "--json").json["method"] == "dgp"
    assert len(steps) == 4 + 4 and not Path("bundle/retraining").exists()
    assert "finished already" in unseen(*command, "--resume").err
    again = unseen(*command, "--resume", "--set", "hidden=8")
    assert again.code == 1 and "hidden was 16, now 8" in again.err


def test_an_export_within_a_bundle_is_not_deleted(here, unseen):
    Path("bundle/mine.pt").write_text("x")
    done = unseen("train", *OWN, "--out", "bundle", "--overwrite")
    assert done.code == 1 and "bundle holds more than a bundle: mine.pt would be lost" in done.err
    assert Path("bundle/mine.pt").read_text() == "x"
