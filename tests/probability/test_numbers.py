"""From scores to probabilities, with a calibration and without."""

import numpy as np
import torch

from unseen.probability.numbers import SURE, ProbabilityNumbers, plain_probabilities

NUMBERS = ProbabilityNumbers(
    1.5, 2.0, 0.2, 0.8, 2.0, 0.3, np.geomspace(0.2, 9, 7).tolist(), np.geomspace(0.5, 30, 7).tolist()
)
WAY = np.array([[0.5, 0.5], [0.0, 0.0], [0.0, 1.0]])  # from three seen candidates up to the unseen ones 1 and 4


def by_hand(logits, scores, own):
    """The formulas of the module, plainly."""
    softmax = lambda z: np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)  # noqa: E731
    gate = 1 / (1 + np.exp(-(0.8 * (np.log(np.exp(logits).sum(axis=1)) - 2.0) + 0.3)))[:, None]
    seen = softmax(1.5 * logits[:, own])
    climbed = np.zeros(scores.shape)
    climbed[:, [1, 4]] = seen @ WAY
    stays = 1 - climbed.sum(axis=1, keepdims=True)
    plain = softmax(2.0 * scores / scores.std(axis=1, keepdims=True))
    return gate * seen, (1 - gate) * ((0.8 + 0.2 * stays) * plain + 0.2 * climbed)


def test_probabilities_are_those_of_the_formulas():
    random = np.random.default_rng(0)
    scores, logits, own = random.normal(size=(5, 6)), random.normal(size=(5, 4)), np.array([0, 2, 3])
    climb = torch.tensor([1, 4]), torch.tensor(WAY)
    found = NUMBERS.log_probabilities(torch.tensor(logits), torch.tensor(scores), torch.tensor(own), climb)
    for ours, expected in zip(found, by_hand(logits, scores, own), strict=True):
        np.testing.assert_allclose(ours.exp().numpy(), expected, rtol=1e-6)
    np.testing.assert_allclose(sum(part.exp().sum(1) for part in found).numpy(), 1)


def test_one_group_alone_needs_no_gate():
    random = np.random.default_rng(0)
    scores, logits = torch.tensor(random.normal(size=(5, 4))), torch.tensor(random.normal(size=(5, 4)))
    nothing = torch.zeros(0, dtype=torch.int64)
    _, unseen = NUMBERS.log_probabilities(logits, scores, nothing)
    torch.testing.assert_close(unseen.exp(), torch.softmax(2.0 * scores / scores.std(1, keepdim=True, correction=0), 1))
    seen, _ = NUMBERS.log_probabilities(logits, scores[:, :0], torch.arange(4))
    torch.testing.assert_close(seen.exp(), torch.softmax(1.5 * logits, 1))


def test_exponents_are_kept_interpolated_and_continued():
    gate = np.array([0.0, 1.0])
    for place, sure in enumerate(SURE):
        expected = [NUMBERS.unseen_exponents[place], NUMBERS.seen_exponents[place]]
        np.testing.assert_allclose(NUMBERS.exponent(sure, gate), expected)
    surenesses = [0.01, 0.3, 0.55, 0.85, 0.93, 0.99, 0.9999]
    found = np.array([NUMBERS.exponent(sure, gate) for sure in surenesses])
    assert (np.diff(found, axis=0) > 0).all() and (found > 0).all()


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
