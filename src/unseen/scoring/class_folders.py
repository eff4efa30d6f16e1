"""Which class a folder of photos is of: folders are named by a class's id, or by a name that only one class has."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from unseen.errors import UnseenError
from unseen.photos import list_classes
from unseen.taxonomy import Taxonomy
from unseen.taxonomy.search import did_you_mean, near_ids


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


def check_folders(folder: str | Path, taxonomy: Taxonomy, wanted: Collection[str], what: str) -> dict[str, str]:
    """`match_folders` for the folders in `folder`; refused where none matches, before anything is computed."""
    names = list_classes(folder)
    found = match_folders(names, taxonomy, wanted)
    if found:
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


def _has_classes(folder: Path, taxonomy: Taxonomy) -> bool:
    """Whether the folders of classes are one level further down."""
    try:
        return any(name in taxonomy or taxonomy.senses(name) for name in list_classes(folder)[:50])
    except UnseenError:
        return False
