"""How well: Hit@k on photos by class, the balance of seen and unseen classes, novelty."""

from unseen.evaluation.protocol import Evaluation, evaluate

__all__ = ["Evaluation", "evaluate"]
