"""Stage 1: what it learns, resumes and refuses; and dropout."""

from __future__ import annotations

import json
import os
import signal
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from support.graphs import small_method, small_problem
from unseen.methods import Solution
from unseen.methods.graph.adjacency import receptive_field
from unseen.methods.graph.loop import CHECKPOINT
from unseen.methods.graph.training import Masks, Training
from unseen.util.errors import UnseenError
from unseen.util.run import Run
from unseen.vectors.class_vectors import ClassVectors

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
    assert solution.classifiers.shape == (len(problem.hierarchy), problem.classifiers.shape[1])
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
        with pytest.raises(UnseenError, match=r"stopped after epoch 13 of 25; resume it"):
            fit(tmp_path, variant=variant)
    assert epochs_logged(tmp_path) == [1, 10, 13]
    resumed = fit(tmp_path, variant=variant, resume=True)
    assert same(resumed, whole)
    assert epochs_logged(tmp_path) == [1, 10, 13, 20, 25]
    assert resumed.record.seconds > 0


def test_a_finished_training_can_be_given_more_epochs(tmp_path):
    fit(tmp_path, epochs=15)
    assert same(fit(tmp_path, epochs=EPOCHS, resume=True), fit())
    assert same(fit(tmp_path, epochs=EPOCHS, resume=True), fit())  # nothing left to do: the same result again
    with pytest.raises(UnseenError, match="25 epochs already, more than the 12"):
        fit(tmp_path, epochs=12, resume=True)


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
    from unseen.hierarchy.core import Node

    problem = small_problem()
    solution = fit(problem=problem)
    grown = problem.hierarchy.extend([Node("new", ("new",), (problem.hierarchy.ids[5],), "")])
    matrix = np.zeros((len(grown), 7), np.float32)
    matrix[grown.indices(problem.hierarchy.ids)] = problem.vectors.matrix
    row = grown.index("new")
    matrix[row] = problem.vectors.matrix[5]
    bigger = replace(
        problem,
        hierarchy=grown,
        vectors=ClassVectors((matrix,), ("x",), [{}]),
        seen=grown.indices([problem.hierarchy.ids[i] for i in problem.seen]),
    )
    every = small_method("dgp").predict(bigger, solution.state)
    alone = small_method("dgp").predict(bigger, solution.state, np.array([row]))
    np.testing.assert_allclose(alone[0], every[row], atol=1e-6)
    assert np.linalg.norm(alone[0]) == pytest.approx(1, abs=1e-5)


def masks(rate: float, seed: int = 0) -> Masks:
    return Masks([rate, rate], torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("rate", [0.5, 0.3])
def test_a_share_is_dropped_everywhere_and_the_rest_scaled_up(rate):
    mask = masks(rate)(0, torch.Size([300, 500]))
    assert mask.unique().tolist() == [0.0, pytest.approx(1 / (1 - rate))]
    assert float((mask == 0).float().mean()) == pytest.approx(rate, abs=0.005)
    by_column, by_row = (mask == 0).float().mean(0), (mask == 0).float().mean(1)
    assert float((by_column - rate).abs().max()) < 0.15  # five standard deviations
    assert float((by_row - rate).abs().max()) < 0.12


def test_rows_columns_and_draws_are_independent():
    draw = masks(0.5)
    first = draw(0, torch.Size([64, 1000])).clone()
    second = draw(0, torch.Size([64, 1000])).clone()
    for a, b in [
        (first, second),
        (first[1:], first[:-1]),
        (first[:, 1:], first[:, :-1]),
        (first[:, 8:], first[:, :-8]),
    ]:
        assert float((a == b).float().mean()) == pytest.approx(0.5, abs=0.01)


@pytest.mark.parametrize("rate", [0.5, 0.3])
def test_the_generator_decides_and_its_state_resumes(rate):
    draw, again = masks(rate), masks(rate)
    shape = torch.Size([13, 7])  # no multiple of 64
    assert torch.equal(draw(0, shape), again(0, shape))
    state = draw.generator.get_state()
    later = draw(1, shape).clone()
    fresh = masks(rate, seed=5)
    fresh.generator.set_state(state)
    assert torch.equal(fresh(1, shape), later)


def test_each_layer_has_its_own_rate():
    assert masks(0.0)(0, torch.Size([3, 3])) is None
    draw = Masks([0.0, 0.5], torch.Generator().manual_seed(0))
    assert draw(0, torch.Size([3, 3])) is None
    assert draw(1, torch.Size([3, 3])) is not None


@pytest.mark.parametrize(
    ("variant", "settings", "width", "rates"),
    [
        ("dgp", {}, 300, [0.5, 0.5]),  # the paper's
        ("sgcn", {}, 300, [0.5, 0.5]),
        ("dgp", {}, 1024, [0.5, 0.5]),
        ("dgp", {}, 200, [0.25, 0.5]),
        ("dgp", {}, 100, [0.0, 0.5]),  # the built-in vectors
        ("sgcn", {}, 100, [0.25, 0.5]),
        ("dgp", {"input_dropout": 0.5}, 100, [0.5, 0.5]),
        ("dgp", {"dropout": 0.0}, 300, [0.0, 0.0]),
        ("dgp", {"dropped_layers": 1}, 300, [0.0, 0.5]),
    ],
)
def test_short_vectors_are_not_thinned_out(variant, settings, width, rates):
    """The paper drops half of 300 numbers; half of a hundred leaves too few to tell siblings apart."""
    assert small_method(variant, **settings).settings.dropout_rates(2, width) == pytest.approx(rates)


def test_only_the_wanted_inputs_are_dropped():
    """Training sees the masks that the settings ask for: without any it repeats, whatever the seed of the masks."""
    problem, method = small_problem(), small_method("dgp")
    field = receptive_field(method.adjacencies(problem.hierarchy), problem.seen)
    losses = []
    for rate in (0.0, 0.5):
        method = small_method("dgp", input_dropout=rate, dropout=0.0)
        for seed in (0, 1):
            torch.manual_seed(0)
            network = method.build(problem.vectors.matrix.shape[1], problem.classifiers.shape[1])
            x = problem.vectors.matrix[field.inputs]
            losses.append(float(Training(network, field, x, problem.targets(), method.settings, seed).step()))
    assert losses[0] == losses[1] != losses[2] != losses[3]
