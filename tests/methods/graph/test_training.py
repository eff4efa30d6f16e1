from __future__ import annotations

import errno
import json
import os
import shutil
import signal
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from support.graphs import small_method, small_problem
from unseen.errors import UnseenError
from unseen.methods import Solution
from unseen.methods.graph.training import Training
from unseen.runtime.checkpoints import CHECKPOINT, PREVIOUS
from unseen.runtime.run import Run
from unseen.semantics import ClassVectors

EPOCHS = 25


def fit(folder=None, *, variant="dgp", epochs=EPOCHS, problem=None, resume=False, seed=0, **settings) -> Solution:
    run = Run(folder, seed=seed, device="cpu", resume=resume, show_progress=False, checkpoint_every=10)
    return small_method(variant, epochs=epochs, **settings).fit(problem or small_problem(), run)


def same(a: Solution, b: Solution) -> bool:
    """Bit for bit."""
    return (
        a.classifiers.tobytes() == b.classifiers.tobytes()
        and a.state.keys() == b.state.keys()
        and all(a.state[name].tobytes() == b.state[name].tobytes() for name in a.state)
        and a.record.loss == b.record.loss
    )


def at_step(monkeypatch, number: int, action) -> None:
    """Do something during the step with this number, once."""
    step, count = Training.step, iter(range(1, 10**6))

    def counted(self):
        if next(count) == number:
            action()
        return step(self)

    monkeypatch.setattr(Training, "step", counted)


def epochs_logged(folder: Path) -> list[int]:
    return [json.loads(line)["epoch"] for line in (folder / "log.jsonl").read_text().splitlines()]


@pytest.mark.slow
@pytest.mark.parametrize("variant", ["dgp", "sgcn", "gcnz", "gat, 1 hidden"])
def test_it_learns_the_known_classifiers(variant):
    problem = small_problem()
    solution = fit(variant=variant, epochs=300, dropout=0.0, weight_decay=0.0, learning_rate=0.02, problem=problem)
    assert solution.record.loss < 0.1
    predicted = solution.classifiers[problem.seen]
    assert np.einsum("ij,ij->i", predicted, problem.targets()).mean() > 0.9
    assert solution.classifiers.shape == (len(problem.taxonomy), problem.classifiers.shape[1])
    np.testing.assert_allclose(small_method(variant).predict(problem, solution.state), solution.classifiers, atol=1e-6)


def test_what_is_reported_and_logged(tmp_path):
    solution = fit(tmp_path)
    record = solution.record
    assert record.epochs == EPOCHS
    assert record.weights == 7 * 6 + 6 * 5 + 10
    assert list(record.hop_weights) == ["descendants", "ancestors"]
    records = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert [record["epoch"] for record in records] == [1, 10, 20, 25]
    assert records[-1]["loss"] == record.loss
    assert records[-1]["peak_memory_mb"] > 10
    assert records[-1]["epochs_per_second"] > 0
    assert records[-1]["hop_weights"] == record.hop_weights
    json.dumps(record.to_json())


def test_the_seed_decides_all(tmp_path):
    torch.manual_seed(1)
    first = fit()
    torch.manual_seed(2)
    before = torch.get_rng_state()
    again = fit(tmp_path)
    assert torch.equal(torch.get_rng_state(), before)  # the caller's random numbers are left alone
    assert same(first, again)
    assert not same(first, fit(seed=1))


@pytest.mark.parametrize("kind", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("variant", ["dgp", "gat, 1 hidden"])
def test_after_an_interruption_it_ends_bit_for_bit_where_it_would_have(tmp_path, monkeypatch, kind, variant):
    whole = fit(variant=variant)
    with monkeypatch.context() as patch:
        at_step(patch, 13, lambda: os.kill(os.getpid(), kind))
        with pytest.raises(UnseenError, match=r"stopped after epoch 13 of 25; continue with resume=True"):
            fit(tmp_path, variant=variant)
    assert epochs_logged(tmp_path) == [1, 10, 13]
    resumed = fit(tmp_path, variant=variant, resume=True)
    assert same(resumed, whole)
    assert epochs_logged(tmp_path) == [1, 10, 13, 20, 25]
    assert resumed.record.seconds > 0


def test_a_killed_run_goes_on_from_its_last_checkpoint(tmp_path, monkeypatch):
    class Killed(BaseException):
        pass

    def die():
        raise Killed

    with monkeypatch.context() as patch:
        at_step(patch, 18, die)
        with pytest.raises(Killed):
            fit(tmp_path)
    resumed = fit(tmp_path, resume=True)
    assert same(resumed, fit())
    assert epochs_logged(tmp_path) == [1, 10, 20, 25]  # what was logged after the checkpoint is not there twice


def test_a_second_ctrl_c_does_not_wait(tmp_path, monkeypatch):
    # A shell starts background jobs with Ctrl-C ignored, and then there is nobody to stop twice.
    monkeypatch.setattr(signal, "getsignal", lambda number: signal.default_int_handler)

    def twice():
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)

    at_step(monkeypatch, 5, twice)
    with pytest.raises(KeyboardInterrupt):
        fit(tmp_path)


