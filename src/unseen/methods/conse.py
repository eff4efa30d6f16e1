"""ConSE: a photo is the mixture of the seen classes that it looks like (Norouzi et al., ICLR 2014, arXiv 1312.5650)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from unseen.methods.base import FitRecord, Problem, Solution, WordSpace, normalise_rows
from unseen.methods.projections import ConvexCombination
from unseen.util.run import Run
from unseen.util.settings import AT_LEAST_1


@dataclass(frozen=True)
class ConSESettings:
    """Settings of ConSE.

    Args:
        top: T, how many seen classes are mixed; the default is the paper's best.
    """

    top: Annotated[int, AT_LEAST_1] = 10


class ConSE(WordSpace):
    """Nothing is learned. With p the network's softmax over seen classes and s their unit vectors, a photo becomes

        f(x) = sum_{t=1..T} p(y_t | x) s(y_t) / sum_{t=1..T} p(y_t | x)        y_t: the T most probable seen classes

    and class u scores cos(f(x), s(u)). A class without a vector scores 0.

    Shapes: p is M long, s(u) and f(x) are S long; the class matrix is N x S.
    """

    name = "conse"
    Settings = ConSESettings

    def fit(self, problem: Problem, run: Run) -> Solution:
        weight, bias = problem.classifiers[:, :-1], problem.classifiers[:, -1]
        vectors = normalise_rows(problem.vectors.matrix[problem.seen])
        projection = ConvexCombination(weight, bias, vectors, self.settings.top)
        return Solution(self.predict(problem, {}), projection, record=FitRecord(weights=0))
