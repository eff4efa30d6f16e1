"""The heart of stage 1: (hierarchy, class vectors, network) -> a classifier for every class. It neither loads nor saves
anything, and says nothing."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict

import numpy as np

from unseen.backbones import Backbone
from unseen.bundle import BackboneInfo, Bundle
from unseen.bundle.records import TrainingRecord
from unseen.errors import UnseenError
from unseen.features.store import SeenFeatures
from unseen.methods import Method, make_method
from unseen.methods.problem import Problem
from unseen.runtime.memory import peak_memory_mb
from unseen.runtime.run import Run
from unseen.semantics import ClassVectors
from unseen.taxonomy import Taxonomy


def fit_classifiers(
    taxonomy: Taxonomy,
    vectors: ClassVectors,
    backbone: Backbone,
    method: Method | str = "kin",
    *,
    seen: Sequence[str] | None = None,
    features: SeenFeatures | None = None,
    run: Run | None = None,
) -> Bundle:
    """Predict a classifier for each of the N classes of a hierarchy from the M that the network has.

        W (M x P), X (N x S), hierarchy  ->  W~ (N x E)

    Args:
        taxonomy: The hierarchy; the network's classes must be among its nodes.
        vectors: A vector for every node, from `unseen.class_vectors`.
        backbone: The network, from `unseen.load_backbone` or `unseen.from_module`.
        method: A name, or a method with settings of its own.
        seen: Ids of the network's classes to learn from; by default all.
        features: Features of photos of these classes, for methods that learn from photos.
        run: Seed, device, and where checkpoints go.

    >>> import unseen
    >>> from torch import nn
    >>> parents = {"animal": [], "dog": ["animal"], "cat": ["animal"], "fox": ["animal"]}
    >>> taxonomy = unseen.Taxonomy(parents, [[name] for name in parents], list(parents.values()))
    >>> network = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(3, 2))
    >>> backbone = unseen.from_module(network, ["dog", "cat"])
    >>> vectors = unseen.class_vectors(taxonomy, unseen.load_vectors("glove"))
    >>> bundle = unseen.fit_classifiers(taxonomy, vectors, backbone, "structural")
    >>> bundle.solution.classifiers.shape  # four classes, three features and a bias
    (4, 4)
    """
    name, method = (method, make_method(method)) if isinstance(method, str) else (method.name, method)
    run = run or Run(show_progress=False)
    started = time.monotonic()
    ids = list(backbone.class_ids if seen is None else seen)
    problem = Problem(taxonomy, vectors, taxonomy.indices(ids), _classifiers(backbone, ids), features)
    solution = method.fit(problem, run)
    seconds = round(run.spent + time.monotonic() - started, 2)
    return Bundle(
        taxonomy=taxonomy,
        seen=problem.seen,
        known=problem.classifiers,
        vectors=vectors,
        solution=solution,
        method=name,
        settings=asdict(method.settings),
        backbone=BackboneInfo.of(backbone),
        network={key: value.numpy() for key, value in backbone.weights().items()} if backbone.kept_in_bundle else None,
        seed=run.seed,
        log=run.records,
        training=TrainingRecord(seconds=seconds, peak_memory_mb=peak_memory_mb()),
    )


def _classifiers(backbone: Backbone, ids: Sequence[str]) -> np.ndarray:
    """The network's classifiers of these classes, in this order (M x P)."""
    position = {id: number for number, id in enumerate(backbone.class_ids)}
    foreign = [id for id in ids if id not in position]
    if foreign:
        some = ", ".join(foreign[:5]) + (", ..." if len(foreign) > 5 else "")
        raise UnseenError(f"{backbone.name} does not know {len(foreign)} of the seen classes: {some}")
    return backbone.classifiers()[[position[id] for id in ids]]