def test_an_interruption_without_a_folder_says_that_nothing_is_kept(monkeypatch):
    at_step(monkeypatch, 5, lambda: os.kill(os.getpid(), signal.SIGINT))
    with pytest.raises(UnseenError, match="nothing is kept"):
        fit()


def test_a_finished_training_can_be_given_more_epochs(tmp_path):
    fit(tmp_path, epochs=15)
    assert same(fit(tmp_path, epochs=EPOCHS, resume=True), fit())
    assert same(fit(tmp_path, epochs=EPOCHS, resume=True), fit())  # nothing left to do: the same result again
    with pytest.raises(UnseenError, match="25 epochs already, more than the 12"):
        fit(tmp_path, epochs=12, resume=True)


def test_resume_without_a_checkpoint_begins(tmp_path):
    assert same(fit(tmp_path, resume=True), fit())


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"learning_rate": 0.1}, "learning_rate was 0.001, now 0.1"),
        ({"k": 2}, "k was 4, now 2"),
        ({"seed": 3}, "seed was 0, now 3"),
        ({"variant": "sgcn"}, "method was dgp, now sgcn"),
        ({"problem": small_problem(seed=1)}, "vectors was"),
    ],
)
def test_a_checkpoint_of_another_training_is_refused(tmp_path, change, words):
    fit(tmp_path, epochs=10)
    before = (tmp_path / CHECKPOINT).read_bytes()
    with pytest.raises(UnseenError, match=words):
        fit(tmp_path, **change, resume=True)
    assert (tmp_path / CHECKPOINT).read_bytes() == before


