"""Hit@k and verdicts on photos by class: a table with a row for each photo, and figures computed from it."""

from unseen.evaluation.protocol import Evaluation, evaluate

__all__ = ["Evaluation", "evaluate"]
