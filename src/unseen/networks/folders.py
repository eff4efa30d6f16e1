"""From what a user names (photos by class folder, a feature store, a file of arrays) to `Features` by class id.

Folders are named by a class's id, by a name that only one class has, or as in a data set that someone registered.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from unseen.hierarchy.core import Hierarchy
from unseen.hierarchy.search import did_you_mean, match_names, near_ids
from unseen.networks.build import build_store
from unseen.networks.features import Features, is_array_file, read_arrays
from unseen.networks.store import FeatureStore, describe_network
from unseen.photos import list_classes
from unseen.photos.by_class import Listing, is_labelled_input, list_by_class
from unseen.photos.inputs import is_url
from unseen.util.errors import UnseenError
from unseen.util.files import cache_folder
from unseen.util.names import list_some

if TYPE_CHECKING:
    from unseen.networks.run import PhotoNetwork

logger = logging.getLogger(__name__)


LABORATORY = ("unseen_lab.data.awa2",)
"""Modules of the laboratory that register readers of folders, imported when a folder is not named by an id."""
FolderReader: TypeAlias = Callable[[Collection[str]], Mapping[str, str]]
_registered: list[FolderReader] = []


def register_folders(read: FolderReader) -> None:
    """Let `read` say what the folders of a data set mean: from the names of all folders, the class ids of those that it
    knows, or nothing where they are of another data set.

    >>> from unseen import Hierarchy
    >>> register_folders(lambda names: {"FELX": "n2"} if "FELX" in names else {})
    >>> match_folders(["FELX"], Hierarchy.from_edges([("n2", "n0")]), {"n2"})
    {'FELX': 'n2'}
    """
    _registered.append(read)


def match_folders(names: Sequence[str], hierarchy: Hierarchy, wanted: Collection[str]) -> dict[str, str]:
    """Folder -> class id, for the folders of the classes `wanted`; ids come before names.

    >>> from unseen import Hierarchy
    >>> animals = Hierarchy.from_edges([("n1", "n0"), ("n2", "n0")], {"n1": "polar bear", "n2": "fox"})
    >>> match_folders(["n2", "Polar_Bear", "mouse"], animals, {"n1", "n2"})
    {'n2': 'n2', 'Polar_Bear': 'n1'}
    """
    known: dict[str, str] = {}
    if any(name not in hierarchy for name in names):
        for module in LABORATORY:
            with suppress(ModuleNotFoundError):
                import_module(module)
        for read in _registered:
            known |= {name: id for name, id in read(names).items() if name not in hierarchy and id in hierarchy}
    matched = match_names([name for name in names if name not in known], hierarchy, wanted)
    matched |= {name: id for name, id in known.items() if id in wanted}
    return {name: matched[name] for name in names if name in matched}


def photos_folder(folder: str | Path) -> Path:
    """Where the class folders lie: in JPEGImages, where several data sets keep them, or in the folder itself."""
    inside = Path(folder) / "JPEGImages"
    return inside if inside.is_dir() else Path(folder)


def check_folders(folder: str | Path, hierarchy: Hierarchy, wanted: Collection[str], what: str) -> dict[str, str]:
    """`match_folders` for the folders in `folder`; an error, before anything is computed, where none matches."""
    names = list_classes(folder)
    matched = match_folders(names, hierarchy, wanted)
    if matched:
        return matched
    known = sum(name in hierarchy for name in names)
    if known:
        why = f"{known} of them are classes of the hierarchy, but not among {what}."
    else:
        deeper = [str(Path(folder) / name) for name in names if _has_classes(Path(folder) / name, hierarchy)][:1]
        near = did_you_mean(deeper or near_ids(names, hierarchy))
        why = f"None is the id or the name of a class of the hierarchy.{near}"
    raise UnseenError(
        f"{folder}: no photo shows a class among {what}. Photos are expected as {folder}/<class id or name>/<photo>; "
        f"the folders there: {list_some(names, 3)}. {why}"
    )


def check_source(
    source: str | Path | Features, hierarchy: Hierarchy, wanted: Collection[str], what: str
) -> dict[str, str] | None:
    """`match_photos` for a folder of photos or an input, before any is read; None for anything else."""
    if isinstance(source, Features) or is_array_file(source):
        return None
    place = photos_folder(source)
    is_photos = is_labelled_input(source) or (place.is_dir() and not FeatureStore.is_store(place))
    return match_photos(source, hierarchy, wanted, what)[1] if is_photos else None


def match_photos(
    source: str | Path, hierarchy: Hierarchy, wanted: Collection[str], what: str
) -> tuple[Listing, dict[str, str]]:
    """The photos of a folder or an input by what is said to be their class, and which class that is; an error where
    none is of the classes `wanted`."""
    if not is_labelled_input(source):
        place = photos_folder(source)
        return list_by_class(place), check_folders(place, hierarchy, wanted, what)
    listing = list_by_class(source)
    names = listing.classes
    matched = match_folders(names, hierarchy, wanted)
    if not matched:
        near = did_you_mean(near_ids(names, hierarchy))
        raise UnseenError(
            f"{source}: no photo is of a class among {what}. The classes that it names: {list_some(names, 3)}.{near}"
        )
    return listing, matched


def open_features(
    source: str | Path | Features,
    network: Callable[[], PhotoNetwork],
    width: int | None = None,
    workers: int = 2,
    cache: Path | None = None,
) -> Features:
    """Features as they are, of a feature store, of a file of arrays with `width` features, of a folder of photos,
    or of an input (`photos.by_class`).

    Those of photos are kept in a store in `cache`, so that only new photos are read. `network` is called only if
    needed.
    """
    if isinstance(source, Features):
        return source
    if is_array_file(source):
        return read_arrays(source, width)
    place = source if is_labelled_input(source) else photos_folder(source)
    if FeatureStore.is_store(place):
        return FeatureStore.open(place, network())
    if not is_labelled_input(place) and not os.path.isdir(place):
        raise UnseenError(f"{place}: there is no such folder of photos or feature store")
    there = os.fspath(place) if is_url(os.fspath(place)) else os.path.realpath(place)
    about = json.dumps([there, describe_network(network())], sort_keys=True)
    store = (cache or cache_folder() / "features") / hashlib.sha256(about.encode()).hexdigest()[:16]
    logger.info("features of %s are kept in %s", place, store)
    build_store(place, store, network(), workers=workers, prune=True)
    return FeatureStore.open(store, network())


def open_stored(path: str | Path, checksum: str, network: Callable[[], PhotoNetwork]) -> Features:
    """A file of arrays, or a store of the network with this checksum, or of the one below it, which is then loaded."""
    if is_array_file(path):
        return read_arrays(path)
    store = FeatureStore.open(path)
    return store if store.network["checksum"] == checksum else FeatureStore.open(path, network())


def read_named_rows(
    path: str | Path, checksum: str, network: Callable[[], PhotoNetwork]
) -> tuple[list[str], np.ndarray]:
    """Names of the rows, and the rows (n x D), of a file of arrays or of a store of this network."""
    features = open_stored(path, checksum, network)
    batches = list(features.batches())
    return [name for batch in batches for name in batch.paths], np.concatenate([batch.features for batch in batches])


def _has_classes(folder: Path, hierarchy: Hierarchy) -> bool:
    """Whether the folders of classes are one level further down."""
    try:
        return any(name in hierarchy or hierarchy.named(name) for name in list_classes(folder)[:50])
    except UnseenError:
        return False
