"""Why a class answers as it does: the seen classes that its classifier is made of, and the way to them."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from unseen.bundle import Bundle
from unseen.methods.problem import normalise_rows


@dataclass(frozen=True)
class Neighbour:
    """A seen class that another class borrows its classifier from."""

    id: str
    name: str
    share: float  # part of the whole that this seen class gives, 0..1 over those listed and those not
    similarity: float | None  # cosine of its known classifier with the predicted one
    path: tuple[str, ...]  # ids from the explained class over the lowest common ancestor to this one


@dataclass(frozen=True)
class Explanation:
    """Why a class answers as it does: what it is, where it stands, and which seen classes its classifier comes from.

    >>> import unseen
    >>> from torch import nn
    >>> kinds = [("strawberry", "berry"), ("raspberry", "berry"), ("lime", "citrus"), ("lemon", "citrus")]
    >>> fruits = unseen.Taxonomy.from_edges([*kinds, ("berry", "fruit"), ("citrus", "fruit")])
    >>> network = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(3, 2, bias=False))
    >>> _ = nn.init.eye_(network[2].weight)  # red: a strawberry, green: a lime
    >>> backbone = unseen.from_module(network, ["strawberry", "lime"])
    >>> model = unseen.load(unseen.train("kin", fruits, "glove", backbone), backbone)
    >>> why = model.explain("raspberry")
    >>> why.seen, why.path
    (False, ('fruit', 'berry', 'raspberry'))
    >>> why.neighbours[0].path
    ('raspberry', 'berry', 'strawberry')
    """

    id: str
    name: str
    definition: str
    seen: bool
    trust: float | None
    path: tuple[str, ...]  # ids from the root down
    neighbours: tuple[Neighbour, ...]
    photos: int = 0  # that it was taught with

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def explain(bundle: Bundle, id: str, n: int = 5) -> Explanation:
    """The n seen classes that give most to the classifier of `id`."""
    taxonomy, solution = bundle.taxonomy, bundle.solution
    row = taxonomy.index(id)
    similarity = _similarity(bundle, row)
    shares = _shares(bundle, row, similarity)
    best = np.argsort(-shares, kind="stable")[:n]
    neighbours = []
    for m in best:
        other = taxonomy.ids[bundle.seen[m]]
        near = None if similarity is None else round(float(similarity[m]), 4)
        path = tuple(taxonomy.path(id, other) or ())
        neighbours.append(Neighbour(other, taxonomy.name(other), round(float(shares[m]), 4), near, path))
    return Explanation(
        id=id,
        name=taxonomy.name(id),
        definition=taxonomy.definition(id),
        seen=bool(bundle.is_seen[row]),
        trust=None if solution.trust is None else float(solution.trust[row]),
        path=tuple(reversed(taxonomy.path_to_root(id))),
        neighbours=tuple(neighbours),
        photos=bundle.taught[id].photos if id in bundle.taught else 0,
    )


def _similarity(bundle: Bundle, row: int) -> np.ndarray | None:
    """Cosine of the predicted classifier with every known one; None where the method predicts no classifiers."""
    predicted = bundle.solution.classifiers[row : row + 1]
    if predicted.shape[1] != bundle.known.shape[1]:
        return None
    return normalise_rows(bundle.known) @ normalise_rows(predicted)[0]


def _shares(bundle: Bundle, row: int, similarity: np.ndarray | None) -> np.ndarray:
    """What each seen class gives (M), in sum 1. A method that knows tells; for others, likeness of classifiers."""
    known = bundle.make_method().shares(bundle.problem(), bundle.solution.state, row)
    if known is not None:
        weights = np.abs(known)
    elif similarity is not None:
        weights = np.exp((similarity - similarity.max()) * 20)
    else:
        vectors = bundle.vectors.matrix
        weights = np.maximum(vectors[bundle.seen] @ vectors[row], 0)
    return weights / max(weights.sum(), np.finfo(np.float32).tiny)
