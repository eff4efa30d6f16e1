"""Methods that predict a classifier for every class: graph networks, kin, and the baselines."""

from unseen.methods.base import (
    FitRecord,
    Method,
    NoSettings,
    Problem,
    Solution,
    State,
    WordSpace,
    has_vector,
    normalise_rows,
)
from unseen.methods.projections import Append1, Linear, Unit
from unseen.methods.registry import get_method, make_method, method_names, register

__all__ = ["Method", "NoSettings", "Problem", "Solution", "get_method", "make_method", "method_names", "register"]
__all__ += ["Append1", "FitRecord", "Linear", "State", "Unit", "WordSpace", "has_vector", "normalise_rows"]
