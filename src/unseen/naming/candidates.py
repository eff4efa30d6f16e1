"""Which classes a photo may be assigned to: sets by name, subtrees, files of ids, and sets of them.

`unseen&leaves-subtree:plant` is read from left to right: of the unseen classes the leaves, without plants.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias, cast, get_args

import numpy as np

from unseen.hierarchy.core import Hierarchy
from unseen.hierarchy.search import close_matches, did_you_mean
from unseen.hierarchy.wordnet import BUILT_IN, wordnet_rows
from unseen.naming.meaning import find_class, find_classes
from unseen.naming.reading import read_ids
from unseen.util.errors import UnseenError

if TYPE_CHECKING:
    from unseen.bundle import Bundle

SETS_HELP = (
    "any, unseen, novel (nothing seen at or below), seen, own (what you added), leaves, person, hops:N (unseen classes "
    "within N edges of a seen one), subtree:NAME"
)
"""The sets that can be named anywhere, also by a client of the web page."""
HELP = (
    f"{SETS_HELP}, folder (the classes of the photos, in evaluate), 2-hops, 3-hops, all (the authors' lists), a file "
    "of ids or names, or the CSV that you added; joined by + (or), & (and), - (without), as 'unseen&leaves'"
)
PERSON = "n00007846"
"""WordNet's node above the classes that label human beings, most of which ImageNet's makers withdrew. Candidates are
never below it, except for classes that the network was trained on, unless someone asks for them."""

Operation: TypeAlias = Literal["+", "&", "-"]
_OPERATIONS: tuple[Operation, ...] = get_args(Operation)
MOST_OPERATIONS = 200

# --- sets by name -----------------------------------------------------------------------------------------------------

Finder: TypeAlias = Callable[[Hierarchy], Iterable[str]]
_registered: dict[str, Finder] = {}
LABORATORY: dict[str, str] = dict.fromkeys(
    ("2-hops", "3-hops", "all", "awa2", "awa2-test", "awa2-train"), "unseen_lab.data.authors"
)
"""Sets that a module of the laboratory registers when it is imported, which happens when someone asks for one."""


def register_candidates(name: str, find: Finder) -> None:
    """Make `name` a set of candidates: the ids that `find(hierarchy)` returns; ids of other classes are ignored.

    >>> from unseen.examples import fruits
    >>> register_candidates("sour", lambda hierarchy: ["lemon", "lime", "vinegar"])
    >>> bundle = fruits().bundle
    >>> [bundle.ids[row] for row in resolve_candidates(bundle, "sour-seen")]
    ['lemon']
    """
    if name in _SETS or name == "folder" or not re.fullmatch(r"[\w-]+", name):
        raise UnseenError(f"candidates cannot be named {name!r}: built in, or more than letters, digits, - and _")
    _registered[name] = find


def set_names() -> list[str]:
    """Every set that has a name."""
    return [*_SETS, "folder", *dict.fromkeys([*LABORATORY, *_registered])]


def _registered_rows(name: str, hierarchy: Hierarchy) -> np.ndarray:
    if name not in _registered:
        import_module(LABORATORY[name])
    return np.sort(hierarchy.indices(id for id in _registered[name](hierarchy) if id in hierarchy))


def _below(hierarchy: Hierarchy, id: str) -> np.ndarray:
    """N, bool: the node and all below it."""
    node, ancestor, _ = hierarchy.ancestor_pairs()
    mask = np.zeros(len(hierarchy), bool)
    mask[node[ancestor == hierarchy.index(id)]] = True
    return mask


def _above(hierarchy: Hierarchy, nodes: np.ndarray) -> np.ndarray:
    """N, bool: these nodes (N, bool) and all above them."""
    node, ancestor, _ = hierarchy.ancestor_pairs()
    mask = np.zeros(len(hierarchy), bool)
    mask[ancestor[nodes[node]]] = True
    return mask


def _mask(hierarchy: Hierarchy, ids: Iterable[str]) -> np.ndarray:
    mask = np.zeros(len(hierarchy), bool)
    mask[hierarchy.indices(ids)] = True
    return mask


def own_classes(hierarchy: Hierarchy, added: Sequence[str] = ()) -> list[str]:
    """The user's classes in a built-in hierarchy: those without a WordNet id, and those added by name."""
    named = {*added, *hierarchy.source.get("named", ())}
    rows = wordnet_rows(hierarchy.ids).tolist()
    return [id for id, row in zip(hierarchy.ids, rows, strict=True) if row < 0 or id in named]