@pytest.mark.parametrize("damage", ["half", "empty", "noise"])
def test_after_a_damaged_checkpoint_the_training_ends_where_it_would_have(tmp_path, damage, capsys):
    for epochs, says in ((10, "no whole one before it: starting from the beginning"), (20, "continuing from the")):
        folder = tmp_path / str(epochs)
        fit(folder, epochs=epochs)
        content = (folder / CHECKPOINT).read_bytes()
        damaged = {"half": content[: len(content) // 2], "empty": b"", "noise": b"\xff" * 100}[damage]
        (folder / CHECKPOINT).write_bytes(damaged)
        assert same(fit(folder, resume=True), fit())
        told = capsys.readouterr().err
        assert f"{folder / CHECKPOINT} is damaged (" in told and says in told


def test_no_flipped_bit_of_a_checkpoint_ends_in_another_model(tmp_path, capsys):
    """Once 11 of 12 did, silently."""
    whole, rng = fit(), np.random.default_rng(0)
    fit(tmp_path / "kept", epochs=20)
    size = (tmp_path / "kept" / CHECKPOINT).stat().st_size
    for number, place in enumerate([*rng.integers(0, 2000, 6), *rng.integers(0, size, 12)]):
        folder = shutil.copytree(tmp_path / "kept", tmp_path / str(number))
        content = bytearray((folder / CHECKPOINT).read_bytes())
        content[place] ^= 1 << int(rng.integers(8))
        (folder / CHECKPOINT).write_bytes(content)
        assert same(fit(folder, resume=True), whole)
        assert "is damaged" in capsys.readouterr().err


def test_the_damaged_one_does_not_become_the_one_before(tmp_path, capsys):
    fit(tmp_path, epochs=20)
    (tmp_path / CHECKPOINT).write_bytes(b"damaged")
    fit(tmp_path, epochs=21, resume=True)
    (tmp_path / CHECKPOINT).write_bytes(b"damaged")
    assert same(fit(tmp_path, resume=True), fit())
    assert "continuing from the checkpoint before it" in capsys.readouterr().err.splitlines()[-1]


def test_a_checkpoint_without_a_checksum_is_continued(tmp_path):
    """As 0.1.0 wrote them."""
    fit(tmp_path, epochs=10)
    with safe_open(tmp_path / CHECKPOINT, "pt") as file:
        facts = json.loads(file.metadata()["facts"])
        tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
    save_file(tensors, tmp_path / CHECKPOINT, {"facts": json.dumps(facts | {"format": 1})})
    assert same(fit(tmp_path, resume=True), fit())
    facts.pop("records")
    save_file(tensors, tmp_path / CHECKPOINT, {"facts": json.dumps(facts | {"format": 1})})
    with pytest.raises(UnseenError, match=r"is damaged .*: start again with overwrite=True"):
        fit(tmp_path, resume=True)


def test_on_a_full_disk_the_earlier_checkpoint_survives(tmp_path, monkeypatch):
    real = os.fsync

    def full(descriptor):
        if (tmp_path / CHECKPOINT).exists():
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(descriptor)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(UnseenError, match=r"cannot write to .*No space left"):
            fit(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {
        CHECKPOINT,
        PREVIOUS,
        "log.jsonl",
    }  # no half-written file is left
    assert same(fit(tmp_path, resume=True), fit())


def test_a_folder_that_cannot_be_written_is_told_before_the_work(tmp_path, monkeypatch):
    file = tmp_path / "file"
    file.touch()
    at_step(monkeypatch, 1, lambda: pytest.fail("trained although nothing can be kept"))
    with pytest.raises(UnseenError, match="cannot write to"):
        fit(file / "folder")
    if Path("/proc/self").exists():
        with pytest.raises(UnseenError, match="cannot write to"):
            fit(Path("/proc/unseen"))


def test_nan_in_the_vectors_is_refused_with_the_class():
    problem = small_problem()
    matrix = problem.vectors.matrix.copy()
    matrix[3, 1] = np.nan
    broken = replace(problem, vectors=ClassVectors((matrix,), ("made-up",), [{}]))
    with pytest.raises(UnseenError, match=r"vectors of 1 classes hold NaN or infinity: c3\."):
        fit(problem=broken)
    with pytest.raises(UnseenError, match="NaN"):
        small_method("dgp").predict(broken, fit().state)


@pytest.mark.parametrize("variant", ["dgp", "sgcn", "gcnz", "gat, 1 hidden", "dgp, no bias"])
def test_zero_vectors_give_finite_classifiers(variant):
    problem = small_problem()
    matrix = problem.vectors.matrix.copy()
    matrix[::2] = 0
    for part in (matrix, np.zeros_like(matrix)):
        solution = fit(variant=variant, problem=replace(problem, vectors=ClassVectors((part,), ("made-up",), [{}])))
        assert np.isfinite(solution.classifiers).all()


def test_without_seen_classes_there_is_nothing_to_learn():
    problem = small_problem()
    with pytest.raises(UnseenError, match="there are none"):
        fit(problem=replace(problem, seen=problem.seen[:0], classifiers=problem.classifiers[:0]))


def test_a_loss_that_is_no_number_stops_the_training_and_keeps_the_checkpoint(tmp_path, monkeypatch):
    fit(tmp_path, epochs=10)
    before = (tmp_path / CHECKPOINT).read_bytes()
    step = Training.step
    monkeypatch.setattr(Training, "step", lambda self: step(self) * torch.nan)
    with pytest.raises(UnseenError, match="loss became nan by epoch 20: lower the learning rate"):
        fit(tmp_path, resume=True)
    assert (tmp_path / CHECKPOINT).read_bytes() == before


def test_float64_is_an_option():
    single, double = fit(dropout=0.0), fit(dropout=0.0, dtype="float64")
    assert double.classifiers.dtype == np.float32
    assert 0 < np.abs(single.classifiers - double.classifiers).max() < 1e-4
    with pytest.raises(UnseenError, match="float32 or float64"):
        fit(dtype="float16")


def test_a_state_that_does_not_fit_is_refused():
    state = fit().state
    with pytest.raises(UnseenError, match="does not fit"):
        small_method("dgp", hidden=4).predict(small_problem(), state)


def test_prediction_on_a_grown_hierarchy_answers_for_the_new_node():
    from unseen.taxonomy import Node

    problem = small_problem()
    solution = fit(problem=problem)
    grown = problem.taxonomy.extend([Node("new", ("new",), (problem.taxonomy.ids[5],), "")])
    matrix = np.zeros((len(grown), 7), np.float32)
    matrix[grown.indices(problem.taxonomy.ids)] = problem.vectors.matrix
    row = grown.index("new")
    matrix[row] = problem.vectors.matrix[5]
    bigger = replace(
        problem,
        taxonomy=grown,
        vectors=ClassVectors((matrix,), ("x",), [{}]),
        seen=grown.indices([problem.taxonomy.ids[i] for i in problem.seen]),
    )
    every = small_method("dgp").predict(bigger, solution.state)
    alone = small_method("dgp").predict(bigger, solution.state, np.array([row]))
    np.testing.assert_allclose(alone[0], every[row], atol=1e-6)
    assert np.linalg.norm(alone[0]) == pytest.approx(1, abs=1e-5)
