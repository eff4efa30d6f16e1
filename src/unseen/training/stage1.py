"""Stage 1 from end to end: (hierarchy, class vectors, network) -> a classifier for every class, as a bundle."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unseen.bundle import Bundle
from unseen.bundle.places import check_place, check_same, is_finished, sole_training, training_folder
from unseen.bundle.records import PhotoCheck
from unseen.bundle.storage import check_precision, store_bundle
from unseen.errors import UnseenError
from unseen.features.store import SeenFeatures
from unseen.methods import Method, make_method
from unseen.methods.problem import Problem
from unseen.photos import list_classes
from unseen.runtime.files import writing
from unseen.runtime.memory import peak_memory_mb
from unseen.runtime.run import Run
from unseen.semantics import class_vectors
from unseen.taxonomy import Taxonomy
from unseen.training.choices import DEFAULT_BACKBONE, DEFAULT_GRAPH, DEFAULT_METHOD
from unseen.training.classifiers import fit_classifiers
from unseen.training.holdout import check_hidden, check_share, hide
from unseen.training.inputs import Inputs, Vectors, load_inputs, seen_features, tell_coverage
from unseen.training.photo_check import check_photos as run_check
from unseen.training.photo_check import describe_check, describe_photos

if TYPE_CHECKING:
    from unseen.backbones import Backbone, PhotoTransform


def train(
    method: str | Method = DEFAULT_METHOD,
    graph: str | Path | Taxonomy = DEFAULT_GRAPH,
    vectors: Vectors | None = None,
    backbone: str | Backbone = DEFAULT_BACKBONE,
    out: str | Path | None = None,
    *,
    resume: bool = False,
    overwrite: bool = False,
    classes: Sequence[str] | None = None,
    layer: str | None = None,
    weights: Path | None = None,
    features: SeenFeatures | str | Path | None = None,
    holdout: float = 0.0,
    skip_missing: bool = False,
    precision: str = "fp32",
    run: Run | None = None,
    say: Callable[[str], None] | None = None,
    transform: PhotoTransform | None = None,
    check_photos: str | Path | None = None,
    **settings: Any,
) -> Bundle:
    """Fit a method and predict a classifier for every class of a hierarchy.

    `unseen.fit_classifiers` does the same with parts that are loaded already.

    Args:
        method: A name with `settings`, or a method.
        graph: A built-in hierarchy by name, a file, or a `Taxonomy`.
        vectors: Built-in class vectors by name, a file of word vectors, a callable; None: what suits the method.
        backbone: The network, by name or loaded.
        out: Where to save the bundle; checkpoints are kept there meanwhile.
        resume: Continue an interrupted training in `out`; a finished one with the same settings is returned as it is.
        overwrite: Replace a bundle in `out`, or start an interrupted training again.
        classes: The class ids of a network that is named, in the order of its outputs, if it does not tell them.
        layer: The name of its last linear layer, if it is not found.
        weights: A file of weights for it.
        features: For methods that learn from photos: features of seen classes, the folder of a feature store, or a
            .npz file with `features` and `labels`.
        holdout: Hide this share of the seen classes from the fit, and check how well their classifiers are found again.
        skip_missing: Leave out the network's classes that the hierarchy lacks, instead of refusing them.
        precision: How the classifiers are stored, fp32 or fp16.
        run: Seed, device and the like.
        say: Is told what a user should know; without it, only an assumption about the photo transform is warned of.
        transform: How photos are prepared for a network that is named, if it does not say.
        check_photos: Photos of seen classes, DIR/<class id or name>/*: the network's accuracy on a few of them is told,
            with a warning where it is far below what it should have.

    >>> import unseen
    >>> from torch import nn
    >>> network = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(3, 2))
    >>> photos = unseen.PhotoTransform(224)  # as they were in its training
    >>> backbone = unseen.from_module(network, ["n02084071", "n02121620"], photos)  # a dog, a cat
    >>> dogs_and_cats = unseen.Taxonomy.imagenet().subgraph(["n02084071", "n02121620", "n02118333"])  # and a fox
    >>> bundle = unseen.train("kin", dogs_and_cats, "glove", backbone, out="my-bundle")
    >>> unseen.train("kin", dogs_and_cats, "glove", backbone, out="my-bundle")
    Traceback (most recent call last):
    unseen.errors.UnseenError: my-bundle is a finished bundle: choose another name, or replace it with overwrite=True
    """
    tell = say or (lambda message: None)
    check_share(holdout)
    check_precision(precision)
    if check_photos is not None:
        list_classes(check_photos)  # or an error, before anything is loaded
    name, method = _make(method, settings)
    if isinstance(features, (str, Path)) and not method.takes_features:
        raise UnseenError(f"{name} does not learn from photos: omit features", "features")
    run = run or Run()
    run = replace(run, resume=resume or run.resume)
    run.torch_device()  # or an error, before anything is made
    started = time.monotonic()
    place = None if out is None else Path(out)
    with sole_training(place):
        finished = place is not None and is_finished(place, run.resume, overwrite)
        if place is not None and not finished:
            check_place(place, training=True)
            run = replace(run, folder=training_folder(place))
        inputs = load_inputs(name, graph, vectors, backbone, classes, layer, weights, skip_missing, tell, transform)
        if place is not None and finished:
            asked = {"method": name, **asdict(method.settings), "seed": run.seed, "precision": precision}
            return _finished(place, inputs, holdout, asked, tell)

        taxonomy, network, seen = inputs.taxonomy, inputs.backbone, inputs.seen
        encoded = class_vectors(taxonomy, inputs.semantics)
        tell_coverage(encoded.coverage, tell)
        known = network.classifiers()[[id in taxonomy for id in network.class_ids]]
        whole = Problem(taxonomy, encoded, taxonomy.indices(seen), known, seen_features(features, seen, network))
        fitted, hidden = hide(whole, holdout, run.seed)
        checked = _tell_photos(network, taxonomy, check_photos, say)
        if run.folder is not None:
            with writing(run.folder):
                run.folder.mkdir(parents=True, exist_ok=True)
        kept = [taxonomy.ids[row] for row in fitted.seen]
        bundle = fit_classifiers(taxonomy, encoded, network, method, seen=kept, features=fitted.features, run=run)
        bundle.training = replace(
            bundle.training,
            seconds=round(run.spent + time.monotonic() - started, 2),  # with the loading
            peak_memory_mb=peak_memory_mb(),
            holdout=check_hidden(bundle.solution, whole, hidden) if len(hidden) else None,
            photo_check=checked,
        )
        bundle.method, bundle.precision = name, precision
        if place is not None:
            store_bundle(bundle, place, training=True)
        return bundle


def _tell_photos(
    network: Backbone, taxonomy: Taxonomy, folder: str | Path | None, say: Callable[[str], None] | None
) -> PhotoCheck | None:
    """How photos are prepared, and what becomes of a few of them. An assumption is never made in silence."""
    told = describe_photos(network)
    if say is not None:
        say(told)
    elif network.transform_assumed:
        warnings.warn(told, stacklevel=3)
    if folder is None:
        return None
    found = run_check(network, folder, taxonomy)
    if say is not None:
        for line in describe_check(found):
            say(line)
    return found


def _make(method: str | Method, settings: dict[str, Any]) -> tuple[str, Method]:
    """The name that a bundle keeps, by which the method is found again, and the method."""
    if isinstance(method, str):
        return method, make_method(method, settings)
    if settings:
        raise UnseenError(f"{method.name} has its settings already: omit {', '.join(settings)}")
    return method.name, method


def _finished(out: Path, inputs: Inputs, holdout: float, asked: dict[str, Any], say: Callable[[str], None]) -> Bundle:
    """The bundle that is there already, if it is what was asked for."""
    bundle, network = Bundle.load(out), inputs.backbone
    held = bundle.training.holdout
    hidden = 0 if held is None else held.classes
    then = {
        "method": bundle.method,
        "graph": repr(bundle.taxonomy),
        "vectors": _name_vectors(bundle.vectors.provenance),
        "backbone": f"{bundle.backbone.name} ({bundle.backbone.checksum[:12]})",
        "hidden classes": hidden,
        **bundle.settings,
        "seed": bundle.seed,
        "precision": bundle.precision,
    }
    now = {
        "graph": repr(inputs.taxonomy),
        "vectors": _name_vectors([source.provenance for source in inputs.semantics]),
        "backbone": f"{network.name} ({network.checksum[:12]})",  # its full name, whatever was typed
        "hidden classes": round(holdout * (len(bundle.seen) + hidden)),
    }
    check_same(out, then, {"method": asked["method"], **now, **asked})
    bundle.check_backbone(network)
    say(f"{out} is finished already.")
    return bundle


def _name_vectors(provenance: Sequence[dict[str, Any]]) -> str:
    """Sources of vectors in a few words that tell them apart."""
    return " + ".join(f"{of['name']} ({of.get('mode')}, {(of.get('sha256') or '')[:12]})" for of in provenance)
