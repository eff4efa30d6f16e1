"""Stage 1: (hierarchy, class vectors, network) -> a classifier for every class, as a bundle.

`train` loads the parts by name and saves the bundle; `fit_classifiers` works on parts in memory.
"""

from __future__ import annotations

import json
import logging
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from unseen.answers.scores import MISSED
from unseen.bundle import Bundle, NetworkInfo
from unseen.bundle.file import check_output, training_folder
from unseen.bundle.records import Holdout, TrainingRecord
from unseen.evaluation.metrics import hits
from unseen.hierarchy.core import Hierarchy
from unseen.hierarchy.search import did_you_mean, near_ids
from unseen.methods import Method, Solution, make_method
from unseen.methods.base import Problem, normalise_rows
from unseen.methods.graph.loop import CHECKPOINT
from unseen.networks.base import Network
from unseen.networks.check import describe_photos
from unseen.networks.devices import choose_device
from unseen.networks.features import SeenFeatures, is_array_file, read_arrays
from unseen.networks.loading import load_network
from unseen.networks.run import OnnxNetwork
from unseen.networks.store import FeatureStore
from unseen.training.default import DEFAULT_HIERARCHY, DEFAULT_METHOD, DEFAULT_NETWORK, DEFAULT_VECTORS
from unseen.training.settings import TrainSettings
from unseen.util.devices import own_rank, peak_memory_mb
from unseen.util.errors import UnseenError
from unseen.util.files import locked
from unseen.util.names import how_to_install, list_some
from unseen.util.run import Run
from unseen.vectors.class_vectors import ClassVectors, Coverage, class_vectors, load_vectors
from unseen.vectors.looks import written_look
from unseen.vectors.sources import VectorSource
from unseen.vectors.text_encoder import encoder_installed, needs_encoder

logger = logging.getLogger(__name__)

Vectors = str | Path | VectorSource | Sequence[VectorSource] | Callable


def train(
    hierarchy: str | Path | Hierarchy = DEFAULT_HIERARCHY,
    network: str | Network | OnnxNetwork = DEFAULT_NETWORK,
    method: str | Method = DEFAULT_METHOD,
    vectors: Vectors | None = None,
    settings: TrainSettings | None = None,
    *,
    out: str | Path | None = None,
    overwrite: bool = False,
    run: Run | None = None,
    **method_settings: Any,
) -> Bundle:
    """Fit a method and predict a classifier for every class of a hierarchy.

    Args, besides those of `unseen.train`:
        out: Where to save the bundle; until then, checkpoints are kept beside it.
        overwrite: Replace a bundle in `out`, or start an interrupted training again.
        run: Seed, device, and whether to resume: continue an interrupted training in `out`, or return the bundle of a
            finished one with the same settings.
        **method_settings: Those of the method, such as `epochs`.
    """
    settings, run, started = settings or TrainSettings(), run or Run(), time.monotonic()
    name, method = _make_method(method, method_settings)
    if isinstance(settings.features, (str, Path)) and not method.takes_features:
        raise UnseenError(f"{name} does not learn from photos: omit features")
    choose_device(run.device)  # raises if it is not there
    with open_output(out, run, overwrite) as (run, finished):
        hierarchy = hierarchy if isinstance(hierarchy, Hierarchy) else Hierarchy.load(hierarchy)
        if known := hierarchy.source.get("already_there"):
            logger.info("%d classes of %s are in the hierarchy already.", known, hierarchy.source["additions"])
        network = load_network(network) if isinstance(network, str) else network
        seen = _seen_classes(hierarchy, network, settings.skip_missing)
        sources = load_vectors(default_vectors(name, hierarchy) if vectors is None else vectors)
        if out is not None and finished:
            parts = {"hierarchy": repr(hierarchy), "vectors": _name_vectors([source.provenance for source in sources])}
            asked = {"method": name, **parts, **asdict(method.settings), "seed": run.seed}
            return _finished(Path(out), asked, network, settings)

        encoded = class_vectors(hierarchy, sources)
        _log_coverage(encoded.coverage)
        features = _seen_features(settings.features, seen, network)
        problem = Problem(hierarchy, encoded, hierarchy.indices(seen), _known(network, seen), features)
        logger.log(logging.WARNING if network.transform_assumed else logging.INFO, "%s", describe_photos(network))
        bundle = _fit(problem, network, name, method, settings, run, started)
        if out is not None:
            save_trained(bundle, out)
        return bundle


