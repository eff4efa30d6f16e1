from __future__ import annotations

import pytest
import torch

from unseen.methods.graph.dropout import Masks


def masks(rate: float, seed: int = 0, **settings) -> Masks:
    return Masks(rate, torch.Generator().manual_seed(seed), **settings)


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


def test_no_rate_and_early_layers_drop_nothing():
    assert masks(0.0)(0, torch.Size([3, 3])) is None
    draw = masks(0.5, first=1)
    assert draw(0, torch.Size([3, 3])) is None
    assert draw(1, torch.Size([3, 3])) is not None
