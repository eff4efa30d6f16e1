"""ConSE: a photo is the mixture of the seen classes that it looks like (Norouzi et al., ICLR 2014, arXiv 1312.5650)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from unseen.methods.base import Solution
from unseen.methods.baselines.word_space import WordSpace
from unseen.methods.problem import Problem, normalise_rows
from unseen.methods.projections import ConvexCombination
from unseen.methods.registry import register
from unseen.methods.settings import AT_LEAST_1, Limit
from unseen.runtime.run import Run


@register("conse")
class ConSE(WordSpace):
    """Nothing is learned. With p the network's softmax over seen classes and s their unit vectors, a photo becomes

        f(x) = sum_{t=1..T} p(y_t | x) s(y_t) / sum_{t=1..T} p(y_t | x)        y_t: the T most probable seen classes

    and class u scores cos(f(x), s(u)). A class without a vector scores 0.
    """

    limits: ClassVar[dict[str, Limit]] = {"top": AT_LEAST_1}

    @dataclass(frozen=True)
    class Settings:
        top: int = 10  # T; the paper's best

    def fit(self, problem: Problem, run: Run) -> Solution:
        weight, bias = problem.classifiers[:, :-1], problem.classifiers[:, -1]
        vectors = normalise_rows(problem.vectors.matrix[problem.seen])
        projection = ConvexCombination(weight, bias, vectors, self.settings.top)
        return Solution(self.predict(problem, {}), projection, state={}, details={"weights": 0})
