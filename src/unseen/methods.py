"""The one interface of all methods, and their names.

A method turns a Problem into a Solution: a matrix with a row for every class, and a projection that brings photo
features into the same space, so that `projection(features) @ classifiers[u]` is the score of class u. For most methods
the projection only appends a 1 for the bias; for ConSE and the like it is where the method lives.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from importlib import import_module
from typing import Any, ClassVar, Protocol

import numpy as np

from unseen.errors import UnseenError
from unseen.problem import Problem
from unseen.projections import Projection
from unseen.run import Run
from unseen.settings import Limit, check_settings


@dataclass
class Solution:
    classifiers: np.ndarray  # N x E, float32
    projection: Projection  # features (n x D) -> n x E
    state: dict[str, np.ndarray]  # all that predict() needs
    details: dict[str, Any] = field(default_factory=dict)  # JSON: loss, epochs, weights, hop_weights, ...
    # Of a method that can tell, by answers(problem, rows) and trust(problem, state, rows); else None.
    answers: np.ndarray | None = None  # N, bool: False where the method has no answer; None means it answers all
    trust: np.ndarray | None = None  # N, 0..1: how well a class is supported by seen ones


class Method(Protocol):
    name: ClassVar[str]
    needs_features: ClassVar[bool]
    Settings: ClassVar[type]  # a dataclass of plain JSON values; the defaults are the paper's
    limits: ClassVar[Mapping[str, Limit]]  # of the settings, by name

    def __init__(self, settings: Any): ...

    def fit(self, problem: Problem, run: Run) -> Solution: ...

    def predict(self, problem: Problem, state: dict[str, np.ndarray], rows: np.ndarray | None = None) -> np.ndarray:
        """Class matrix rows (n x E) for `rows` of the problem's taxonomy, which may have grown since the fit."""
        ...


METHODS = {
    "dgp": "unseen.models.dgp:DGPMethod",
    "sgcn": "unseen.models.sgcn:SGCNMethod",
    "gcnz": "unseen.models.gcnz:GCNZMethod",
    "gat": "unseen.models.gat:GATMethod",
    "kin": "unseen.kin:Kin",
    "conse": "unseen.baselines.conse:ConSE",
    "devise": "unseen.baselines.devise:DeViSE",
    "exem": "unseen.baselines.exem:EXEM",
    "sync": "unseen.baselines.sync:SYNC",
    "eszsl": "unseen.baselines.eszsl:ESZSL",
    "structural": "unseen.baselines.structural:Structural",
    "network": "unseen.baselines.network:NetworkAlone",
}


def get_method(name: str) -> type[Method]:
    if name not in METHODS:
        close = get_close_matches(name, METHODS, n=1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        raise UnseenError(f"no method named {name!r}.{hint} There are: {', '.join(METHODS)}")
    module, attribute = METHODS[name].split(":")
    return getattr(import_module(module), attribute)


def make_method(name: str, settings: dict[str, Any] | None = None) -> Method:
    """A method with these settings; one that it does not have, or a value that it cannot work with, is refused."""
    kind = get_method(name)
    known = {item.name for item in fields(kind.Settings)}
    unknown = sorted(set(settings or {}) - known)
    if unknown:
        raise UnseenError(f"{name} has no setting {', '.join(map(repr, unknown))}. It has: {', '.join(sorted(known))}")
    chosen = kind.Settings(**(settings or {}))
    check_settings(name, chosen, kind.limits)
    return kind(chosen)
