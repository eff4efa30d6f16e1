"""SE-GZSL: zero-shot learning via synthesised examples (Verma, Arora, Mishra and Rai, CVPR 2018, arXiv 1712.03878)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import torch
from torch import nn

from unseen import Method, Problem, Run, Solution
from unseen.methods import FitRecord, State, Unit, normalise_rows
from unseen.networks import choose_device
from unseen.util import AT_LEAST_1, AT_LEAST_2, NOT_NEGATIVE, POSITIVE, progress
from unseen_lab.methods.photo_classes import PhotoClasses, best, stops, take_step

SHRINKAGES = (10.0, 1.0, 3.0, 30.0, 100.0, 0.3)  # of the classifier's covariance, in units of its mean variance
CHECKS = 6  # times at which the number of steps may end
CHUNK = 256  # classes whose features are made at once
SLOPE = 0.2  # of the leaky ReLU


@dataclass(frozen=True)
class SEGZSLSettings:
    """Settings of SE-GZSL.

    Args:
        latent: Length of z, what a photo has beside its class.
        hidden_units: Of the one hidden layer that the encoder, the generator and the regressor have.
        feedback: Weight of the regressor's answer to generated features, in its own loss and in the generator's.
        prior: Weight of the term that draws what the encoder finds in generated features to the prior of z.
        synthesised: Features made for each class.
        shrinkage: Of the classifier's covariance; None: chosen on hidden seen classes.
        steps: How many at most; fewer where hidden seen classes are recognised better with fewer.
        batch: Photos a step.
        learning_rate: Adam's.
        hidden: Share of the seen classes that is hidden for these choices.
    """

    latent: Annotated[int, AT_LEAST_1] = 64
    hidden_units: Annotated[int, AT_LEAST_1] = 512
    feedback: Annotated[float, NOT_NEGATIVE] = 1.0
    prior: Annotated[float, NOT_NEGATIVE] = 0.1
    synthesised: Annotated[int, AT_LEAST_2] = 30
    shrinkage: Annotated[float | None, POSITIVE] = None
    steps: Annotated[int, AT_LEAST_1] = 640
    batch: Annotated[int, AT_LEAST_1] = 64
    learning_rate: Annotated[float, NOT_NEGATIVE] = 1e-3
    hidden: Annotated[float, POSITIVE] = 0.2


class SEGZSL(Method):
    """A conditional variational autoencoder makes features of classes that no photo shows; a classifier learns from
    them. With x a photo's features and a the vector of its class, both scaled to entries of mean square 1, as z has
    them, two steps alternate:

        regressor    R(a | x)   least |R(x) - a|^2 over photos, and `feedback` times that over generated features
        autoencoder  E(z | x), G(x | z, a)
                     least  |G(z, a) - x|^2 / 2 v  +  KL(E(z | x) || N(0, I))                         over photos
                          + feedback |R(G(z, a)) - a|^2 / 2  +  prior KL(E(z | G(z, a)) || N(0, I))   z ~ N(0, I)

    so that generated features must tell their class to the regressor, which learns at the same time; the last two terms
    train the generator alone. (The paper has one more, the likelihood of a generated feature under its own generator:
    with a fixed variance that is a constant.) Then `synthesised` features G(z, a_u), z ~ N(0, I), are made of every
    class u, seen or not, and the classifier is the Gaussian one: with m_u their mean, and C the covariance within
    classes plus `shrinkage` times its mean variance,

        score(x, u) = m_u' C^-1 x - m_u' C^-1 m_u / 2

    The paper leaves open the layers (here of one width, with a leaky ReLU), the likelihoods (Gaussian, of fixed
    variance: v is the mean variance of x within classes, for vectors it is 1) and the weights of the terms. It trains a
    support vector machine or a softmax on the synthesised features; the Gaussian classifier has a closed form, also for
    a class that is added later. The number of steps and the shrinkage are chosen on hidden seen classes.

    Shapes: x is D long, a S long, z `latent` long; the class matrix is N x (D + 1), with the rows
    [C^-1 m_u, -m_u' C^-1 m_u / 2].
    """

    name = "se-gzsl"
    Settings = SEGZSLSettings
    needs_features = needs_vector = True

    def fit(self, problem: Problem, run: Run) -> Solution:
        data, s = PhotoClasses.of(problem, self.name), self.settings
        shrinkages = SHRINKAGES if s.shrinkage is None else (s.shrinkage,)
        steps, shrinkage, accuracy = s.steps, shrinkages[0], None
        split = data.hidden(s.hidden, run.seed)
        if split is not None:
            accuracy, steps, shrinkage = best(self._try(*split, shrinkages, run))
        networks = _Networks(data, s, run)
        loss = networks.train(int(steps), run)
        covariance = networks.covariance()
        state = {
            "inverse": _inverse(covariance, shrinkage),
            "seed": np.array([run.seed], np.int64),
            **networks.generator_arrays(),
        }
        chosen = {"steps": int(steps), "shrinkage": shrinkage}
        extra = {} if accuracy is None else {"hidden_hit@1": round(100 * accuracy, 2)}
        record = FitRecord(loss=loss, weights=networks.weight_count(), chosen=chosen, extra=extra)
        mean = np.zeros(data.width, np.float32)
        return Solution(self.predict(problem, state), Unit(mean), state, record, self.answers(problem))

    def predict(self, problem: Problem, state: State, rows: np.ndarray | None = None) -> np.ndarray:
        vectors = _scaled(problem.vectors.matrix[problem.rows_or_all(rows)])
        noise = _noise(self.settings, int(state["seed"][0]))
        return _gaussian_rows(_class_means(state, vectors, noise), state["inverse"])

    def _try(
        self, rest: PhotoClasses, out: PhotoClasses, shrinkages: tuple[float, ...], run: Run
    ) -> list[tuple[float, ...]]:
        """(accuracy on hidden classes, steps, shrinkage) at each of a few moments."""
        networks, tried = _Networks(rest, self.settings, run), []
        project, noise = Unit(np.zeros(out.width)), _noise(self.settings, run.seed)
        for steps in stops(networks, self.settings.steps, CHECKS, run, "SE-GZSL on hidden classes"):
            means = _class_means(networks.generator_arrays(), _scaled(out.vectors), noise)
            covariance = networks.covariance()
            ways = [_gaussian_rows(means, _inverse(covariance, shrinkage)).T for shrinkage in shrinkages]
            accuracies = out.accuracies(lambda photos, ways=ways: (project(photos) @ rows for rows in ways))
            tried += [(accuracy, steps, shrinkage) for accuracy, shrinkage in zip(accuracies, shrinkages, strict=True)]
        return tried


def _noise(settings: SEGZSLSettings, seed: int) -> np.ndarray:
    """z of the synthesised features: the same for all classes, which differ by their vectors alone."""
    noise = np.random.default_rng(seed).normal(size=(settings.synthesised, settings.latent))
    return (noise - noise.mean(axis=0)).astype(np.float32)


def _hidden(arrays: dict[str, np.ndarray], vectors: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """The generator's hidden layer for these classes (C) and each z (k), C x k x units.

    What follows is linear, so that means and covariances of features are those of this layer, brought to features.
    """
    hidden = (vectors @ arrays["from_vector"])[:, None] + (noise @ arrays["from_noise"] + arrays["hidden_bias"])[None]
    return np.where(hidden > 0, hidden, SLOPE * hidden)


def _class_means(arrays: dict[str, np.ndarray], vectors: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """m_u: the mean of the synthesised features of each class, C x D."""
    parts = np.array_split(vectors, max(1, len(vectors) // CHUNK))
    hidden = np.concatenate([_hidden(arrays, part, noise).mean(axis=1) for part in parts])
    return hidden @ arrays["output"] + arrays["output_bias"]


def _inverse(covariance: np.ndarray, shrinkage: float) -> np.ndarray:
    variance = float(np.trace(covariance)) / len(covariance) or 1.0
    return np.linalg.inv(covariance + shrinkage * variance * np.eye(len(covariance))).astype(np.float32)


def _gaussian_rows(means: np.ndarray, inverse: np.ndarray) -> np.ndarray:
    """For photos of length 1, where the classifier is one of photos of length sqrt(D)."""
    weights = means @ inverse
    biases = -(weights * means).sum(axis=1, keepdims=True) / 2
    return np.concatenate([weights * np.sqrt(means.shape[1]), biases], axis=1).astype(np.float32)


def _scaled(matrix: np.ndarray) -> np.ndarray:
    """Rows with entries of mean square 1."""
    return normalise_rows(matrix) * np.float32(np.sqrt(matrix.shape[1]))


class _Networks:
    """Encoder, generator and regressor, and the photos that they learn from."""

    def __init__(self, data: PhotoClasses, settings: SEGZSLSettings, run: Run):
        self.settings, self.device = settings, choose_device(run.device)
        self.data, self.vectors = data, _scaled(data.vectors)
        self.width, self.size = data.width, data.vectors.shape[1]
        means = data.class_means(lambda part, photos: _scaled(photos))
        centre = np.bincount(data.labels, minlength=len(data)) @ means / data.photos
        within = [float(np.square(_scaled(photos) - means[data.labels[part]]).sum()) for part, photos in data.chunks()]
        total = [float(np.square(_scaled(photos) - centre).sum()) for _, photos in data.chunks()]
        entries = data.photos * data.width
        # Without spread, as with one photo a class, errors are measured as if photos spread as classes do.
        self.variance = max(sum(within) / entries, 0.1 * sum(total) / entries, 1e-8)
        self.noise = torch.Generator().manual_seed(run.seed)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(run.seed)
            self.encoder = _perceptron(self.width, settings.hidden_units, 2 * settings.latent).to(self.device)
            inputs = settings.latent + self.size
            self.generator = _perceptron(inputs, settings.hidden_units, self.width).to(self.device)
            self.regressor = _perceptron(self.width, settings.hidden_units, self.size).to(self.device)
        with torch.no_grad():  # start from the mean photo
            last = self.generator[2]
            assert isinstance(last, nn.Linear)
            last.bias.copy_(torch.from_numpy(centre.astype(np.float32)).to(self.device))
        autoencoder = [*self.encoder.parameters(), *self.generator.parameters()]
        self.first = torch.optim.Adam(self.regressor.parameters(), lr=settings.learning_rate)
        self.second = torch.optim.Adam(autoencoder, lr=settings.learning_rate)

    def train(self, steps: int, run: Run, what: str = "SE-GZSL") -> float:
        """Take more pairs of steps; the mean reconstruction error of the last tenth, in units of v."""
        errors = []
        with progress(what, steps, run.show_progress) as bar:
            for _ in range(steps):
                chosen = torch.randint(self.data.photos, (self.settings.batch,), generator=self.noise).numpy()
                photos = torch.from_numpy(_scaled(self.data.take(chosen))).to(self.device)
                vectors = torch.from_numpy(self.vectors[self.data.labels[chosen]]).to(self.device)
                self._regressor_step(photos, vectors)
                errors.append(self._autoencoder_step(photos, vectors))
                bar.advance(1, error=f"{errors[-1]:.3f}")
        return float(np.mean(errors[-max(1, steps // 10) :])) if errors else 0.0

    def _regressor_step(self, photos: torch.Tensor, vectors: torch.Tensor) -> None:
        with torch.no_grad():
            made = self._made(vectors)
        loss = _squares(self.regressor(photos) - vectors)
        take_step(self.first, loss + self.settings.feedback * _squares(self.regressor(made) - vectors))

    def _autoencoder_step(self, photos: torch.Tensor, vectors: torch.Tensor) -> float:
        mean, spread = self.encoder(photos).chunk(2, dim=1)
        z = mean + (spread / 2).exp() * self._normal(len(photos))
        error = _squares(self.generator(torch.cat([z, vectors], dim=1)) - photos) / (2 * self.variance)
        loss = error + _divergence(mean, spread)
        made = self._made(vectors)
        loss = loss + self.settings.feedback / 2 * _squares(self.regressor(made) - vectors)
        if self.settings.prior:  # the generator's doing: the encoder itself learns from photos
            fixed = {name: weights.detach() for name, weights in self.encoder.named_parameters()}
            encoded = torch.func.functional_call(self.encoder, fixed, (made,))
            loss = loss + self.settings.prior * _divergence(*encoded.chunk(2, dim=1))
        take_step(self.second, loss)
        return error.item() * 2 / self.width

    def _made(self, vectors: torch.Tensor) -> torch.Tensor:
        return self.generator(torch.cat([self._normal(len(vectors)), vectors], dim=1))

    def _normal(self, count: int) -> torch.Tensor:
        return torch.randn(count, self.settings.latent, generator=self.noise).to(self.device)

    def generator_arrays(self) -> dict[str, np.ndarray]:
        """The generator's weights, as `_generate` takes them."""
        first: Any = self.generator[0]
        last: Any = self.generator[2]
        weight, bias, output, output_bias = (
            tensor.detach().cpu().numpy().copy() for tensor in (first.weight, first.bias, last.weight, last.bias)
        )
        cut = self.settings.latent
        return {
            "from_noise": weight[:, :cut].T.copy(), "from_vector": weight[:, cut:].T.copy(), "hidden_bias": bias,
            "output": output.T.copy(), "output_bias": output_bias,
        }  # fmt: skip

    def covariance(self, classes: int = 200) -> np.ndarray:
        """Of synthesised features within classes, a limited number of them, D x D."""
        some = self.vectors[np.random.default_rng(0).permutation(len(self.vectors))[:classes]]
        arrays = self.generator_arrays()
        hidden = _hidden(arrays, some, _noise(self.settings, 1))
        centred = (hidden - hidden.mean(axis=1, keepdims=True)).reshape(-1, hidden.shape[-1])
        made = arrays["output"].T @ (centred.T @ centred / len(centred)) @ arrays["output"]
        return made.astype(np.float64) + self.variance * np.eye(self.width)  # G(x | z, a) is Gaussian, of variance v

    def weight_count(self) -> int:
        networks = (self.encoder, self.generator, self.regressor)
        return sum(weights.numel() for network in networks for weights in network.parameters())


def _perceptron(inputs: int, hidden: int, outputs: int) -> torch.nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, hidden), nn.LeakyReLU(SLOPE), nn.Linear(hidden, outputs))


def _squares(difference: torch.Tensor) -> torch.Tensor:
    return difference.square().sum(dim=1).mean()


def _divergence(mean: torch.Tensor, spread: torch.Tensor) -> torch.Tensor:
    """KL(N(mean, exp(spread)) || N(0, I)), averaged over photos."""
    return 0.5 * (mean.square() + spread.exp() - 1 - spread).sum(dim=1).mean()
