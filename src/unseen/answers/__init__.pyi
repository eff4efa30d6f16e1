from .choice import ListScorer, expect
from .prior import UNIFORM, commonness
from .scores import Scorer

__all__ = [
    "UNIFORM",
    "ListScorer",
    "Scorer",
    "commonness",
    "expect",
]
