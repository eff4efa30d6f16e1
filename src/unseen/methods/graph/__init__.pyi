from .adjacency import Adjacency, neighbours
from .dgp import DGPMethod, GCNZMethod, SGCNMethod
from .layers import GraphLayer, GraphNetwork, Operator
from .training import GraphMethod, HiddenSettings

__all__ = [
    "Adjacency",
    "DGPMethod",
    "GCNZMethod",
    "GraphLayer",
    "GraphMethod",
    "GraphNetwork",
    "HiddenSettings",
    "Operator",
    "SGCNMethod",
    "neighbours",
]
