"""How probable classes are before anyone looks at the photo.

    common    score_c + WEIGHT * spread(x) * (commonness_c - mean)    for unseen classes c
    FILE      p(c | x) becomes proportional to weight_c * p(c | x)    for all classes, a node's weight for all below it

People photograph what they have words for. The network has learned from its photos how common the seen classes are; of
the unseen ones we only know WordNet's names (`tools/build_commonness.py`). `spread` is the standard deviation of the
photo's unseen scores. The balance of seen and unseen classes stays: `common` moves probability only from unseen classes
to other unseen ones.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from unseen.answers.algebra import Array, concatenate, log_softmax, logsumexp
from unseen.answers.probability import SHARPNESS, measure_spread
from unseen.data import data_file
from unseen.hierarchy.core import Hierarchy
from unseen.hierarchy.wordnet import BUILT_IN, wordnet_rows
from unseen.naming.meaning import find_class
from unseen.util.errors import UnseenError

WEIGHT = 0.8  # of commonness; chosen on half of the classes with photos, for four networks; flat from 0.5 to 1.0
HELP = "common, uniform, or a file of weights (name,weight); uniform+FILE: the weights alone"
HEADERS = {"id", "name", "class", "node", "weight"}

PriorLike: TypeAlias = "str | Path | Mapping[str, float] | Prior"


# -- how common names are --------------------------------------------------------------------------------------------


def commonness(hierarchy: Hierarchy, rows: np.ndarray) -> np.ndarray:
    """n: of WordNet's nouns in a built-in hierarchy; NaN for all others.

    A hierarchy of the user's own says by itself what is expected: there a common word is no more probable, and most of
    the common ones are far up ("thing", "food").
    """
    if hierarchy.source.get("kind") not in BUILT_IN:
        return np.full(len(rows), np.nan)
    place = wordnet_rows([hierarchy.ids[row] for row in rows])
    return np.where(place >= 0, _nouns()[place], np.nan)


@cache
def _nouns() -> np.ndarray:
    """By row of WordNet."""
    with np.load(data_file("commonness.npz"), allow_pickle=False) as file:
        return file["nouns"].astype(np.float32)


# -- what a user chooses ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Prior:
    """Which prior: whether common names count, and weights of nodes by id.

    A node's weight holds for all below it. Of several weighted ancestors the nearest decides, of equally near ones the
    greatest weight. 0 excludes a class; without an entry the weight is 1.
    """

    common: bool = True
    weights: tuple[tuple[str, float], ...] = ()

    @classmethod
    def read(cls, prior: PriorLike, hierarchy: Hierarchy) -> Prior:
        """From "common", "uniform", a file of weights or weights in a mapping, by id or name. Weights count on top of
        `common`, unless "uniform+" is written before the file."""
        if isinstance(prior, Prior):
            return prior
        if isinstance(prior, Mapping):
            return cls(True, _checked(prior.items(), hierarchy, "the prior"))
        base, plus, file = str(prior).partition("+")
        if Path(prior).is_file():
            base, file = "common", str(prior)
        elif base not in ("common", "uniform") or (plus and not Path(file).is_file()):
            raise UnseenError(f"no prior named {str(prior)!r}, and no such file. Choose from: {HELP}")
        return cls(base == "common", read_weights(Path(file), hierarchy) if file else ())

    def to_json(self) -> dict[str, Any]:
        return {"common": self.common, "weights": dict(self.weights)}

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Prior:
        return cls(record["common"], tuple(record["weights"].items()))

    def __str__(self) -> str:
        """
        >>> str(Prior()), str(Prior(False)), str(Prior(weights=(("dog", 0.0),)))
        ('common', 'uniform', 'common+weights of 1 node')
        """
        weights = f"+weights of {len(self.weights)} node{'s' * (len(self.weights) > 1)}" if self.weights else ""
        return ("common" if self.common else "uniform") + weights

    def class_weights(self, hierarchy: Hierarchy, rows: np.ndarray) -> np.ndarray | None:
        """n: the weights of these classes; None where all are 1."""
        weight_of = {hierarchy.index(id): weight for id, weight in self.weights if id in hierarchy}
        if not weight_of:
            return None
        given = np.full(len(hierarchy), np.nan)
        given[list(weight_of)] = list(weight_of.values())
        node, ancestor, steps = hierarchy.ancestor_pairs()
        kept = np.flatnonzero(np.isfinite(given[ancestor]))
        order = kept[np.lexsort((-given[ancestor[kept]], steps[kept], node[kept]))]
        nodes, first = np.unique(node[order], return_index=True)
        weights = np.ones(len(hierarchy))
        weights[nodes] = given[ancestor[order[first]]]
        return weights[rows]


COMMON, UNIFORM = Prior(), Prior(common=False)


def read_weights(path: Path, hierarchy: Hierarchy) -> tuple[tuple[str, float], ...]:
    """A file with an id or name and a weight in each line, separated by a comma or a tab; or a JSON object."""
    try:
        text = path.read_text(encoding="utf-8-sig")
        if path.suffix == ".json":
            entries = json.loads(text)
            if not isinstance(entries, dict):
                raise ValueError('a JSON object was expected, such as {"bird": 2, "ostrich": 0}')
            return _checked(entries.items(), hierarchy, str(path))
        separator = "\t" if "\t" in text.partition("\n")[0] else ","
        rows = [row for row in csv.reader(io.StringIO(text), delimiter=separator) if any(map(str.strip, row))]
    except (OSError, ValueError, RecursionError, csv.Error) as error:
        raise UnseenError(f"{path}: cannot be read as weights: {error}") from None
    if rows and {cell.strip().lower() for cell in rows[0]} <= HEADERS:
        rows = rows[1:]
    for row in rows:
        if len(row) != 2:
            what = f"{separator.join(row)!r} is not a name and a weight (put a name with a comma into quotes)"
            raise UnseenError(f"{path}: {what}")
    return _checked(((name, weight) for name, weight in rows), hierarchy, str(path))


def _checked(entries: Iterable[tuple[str, Any]], hierarchy: Hierarchy, where: str) -> tuple[tuple[str, float], ...]:
    """(id, weight) of nodes given by id or name."""
    weights: dict[str, float] = {}
    for name, given in entries:
        try:
            weight = math.nan if isinstance(given, bool) else float(given)
            id = find_class(str(name), hierarchy, prefer_first_name=True)
        except (TypeError, ValueError):
            weight, id = math.nan, ""
        except UnseenError as error:
            raise UnseenError(f"{where}: {error}") from None
        if not 0 <= weight < math.inf:
            raise UnseenError(f"{where}: the weight of {name!r} must be a number from 0 on, not {given!r}")
        if weights.setdefault(id, weight) != weight:
            raise UnseenError(f"{where}: {name!r} ({id}) has two weights, {weights[id]:g} and {weight:g}")
    if not weights:
        raise UnseenError(f"{where}: holds no weights")
    return tuple(weights.items())


# -- what scores need ------------------------------------------------------------------------------------------------


class ColumnPrior:
    """A prior over seen classes, then unseen ones, given by their rows: what it does to scores and
    probabilities."""

    def __init__(self, prior: Prior, hierarchy: Hierarchy, seen: np.ndarray, unseen: np.ndarray):
        common = _centred(commonness(hierarchy, unseen)) if prior.common and len(unseen) else None
        weights = prior.class_weights(hierarchy, np.concatenate([seen, unseen]))
        self.common: np.ndarray | None = None if common is None else common.astype(np.float32)
        self.log_weights: np.ndarray | None = None if weights is None else np.log(weights).astype(np.float32)
        self.moves = common is not None or weights is not None

    def weigh(self, log_probabilities: Array) -> Array:
        """log p (n x C) with the weights."""
        return log_probabilities if self.log_weights is None else log_softmax(log_probabilities + self.log_weights)

    def shift(self, scores: Array, border: int) -> Array:
        """The method's scores (n x C), seen classes first up to `border`, for `plain_probabilities`."""
        if self.common is not None:
            unseen = scores[:, border:]
            sharp = SHARPNESS / measure_spread(unseen)
            favoured = unseen + self.common / sharp * SHARPNESS
            if border:  # unseen classes together stay as probable as they were
                more = logsumexp(sharp * favoured) - logsumexp(sharp * unseen)
                favoured = favoured - more / sharp
            scores = concatenate([scores[:, :border], favoured])
        if self.log_weights is not None:
            scores = scores + self.log_weights * (measure_spread(scores) / SHARPNESS)
        return scores


def _centred(commonness: np.ndarray) -> np.ndarray | None:
    """WEIGHT * (commonness - mean); unknown names are as common as the mean. None where all are alike."""
    known = np.isfinite(commonness)
    if not known.any():
        return None
    centred = np.where(known, commonness - commonness[known].mean(), 0)
    return WEIGHT * centred if centred.any() else None