def fit_classifiers(
    hierarchy: Hierarchy,
    vectors: ClassVectors,
    network: Network | OnnxNetwork,
    method: Method | str = DEFAULT_METHOD,
    *,
    seen: Sequence[str] | None = None,
    features: SeenFeatures | None = None,
    run: Run | None = None,
) -> Bundle:
    """`train` with parts in memory: it loads, saves and logs nothing.

        W (M x P), X (N x S), hierarchy  ->  W~ (N x E)

    Args:
        hierarchy: The hierarchy of N classes; the network's M must be among them.
        vectors: A vector for every node, from `class_vectors`.
        network: The network, from `unseen.load_network` or `unseen.from_module`.
        method: A name, or a method with settings.
        seen: Ids of the network's classes to learn from; by default all.
        features: Features of photos of these classes, for methods that learn from photos.
        run: Seed, device, and where checkpoints go.
    """
    name, method = _make_method(method, {})
    run, started = run or Run(show_progress=False), time.monotonic()
    ids = list(network.class_ids if seen is None else seen)
    problem = Problem(hierarchy, vectors, hierarchy.indices(ids), _known(network, ids), features)
    return _fit(problem, network, name, method, TrainSettings(), run, started)


def _fit(
    problem: Problem,
    network: Network | OnnxNetwork,
    name: str,
    method: Method,
    settings: TrainSettings,
    run: Run,
    started: float,
) -> Bundle:  # fmt: skip
    fitted, hidden = hide(problem, settings.holdout, run.seed)
    solution = method.fit(fitted, run)
    record = TrainingRecord(
        seconds=round(run.spent + time.monotonic() - started, 2),
        peak_memory_mb=peak_memory_mb(),
        holdout=check_hidden(solution, problem, hidden) if len(hidden) else None,
    )
    weights = None
    if isinstance(network, Network) and network.kept_in_bundle:
        weights = {key: value.numpy() for key, value in network.weights().items()}
    bundle = Bundle(
        hierarchy=problem.hierarchy,
        seen=fitted.seen,
        known=fitted.classifiers,
        vectors=problem.vectors,
        solution=solution,
        method=name,
        settings=asdict(method.settings),
        network=NetworkInfo.of(network),
        network_weights=weights,
        precision=settings.precision,
        training=record,
        seed=run.seed,
        log=run.records,
    )
    bundle.keep_network(network)
    return bundle


def _make_method(method: str | Method, settings: dict[str, Any]) -> tuple[str, Method]:
    """The name by which a bundle finds the method again, and the method."""
    if isinstance(method, str):
        return method, make_method(method, settings)
    if settings:
        raise UnseenError(f"{method.name} has its settings already: omit {', '.join(settings)}")
    return method.name, method


def _finished(out: Path, asked: dict[str, Any], network: Network | OnnxNetwork, settings: TrainSettings) -> Bundle:
    """The bundle in `out`; refused if its parts or settings differ."""
    bundle = Bundle.load(out)
    hidden = 0 if bundle.training.holdout is None else bundle.training.holdout.classes
    then = {
        "method": bundle.method,
        "hierarchy": repr(bundle.hierarchy),
        "vectors": _name_vectors(bundle.vectors.provenance),
        "network": _name_network(bundle.network),
        **bundle.settings,
        "seed": bundle.seed,
        "hidden classes": hidden,
        "precision": bundle.precision,
    }
    asked |= {"network": _name_network(network), "precision": settings.precision}
    check_same(out, then, asked | {"hidden classes": round(settings.holdout * (len(bundle.seen) + hidden))})
    bundle.check_network(network)
    logger.info("%s is finished already.", out)
    return bundle


