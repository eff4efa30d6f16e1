"""From scores to probabilities, summed up the hierarchy, and the verdict: the node that a photo is known to show."""

from unseen.probability.numbers import ProbabilityNumbers
from unseen.probability.sums import NodeSums
from unseen.probability.verdicts import Verdict

__all__ = ["NodeSums", "ProbabilityNumbers", "Verdict"]
