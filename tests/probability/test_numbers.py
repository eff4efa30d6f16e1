"""From scores to probabilities, with a calibration and without."""

import numpy as np
import pytest
import torch

from unseen.probability.numbers import SHARPNESS, SURE, ProbabilityNumbers, plain_probabilities

NUMBERS = ProbabilityNumbers(1.5, 2.0, 0.2, 0.8, 2.0, 0.4, 0.3, np.geomspace(0.5, 30, 7).tolist())
WAY = np.array([[0.5, 0.5], [0.0, 0.0], [0.0, 1.0]])  # from three seen candidates up to the unseen ones 1 and 4


def by_hand(logits, seen_scores, scores, own):
    """The formulas of the module, plainly."""
    softmax = lambda z: np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)  # noqa: E731
    like = lambda z: np.log(np.exp(SHARPNESS * z / scores.std(axis=1, keepdims=True)).mean(axis=1))  # noqa: E731
    odds = like(seen_scores) - like(scores)
    gate = 1 / (1 + np.exp(-(0.8 * (np.log(np.exp(logits).sum(axis=1)) - 2.0) + 0.4 * odds + 0.3)))[:, None]
    seen = softmax(1.5 * logits[:, own])
    climbed = np.zeros(scores.shape)
    climbed[:, [1, 4]] = seen @ WAY
    stays = 1 - climbed.sum(axis=1, keepdims=True)
    plain = softmax(2.0 * scores / scores.std(axis=1, keepdims=True))
    return gate * seen, (1 - gate) * ((0.8 + 0.2 * stays) * plain + 0.2 * climbed)


def test_probabilities_are_those_of_the_formulas():
    random = np.random.default_rng(0)
    arrays = [random.normal(size=(5, n)) for n in (4, 3, 6)]
    own, climb = np.array([0, 2, 3]), (torch.tensor([1, 4]), torch.tensor(WAY))
    found = NUMBERS.log_probabilities(*map(torch.tensor, arrays), torch.tensor(own), climb)
    for ours, expected in zip(found, by_hand(*arrays, own), strict=True):
        np.testing.assert_allclose(ours.exp().numpy(), expected, rtol=1e-6)
    np.testing.assert_allclose(sum(part.exp().sum(1) for part in found).numpy(), 1)


def test_one_group_alone_needs_no_gate():
    random = np.random.default_rng(0)
    scores, logits = torch.tensor(random.normal(size=(5, 4))), torch.tensor(random.normal(size=(5, 4)))
    nothing, no_way = torch.zeros(0, dtype=torch.int64), (torch.zeros(0, dtype=torch.int64), torch.zeros(0, 0))
    _, unseen = NUMBERS.log_probabilities(logits, scores[:, :0], scores, nothing, no_way)
    torch.testing.assert_close(unseen.exp(), torch.softmax(2.0 * scores / scores.std(1, keepdim=True, correction=0), 1))
    seen, _ = NUMBERS.log_probabilities(logits, scores, scores[:, :0], torch.arange(4), no_way)
    torch.testing.assert_close(seen.exp(), torch.softmax(1.5 * logits, 1))


def test_exponents_are_kept_interpolated_and_continued():
    for place, sure in enumerate(SURE):
        assert NUMBERS.exponent(sure) == pytest.approx(NUMBERS.exponents[place])
    found = [NUMBERS.exponent(sure) for sure in (0.01, 0.3, 0.55, 0.85, 0.93, 0.99, 0.9999)]
    assert (np.diff(found) > 0).all() and found[0] > 0


def test_they_survive_json():
    assert ProbabilityNumbers.from_json(NUMBERS.to_json()) == NUMBERS


def test_without_a_calibration_the_order_of_scores_stays_whatever_their_scale():
    scores = np.random.default_rng(0).normal(size=(3, 50)).astype(np.float32)
    scores[:, 7] = -np.inf  # no answer
    p = plain_probabilities(scores)
    np.testing.assert_allclose(p.sum(axis=1), 1, rtol=1e-5)
    assert (p.argmax(1) == scores.argmax(1)).all() and (p[:, 7] == 0).all()
    np.testing.assert_allclose(p, plain_probabilities(1000 * scores + 5), rtol=1e-3)
    assert np.isfinite(plain_probabilities(np.zeros((1, 3), np.float32))).all()
