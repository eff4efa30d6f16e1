from .advice.suggestions import Suggestion, suggest
from .backbones.base import Backbone
from .backbones.custom import from_module
from .backbones.linear import from_linear
from .backbones.loading import load_backbone
from .bundle.core import Bundle
from .bundle.growth import add, remove, rename
from .bundle.records import CalibrationRecord, FinetuneRecord, Holdout, TrainingRecord
from .calibration.fit import calibrate
from .classifier import ZeroShotClassifier, load
from .errors import UnseenError
from .evaluation.protocol import Evaluation, evaluate
from .exporting.files import export
from .features.construction import build_store
from .features.store import FeatureStore
from .finetuning.settings import FinetuneSettings
from .finetuning.stage2 import finetune
from .methods.base import Method, Solution
from .methods.problem import Problem
from .methods.records import FitRecord
from .methods.registry import method_names, register
from .photos.transforms import PhotoTransform
from .probability.numbers import ProbabilityNumbers
from .probability.verdicts import Verdict
from .recognition.answers import Answer, Guess, Label, Unreadable
from .recognition.explanations import Explanation
from .recognition.heatmap import HeatMap
from .runtime.run import Run
from .semantics.sources import WordVectors
from .semantics.vectors import ClassVectors, class_vectors, load_vectors
from .taxonomy.core import Taxonomy
from .taxonomy.nodes import Node
from .training.classifiers import fit_classifiers
from .training.stage1 import train

__version__: str
__all__ = [
    "Answer",
    "Backbone",
    "Bundle",
    "CalibrationRecord",
    "ClassVectors",
    "Evaluation",
    "Explanation",
    "FeatureStore",
    "FinetuneRecord",
    "FinetuneSettings",
    "FitRecord",
    "Guess",
    "HeatMap",
    "Holdout",
    "Label",
    "Method",
    "Node",
    "PhotoTransform",
    "ProbabilityNumbers",
    "Problem",
    "Run",
    "Solution",
    "Suggestion",
    "Taxonomy",
    "TrainingRecord",
    "Unreadable",
    "UnseenError",
    "Verdict",
    "WordVectors",
    "ZeroShotClassifier",
    "__version__",
    "add",
    "build_store",
    "calibrate",
    "class_vectors",
    "evaluate",
    "export",
    "finetune",
    "fit_classifiers",
    "from_linear",
    "from_module",
    "load",
    "load_backbone",
    "load_vectors",
    "method_names",
    "register",
    "remove",
    "rename",
    "suggest",
    "train",
]
