"""Which class a folder of photos is of: folders are named by a class's id, or by a name that only one class has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unseen.errors import UnseenError
from unseen.features.arrays import check_matrix, is_array_file, read_arrays
from unseen.features.cache import open_features
from unseen.features.store import FeatureBatch, FeatureStore, SeenFeatures
from unseen.photos import list_classes
from unseen.taxonomy import Taxonomy
from unseen.taxonomy.search import did_you_mean, near_ids

if TYPE_CHECKING:
    from unseen.backbones import Backbone


def match_folders(names: Sequence[str], taxonomy: Taxonomy, wanted: Collection[str]) -> dict[str, str]:
    """Folder -> class id, for the folders of the classes `wanted`; ids come before names.

    >>> from unseen import Taxonomy
    >>> animals = Taxonomy.from_edges([("n1", "n0"), ("n2", "n0")], {"n1": "polar bear", "n2": "fox"})
    >>> match_folders(["n2", "Polar_Bear", "mouse"], animals, {"n1", "n2"})
    {'n2': 'n2', 'Polar_Bear': 'n1'}
    """
    found = {}
    for name in names:
        if name in taxonomy:
            meant = [name]
        else:
            meant = [sense.id for sense in taxonomy.senses(name) if sense.id in wanted]
        if len(meant) == 1 and meant[0] in wanted:
            found[name] = meant[0]
    return found


class RenamedStore:
    """Reads like the feature store that it is made of, with ids in place of the names of its folders."""

    def __init__(self, store: Any, ids: Mapping[str, str]):
        self.store, self.ids, self.path = store, ids, getattr(store, "path", None)

    def classes(self) -> dict[str, int]:
        found: Counter[str] = Counter()
        for name, photos in self.store.classes().items():
            found[self.ids.get(name, name)] += photos
        return dict(found)

    def unreadable_count(self) -> int:
        return self.store.unreadable_count()

    def batches(self, size: int = 1024, classes: Collection[str] | None = None) -> Iterator[FeatureBatch]:
        names = None
        if classes is not None:
            names = {name for name in self.store.classes() if self.ids.get(name, name) in classes}
        for features, ids, paths in self.store.batches(size, names):
            yield FeatureBatch(features, [self.ids.get(id, id) for id in ids], paths)

    def seen_matrix(self, ids: Sequence[str]) -> SeenFeatures:
        place = {id: number for number, id in enumerate(ids)}
        parts = [(features, [place[id] for id in own]) for features, own, _ in self.batches(1024, place.keys())]
        if not parts:
            raise UnseenError(f"{self.path}: has no photo of any of the {len(place)} classes asked for.")
        labels = np.array([label for _, own in parts for label in own], np.int64)
        return SeenFeatures(np.concatenate([features for features, _ in parts]), labels)


def renamed(store: Any, taxonomy: Taxonomy, wanted: Collection[str]) -> Any:
    """A store with ids for folders that are named after classes; one whose folders have ids as it is."""
    found = match_folders(list(store.classes()), taxonomy, wanted)
    named = {name: id for name, id in found.items() if name != id}
    return RenamedStore(store, named) if named else store


def check_folders(
    folder: str | Path, taxonomy: Taxonomy, wanted: Collection[str], what: str, known_names: Collection[str] = ()
) -> dict[str, str]:
    """`match_folders` for the folders in `folder`; refused where none matches, before anything is computed.

    `known_names` are other names of folders that are right too, such as AWA2's.
    """
    names = list_classes(folder)
    found = match_folders(names, taxonomy, wanted)
    if found or not set(names).isdisjoint(known_names):
        return found
    some = ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
    known = [name for name in names if name in taxonomy]
    if known:
        why = f"{len(known)} of them are classes of the hierarchy, but not among {what}."
    else:
        within = next((name for name in names if _has_classes(Path(folder) / name, taxonomy)), None)
        near = did_you_mean([str(Path(folder) / within)] if within else near_ids(names, taxonomy))
        why = f"None is the id or the name of a class of the hierarchy.{near}"
    raise UnseenError(
        f"{folder}: no photo shows a class among {what}. Photos are expected as {folder}/<class id or name>/<photo>; "
        f"the folders there: {some}. {why}"
    )


def check_source(
    source: Any, taxonomy: Taxonomy, wanted: Collection[str], what: str, known_names: Collection[str] = ()
) -> None:
    """Refuse a folder of photos without any of the classes `wanted`, while it costs nothing; see `check_folders`."""
    if not hasattr(source, "batches") and Path(source).is_dir() and not FeatureStore.is_store(source):
        check_folders(source, taxonomy, wanted, what, known_names)


def open_source(
    source: Any,
    network: Callable[[], Backbone],
    width: int,
    workers: int = 2,
    show_progress: bool = True,
    say: Callable[[str], None] = lambda message: None,
) -> Any:
    """A feature store as it is, or what reads like one: of a folder of photos, or of a file with features and labels.

    `network` is asked for only where photos or a store need it; `width` is how many features it has.
    """
    if hasattr(source, "batches"):
        return source
    if is_array_file(source):
        arrays = read_arrays(source)
        check_matrix(arrays.matrix[:1], arrays.path, width)
        return arrays
    return open_features(source, network(), workers, show_progress, say)


def _has_classes(folder: Path, taxonomy: Taxonomy) -> bool:
    """Whether the folders of classes are one level further down."""
    try:
        return any(name in taxonomy or taxonomy.senses(name) for name in list_classes(folder)[:50])
    except UnseenError:
        return False