def _name_network(network: Network | OnnxNetwork | NetworkInfo) -> str:
    return f"{network.name} ({network.checksum[:12]})"


def _name_vectors(provenance: Sequence[dict[str, Any]]) -> str:
    """A short description that tells sources apart."""
    return " + ".join(f"{one['name']} ({one.get('mode')}, {(one.get('sha256') or '')[:12]})" for one in provenance)


# -- the parts ---------------------------------------------------------------------------------------------------------


def _seen_classes(hierarchy: Hierarchy, network: Network | OnnxNetwork, skip_missing: bool) -> list[str]:
    """The network's classes, in its order. Classes that are not in the hierarchy are refused or skipped."""
    missing = [id for id in network.class_ids if id not in hierarchy]
    if missing:
        count = f"{len(missing)} of the network's {len(network.class_ids)} classes"
        lack = f"{count} are not in the hierarchy: {list_some(missing)}."
        near = did_you_mean(near_ids(missing, hierarchy))
        if len(missing) == len(network.class_ids):
            raise UnseenError(f"{lack}{near} The network's class ids must be ids of the hierarchy.")
        if not skip_missing:
            raise UnseenError(f"{lack}{near} Add them, or skip missing classes.")
        logger.info("%s They are left out.", lack)
    return [id for id in network.class_ids if id in hierarchy]


def default_vectors(method: str, hierarchy: Hierarchy) -> str:
    """glove, as published; for kin also text, if every class has a sentence encoding or can get one."""
    if method != DEFAULT_METHOD:
        return "glove"
    written = any(written_look(hierarchy, id) for id in hierarchy.own_looks)
    if encoder_installed() or not (written or needs_encoder(hierarchy)):
        return DEFAULT_VECTORS
    logger.info("Words of your own describe classes; without %s only their names count.", how_to_install("text"))
    return "glove" if written else "glove+looks"


def _log_coverage(coverage: Coverage | None) -> None:
    """Log which classes have no vector, or else which sources lack some."""
    if coverage is not None and coverage.zero:
        logger.info("%s", coverage.describe())
    elif coverage is not None:
        for name, count in filter(lambda part: part[1], coverage.zero_by_part.items()):
            lack = f"{name} knows nothing of {count:,} of {coverage.classes:,} classes"
            logger.info("%s; for these other vectors count.", lack)


def _known(network: Network | OnnxNetwork, ids: Sequence[str]) -> np.ndarray:
    """The network's classifiers of these classes, in this order (M x P)."""
    position = {id: number for number, id in enumerate(network.class_ids)}
    foreign = [id for id in ids if id not in position]
    if foreign:
        raise UnseenError(f"{network.name} does not know {len(foreign)} of the seen classes: {list_some(foreign)}")
    return network.classifiers()[[position[id] for id in ids]]


def _seen_features(
    features: SeenFeatures | str | Path | None, ids: Sequence[str], network: Network | OnnxNetwork
) -> SeenFeatures | None:
    """Features of photos of these classes: given, or read from a store or a file of arrays with labels."""
    if features is None or isinstance(features, SeenFeatures):
        return features
    if is_array_file(features):
        return read_arrays(features, network.num_features).seen_matrix(ids)
    return FeatureStore.open(features, network).seen_matrix(ids)


# -- a check without photos: hide seen classes from the fit, and see how well their classifiers are predicted ----------