def hidden_people(bundle: Bundle) -> np.ndarray:
    """N, bool: unseen classes below *person* in WordNet that nobody added."""
    hierarchy = bundle.hierarchy
    if hierarchy.source.get("kind") not in BUILT_IN or PERSON not in hierarchy:
        return np.zeros(len(hierarchy), bool)
    own = own_classes(hierarchy, bundle.added)
    return _below(hierarchy, PERSON) & ~_mask(hierarchy, [PERSON, *bundle.seen_ids, *own])


def _people(bundle: Bundle) -> np.ndarray:
    if bundle.hierarchy.source.get("kind") not in BUILT_IN:
        raise UnseenError("the candidates 'person' are a branch of WordNet: here, write subtree:NAME")
    return bundle.is_class & _below(bundle.hierarchy, PERSON)


def _added(bundle: Bundle) -> np.ndarray:
    """What the user added with `unseen add`, or as the FILE of `--hierarchy imagenet+FILE`."""
    built_in = bundle.hierarchy.source.get("kind") in BUILT_IN
    own = own_classes(bundle.hierarchy, bundle.added) if built_in else bundle.added
    added = bundle.is_class & _mask(bundle.hierarchy, own)
    if not added.any():
        raise UnseenError(
            "the candidates 'own' are what was added with `unseen add` or in a hierarchy such as imagenet+FILE: "
            "nothing was added to this bundle. All its classes are `any`."
        )
    return added


def _novel(bundle: Bundle) -> np.ndarray:
    return bundle.is_class & ~_above(bundle.hierarchy, bundle.is_seen) & ~hidden_people(bundle)


def _leaves(bundle: Bundle) -> np.ndarray:
    return bundle.is_class & _mask(bundle.hierarchy, bundle.hierarchy.leaves) & ~hidden_people(bundle)


_SETS: dict[str, Callable[[Bundle], np.ndarray]] = {  # N, bool
    "any": lambda bundle: bundle.is_class & ~hidden_people(bundle),
    "unseen": lambda bundle: bundle.is_class & ~bundle.is_seen,
    "novel": _novel,
    "seen": lambda bundle: bundle.is_seen,
    "1K": lambda bundle: bundle.is_seen,  # as the paper writes it: 2-hops+1K
    "1k": lambda bundle: bundle.is_seen,
    "own": _added,
    "leaves": _leaves,
    "person": _people,
}


def default_candidates(bundle: Bundle) -> str:
    """What is evaluated by default: unseen classes. In a hierarchy of the user's own only its leaves, since its inner
    nodes are mostly headings, which would take photos from the classes below them."""
    if bundle.hierarchy.source.get("kind") in BUILT_IN:
        return "unseen"
    return "unseen&leaves" if (_leaves(bundle) & ~bundle.is_seen).any() else "unseen"


# --- from a text to rows ----------------------------------------------------------------------------------------------


def resolve_candidates(
    bundle: Bundle, names: str | Sequence[str], with_seen: bool = False, folder: Sequence[str] | None = None
) -> np.ndarray:
    """The rows of the hierarchy that `names` means: a text, or ids or names. They ascend, but a list or a file alone
    keeps its order. `with_seen` adds the seen classes; `folder` has the ids of the set of that name."""
    if isinstance(names, str):
        parts = parse_candidates(bundle, names)
        sets = [(operation, _find_rows(bundle, part, folder)) for operation, part in parts]
        in_order = len(parts) == 1 and parts[0][1] not in set_names()
    else:
        sets = [("+", bundle.hierarchy.indices(find_classes(names, bundle.hierarchy, "the candidates")))]
        in_order = True
    chosen = np.zeros(len(bundle.ids), bool)
    for operation, rows in sets:
        inside = np.isin(np.arange(len(chosen)), rows)
        chosen = {"+": chosen | inside, "&": chosen & inside, "-": chosen & ~inside}[operation]
    rows = np.array(list(dict.fromkeys(sets[0][1].tolist())), np.int64) if in_order else np.flatnonzero(chosen)
    if with_seen:
        seen = np.flatnonzero(bundle.is_seen)
        rows = np.concatenate([rows, seen[~np.isin(seen, rows)]]) if in_order else np.union1d(rows, seen)
    if not len(rows):
        raise UnseenError(f"the candidates {names!r} name no class of this hierarchy. Choose from: {HELP}")
    return rows


