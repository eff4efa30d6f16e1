"""`unseen.train(out=...)` never silently replaces anything, and does not do finished work twice."""

from __future__ import annotations

import pytest

from support.bundles import small_backbone, small_bundle
from unseen.bundle import Bundle
from unseen.errors import UnseenError
from unseen.methods.graph.training import Training
from unseen.runtime.run import Run

DGP = {"epochs": 6, "hidden": 16}


def quiet(**options) -> Run:
    return Run(show_progress=False, device="cpu", **options)


@pytest.fixture
def finished(tmp_path):
    return small_bundle("structural", out=tmp_path / "b").path


@pytest.fixture
def interrupted(tmp_path, monkeypatch):
    """A training that was stopped after its fourth epoch."""
    step, steps = Training.step, []

    def stopping(training):
        steps.append(1)
        if len(steps) == 5:
            raise KeyboardInterrupt
        return step(training)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Training, "step", stopping)
        small_bundle("dgp", out=tmp_path / "b", run=quiet(checkpoint_every=2), **DGP)
    return tmp_path / "b"


def test_a_finished_bundle_is_refused(finished):
    before = (finished / "bundle.json").read_bytes()
    with pytest.raises(
        UnseenError, match="is a finished bundle: choose another name, or replace it with overwrite=True"
    ):
        small_bundle("structural", out=finished)
    assert (finished / "bundle.json").read_bytes() == before


def test_a_finished_bundle_is_returned_when_resumed(finished):
    before, said = Bundle.load(finished), []
    again = small_bundle("structural", out=finished, resume=True, say=said.append)
    assert again.made == before.made and again.path == finished
    assert said == [f"{finished} is finished already."]
    assert small_bundle("structural", out=finished, run=quiet(resume=True)).made == before.made


@pytest.mark.parametrize(
    ("other", "says"),
    [
        ({"decay": 0.3}, "decay was 1.5, now 0.3"),
        ({"run": Run(seed=1)}, "seed was 0, now 1"),
        ({"holdout": 0.5}, "hidden classes was 0, now 3"),
        ({"precision": "fp16"}, "precision was fp32, now fp16"),
        ({"backbone": small_backbone(seed=1)}, "backbone was module/TinyNetwork"),
        ({"vectors": "text"}, "vectors was glove"),
    ],
)
def test_a_finished_bundle_of_other_settings_is_refused(finished, other, says):
    with pytest.raises(UnseenError, match=f"is finished, but not as asked for: .*{says}.*overwrite=True"):
        small_bundle(**({"method": "structural", "out": finished, "resume": True} | other))


def test_a_finished_bundle_is_replaced_when_asked_to(finished):
    assert small_bundle("structural", out=finished, overwrite=True, run=quiet(seed=3)).seed == 3
    assert Bundle.load(finished).seed == 3


def test_an_interrupted_training_is_refused(interrupted):
    before = (interrupted / "checkpoint.safetensors").read_bytes()
    with pytest.raises(UnseenError, match=r"interrupted training: continue it with resume=True, or .*overwrite=True"):
        small_bundle("dgp", out=interrupted, run=quiet(), **DGP)
    assert (interrupted / "checkpoint.safetensors").read_bytes() == before


@pytest.mark.parametrize(("choice", "epochs_left"), [("resume", 2), ("overwrite", 6)])
def test_an_interrupted_training_goes_on_or_starts_again(interrupted, monkeypatch, choice, epochs_left):
    step, steps = Training.step, []
    monkeypatch.setattr(Training, "step", lambda training: steps.append(1) or step(training))
    small_bundle("dgp", out=interrupted, run=quiet(), **{choice: True}, **DGP)
    assert len(steps) == epochs_left
    assert not (interrupted / "checkpoint.safetensors").exists()


def test_nothing_but_a_bundle_is_ever_replaced(tmp_path):
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "thesis.tex").write_text("x")
    with pytest.raises(UnseenError, match=r"thesis\.tex would be lost"):
        small_bundle("structural", out=tmp_path / "b", overwrite=True)


def test_the_callers_run_is_left_as_it_is(tmp_path):
    run = quiet()
    small_bundle("dgp", out=tmp_path / "b", run=run, **DGP)
    assert run.folder is None and not run.resume
    assert run.records == Bundle.load(tmp_path / "b").log


def test_a_system_that_does_not_tell_its_memory(tmp_path, monkeypatch):
    monkeypatch.setattr("unseen.runtime.memory.resource", None)  # as on Windows
    bundle = Bundle.load(small_bundle("dgp", out=tmp_path / "b", run=quiet(), **DGP).path)
    assert bundle.training.peak_memory_mb is None and bundle.training.seconds is not None
    assert bundle.log[-1]["peak_memory_mb"] is None
