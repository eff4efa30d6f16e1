"""Hit@k and verdicts on photos by class: a table with a row for each photo, and figures computed from it."""

from unseen.evaluation.metrics import RELATIONS, average_hits, class_hits, harmonic_mean, relations_to_seen
from unseen.evaluation.protocol import Evaluation, evaluate, evaluate_lists
from unseen.evaluation.table import NEVER, RanksTable

__all__ = ["NEVER", "Evaluation", "RanksTable", "average_hits", "class_hits", "evaluate", "evaluate_lists"]
__all__ += ["RELATIONS", "harmonic_mean", "relations_to_seen"]
