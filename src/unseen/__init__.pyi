from .answers.answer import Answer, Label, Unreadable
from .answers.probability import Verdict
from .apps.bulk import Labeller
from .bundle.bundle import Bundle
from .evaluation.protocol import Evaluation
from .hierarchy.core import Hierarchy, Node
from .methods.base import Method, Problem, Solution
from .methods.registry import register
from .model import Model, load, train
from .networks.base import Network
from .networks.custom import from_module
from .networks.linear import from_linear
from .networks.loading import load_network
from .networks.store import FeatureStore
from .photos.transforms import PhotoTransform
from .training.settings import CalibrateSettings, FinetuneSettings, TrainSettings
from .util.errors import UnseenError
from .util.run import Run
from .vectors.class_vectors import load_vectors
from .vectors.sources import WordVectors

__version__: str
__all__ = [
    "Answer",
    "Bundle",
    "CalibrateSettings",
    "Evaluation",
    "FeatureStore",
    "FinetuneSettings",
    "Hierarchy",
    "Label",
    "Labeller",
    "Method",
    "Model",
    "Network",
    "Node",
    "PhotoTransform",
    "Problem",
    "Run",
    "Solution",
    "TrainSettings",
    "Unreadable",
    "UnseenError",
    "Verdict",
    "WordVectors",
    "__version__",
    "from_linear",
    "from_module",
    "load",
    "load_network",
    "load_vectors",
    "register",
    "train",
]
