"""Stage 1: (hierarchy, class vectors, network) -> a classifier for every class, as a bundle."""

from unseen.training.classifiers import fit_classifiers
from unseen.training.default import default_bundle
from unseen.training.stage1 import train

__all__ = ["default_bundle", "fit_classifiers", "train"]