def hide(problem: Problem, share: float, seed: int) -> tuple[Problem, np.ndarray]:
    """The problem without a random share of its seen classes, and the positions of those in `seen`."""
    count = len(problem.seen)
    hidden = np.sort(np.random.default_rng(seed).permutation(count)[: round(count * share)])
    if not share:
        return problem, hidden
    if len(hidden) in (0, count):
        which, other = ("none of", "larger") if not len(hidden) else ("all", "smaller")
        raise UnseenError(f"a holdout of {share} would hide {which} {count} seen classes: give a {other} share")
    kept = np.setdiff1d(np.arange(count), hidden)
    features = problem.features
    if features is not None:
        nodes = problem.photo_nodes(features)
        left = ~np.isin(nodes, problem.seen[hidden])
        position = np.arange(len(nodes)) if features.ids is not None else np.cumsum(left) - 1
        chosen = left[features.labels]
        features = features.only(chosen, position[features.labels[chosen]])
    return replace(problem, seen=problem.seen[kept], classifiers=problem.classifiers[kept], features=features), hidden


def check_hidden(solution: Solution, problem: Problem, hidden: np.ndarray) -> Holdout:
    """How often a hidden class's known classifier is most like its own prediction, among all hidden classes.

    similarity[i, j] = cos(known classifier of i, predicted classifier of j); hit@k: how often i's own prediction is
    among the k most similar, in per cent, with ties at random. None if the method predicts no classifiers, or only
    classifiers for unit-length features.
    """
    known = problem.targets()[hidden]
    rows = problem.seen[hidden]
    answered = np.ones(len(rows), bool) if solution.answers is None else solution.answers[rows]
    fits = solution.projection.kind == "append1" and solution.classifiers.shape[1] == known.shape[1]
    if not fits or not answered.any():
        return Holdout(len(hidden), None, None)
    similarity = known @ normalise_rows(solution.classifiers[rows]).T
    right = np.diagonal(similarity)[:, None]
    greater, equal = (similarity > right).sum(1), (similarity == right).sum(1) - 1
    greater[~answered] = MISSED
    return Holdout(len(hidden), *(round(float(hits(greater, equal, k).mean() * 100), 1) for k in (1, 5)))


# -- the output: what a training may replace, and the folder beside it for checkpoint and log --------------------------


@contextmanager
def open_output(out: str | Path | None, run: Run, overwrite: bool) -> Iterator[tuple[Run, bool]]:
    """The run with a folder for its checkpoints, and whether `out` holds the finished bundle of a run to resume.

    Refuses to lose earlier work, except on `overwrite`.
    """
    if out is None:
        yield run, False
        return
    path = Path(out)
    check_output(path, None, overwrite=True)
    folder = training_folder(path)
    with _alone(path, folder) if own_rank() == 0 else nullcontext():
        interrupted = (folder / CHECKPOINT).exists()
        if interrupted and not (run.resume or overwrite):
            raise UnseenError(f"the training of {out} was interrupted: resume it, or overwrite it to start again")
        check_output(path, source=path if run.resume else None, overwrite=overwrite)
        finished = path.exists() and not interrupted and not overwrite
        yield run if finished else replace(run, folder=folder), finished


@contextmanager
def _alone(out: Path, folder: Path) -> Iterator[None]:
    """Only one training at a time may write `out`."""
    with locked(folder / "lock", f"{out}: another process is training there: wait for it, or choose another name"):
        try:
            yield
        finally:
            if folder.exists() and all(item.name == "lock" for item in folder.iterdir()):
                shutil.rmtree(folder, ignore_errors=True)


def save_trained(bundle: Bundle, out: str | Path) -> None:
    """Save the bundle of a training, and remove its checkpoint and log."""
    bundle.save(out, overwrite=True)
    shutil.rmtree(training_folder(Path(out)), ignore_errors=True)


def check_same(out: Path, then: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Refuse a finished bundle made with other settings than `now`, and say what differs."""
    now = json.loads(json.dumps(now))
    changed = [f"{key} was {then[key]}, now {now[key]}" for key in now if key in then and then[key] != now[key]]
    if changed:
        raise UnseenError(
            f"{out} is finished, but not as asked for: {'; '.join(changed)}. Choose another name, or overwrite it"
        )