def _find_rows(bundle: Bundle, part: str, folder: Sequence[str] | None) -> np.ndarray:
    """The rows of one set: ascending, or in the order of a file."""
    hierarchy = bundle.hierarchy
    kind, _, argument = part.partition(":")
    if part in _SETS:
        return np.flatnonzero(_SETS[part](bundle))
    if part in LABORATORY or part in _registered:
        return _registered_rows(part, hierarchy)
    if part == "folder":
        if folder is None:
            raise UnseenError("the candidates 'folder' are the classes of the photos that are evaluated: not here")
        return np.sort(hierarchy.indices(folder))
    if kind == "hops":
        if not argument.isdecimal() or len(argument) > 9 or int(argument) < 1:
            raise UnseenError(f"hops:N takes an integer of at least 1, not {argument!r}")
        near = _mask(hierarchy, hierarchy.within_hops(bundle.seen_ids, int(argument)))
        return np.flatnonzero(near & bundle.is_class & ~bundle.is_seen)
    if kind == "subtree":
        id = find_class(argument, hierarchy, prefer_first_name=True)
        return np.flatnonzero(bundle.is_class & _below(hierarchy, id))
    return hierarchy.indices(find_classes(read_ids(Path(part), hierarchy), hierarchy, part))


# --- the text ---------------------------------------------------------------------------------------------------------


def parse_candidates(bundle: Bundle, text: str, files: bool = True) -> list[tuple[Operation, str]]:
    """The sets that +, & and - join, from left to right. One of these characters inside a name or a file's name joins
    nothing: 2-hops, a+b.txt. Without `files`, no file is looked for."""
    hierarchy, names = bundle.hierarchy, set(set_names())

    @cache
    def is_set(part: str) -> bool:
        kind, colon, argument = part.partition(":")
        if colon and kind == "hops":
            return argument.isdecimal()
        if colon and kind == "subtree":
            return argument in hierarchy or bool(hierarchy.named(argument))
        return part in names or (files and bool(part) and os.path.isfile(part))

    if sum(map(text.count, _OPERATIONS)) > MOST_OPERATIONS:
        raise UnseenError(
            f"{text[:40]}...: more than {MOST_OPERATIONS} of the characters + & - in one set of candidates. "
            "Write the ids into a file, one per line, and name the file."
        )
    parts = _split(text.strip(), is_set)
    if parts is None:
        unknown = _first_unknown(text.strip(), is_set)
        if unknown.startswith(("subtree:", "hops:")):
            _find_rows(bundle, unknown, None)  # raises: says what is wrong with it
        near = did_you_mean(close_matches(unknown, names))
        raise UnseenError(f"no candidates named {unknown!r}, and no such file.{near} Choose from: {HELP}")
    return parts


def _split(text: str, is_set: Callable[[str], bool]) -> list[tuple[Operation, str]] | None:
    """Each set with how it is joined to those before it; the last one as long as possible. None: not understood."""

    joints = [at for at, character in enumerate(text) if character in _OPERATIONS]
    # Of each beginning that is understood, by its end. Each is read once: trying every combination would take 2^k steps
    # for k ambiguous parts.
    parts: dict[int, list[tuple[Operation, str]]] = {}
    for end in (*joints, len(text)):
        if is_set(text[:end].strip()):
            parts[end] = [("+", text[:end].strip())]
            continue
        for at in joints:
            if at < end and at in parts and is_set(last := text[at + 1 : end].strip()):
                parts[end] = [*parts[at], (cast(Operation, text[at]), last)]
                break
    return parts.get(len(text))


def _first_unknown(text: str, is_set: Callable[[str], bool]) -> str:
    """The part of a text that was not understood, for the message."""
    if close_matches(text, set_names()):
        return text
    parts = [part.strip() for part in re.split("[+&]", text)]
    unknown = next((part for part in parts if _split(part, is_set) is None), text)
    before, minus, after = unknown.partition("-")
    return after.strip() if minus and is_set(before.strip()) else unknown
