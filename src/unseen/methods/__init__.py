"""Methods that predict a classifier for every class: graph networks, kin, and the baselines."""

from unseen.methods.base import Method, NoSettings, Problem, Solution
from unseen.methods.registry import get_method, make_method, method_names, register

__all__ = ["Method", "NoSettings", "Problem", "Solution", "get_method", "make_method", "method_names", "register"]
