from __future__ import annotations

import pytest
import torch

from support.problems import hit_unseen, make_problem, make_world
from unseen.methods import make_method
from unseen.util.run import Run
from unseen_lab.methods.devise import DeViSESettings, _Model, truncated_hinge
from unseen_lab.methods.photo_classes import PhotoClasses


def test_loss_by_hand():
    # Own scores 0.5 and 0.9. Photo 0: label 1 (0.45) breaks the margin, label 2 (0.1) does not. Photo 1: none does.
    scores = torch.tensor([[0.5, 0.45, 0.1], [0.2, 0.9, 0.3]])
    everything = torch.ones(3, dtype=torch.bool)
    loss = truncated_hinge(scores, torch.tensor([0, 1]), everything, 0.1, torch.Generator().manual_seed(0))
    assert loss.item() == pytest.approx((0.1 - 0.5 + 0.45) / 2)


def test_false_label_is_drawn_evenly_from_those_that_break_the_margin():
    scores = torch.tensor([[0.0, 1.0, 2.0, -5.0, 3.0]]).repeat(6000, 1)
    candidates = torch.tensor([True, True, True, True, False])  # the last has no vector
    loss = truncated_hinge(
        scores, torch.zeros(6000, dtype=torch.int64), candidates, 0.1, torch.Generator().manual_seed(0)
    )
    assert loss.item() == pytest.approx((1.1 + 2.1) / 2, abs=0.05)


def test_learns_to_rank_seen_photos():
    problem, run = make_problem(photos=20, features=8), Run(show_progress=False, device="cpu")
    data = PhotoClasses.of(problem, "devise")
    model = _Model(data, 0.1, DeViSESettings(), run)
    model.train(100, run)
    scores = data.take(slice(None)) @ model.map() @ data.vectors.T
    assert (scores.argmax(axis=1) == data.labels).mean() > 0.95


def test_margin_and_epochs_are_chosen_on_hidden_classes():
    problem, photos = make_world()
    solution = make_method("devise", {"epochs": 20}).fit(problem, Run(show_progress=False, device="cpu"))
    assert hit_unseen(solution, photos) > 0.4  # chance is 0.1
    chosen = solution.record.chosen
    assert chosen["margin"] in (0.1, 0.3, 1.0) and chosen["epochs"] in (1, 2, 5, 10, 20)
    assert solution.record.extra["hidden_hit@1"] > 35  # of 6 hidden classes: chance is 17
