"""Which classes a photo may be assigned to: the authors' lists, hops, subtrees, own classes, own lists, and sets of
them. `unseen&leaves-subtree:plant` means what it does from left to right: of the unseen classes the leaves, without
plants."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import numpy as np

from unseen.data import AWA2_TEST, AWA2_TRAIN, fetch_asset
from unseen.hierarchy.core import Hierarchy
from unseen.hierarchy.files import COLUMNS, own_classes, read_csv, read_json
from unseen.hierarchy.search import close_matches, did_you_mean, near_ids
from unseen.hierarchy.wordnet import BUILT_IN
from unseen.util.errors import UnseenError
from unseen.util.names import list_some

if TYPE_CHECKING:
    from unseen.bundle import Bundle

AUTHORS_LISTS = ("2-hops", "3-hops", "all")
AWA2 = {"awa2-test": AWA2_TEST, "awa2-train": AWA2_TRAIN}
WORDS = (
    *("any", "unseen", "novel", "seen", "1K", "1k", "own", "leaves", "person", "folder"),
    *(*AUTHORS_LISTS, "awa2", "awa2-test", "awa2-train"),
)
HELP = (
    "any, unseen, novel (nothing seen at or below), seen, own (what you added), leaves, person, folder (the classes of "
    "the photos, in evaluate), hops:N, subtree:NAME, 2-hops, 3-hops, all (the authors' lists), a file of ids or names, "
    "or the CSV that you added; joined by + (or), & (and), - (without), as unseen&leaves"
)
PERSON = "n00007846"
"""WordNet's node above the classes that label human beings, most of which ImageNet's makers withdrew. Candidates are
never below it, but for those that the network was trained on, unless someone asks for them."""

Operation: TypeAlias = Literal["+", "&", "-"]
_OPERATIONS: tuple[Operation, ...] = get_args(Operation)
MOST_OPERATIONS = 200


def paper_list(name: str) -> list[str]:
    """A list of the paper's authors: 2-hops, 3-hops, all, train, awa2-test, awa2-train."""
    if name in AWA2:
        return list(AWA2[name].values())
    return json.loads(fetch_asset("imagenet-testsets.json").read_text())[name]


def resolve_candidates(
    bundle: Bundle, names: str | Sequence[str], with_seen: bool = False, folder: Sequence[str] | None = None
) -> np.ndarray:
    """Rows of the hierarchy that `names` means; `with_seen` adds the seen classes. They ascend, but a list or a file
    keeps its order. `folder`: the ids of that name."""
    parts: list[tuple[Operation, Any]] = [("+", names)]
    if isinstance(names, str):
        parts = list(parse_candidates(bundle, names))
    sets = [(operation, _resolve_part(bundle, part, folder)) for operation, part in parts]
    chosen = np.zeros(len(bundle.ids), bool)
    for operation, rows in sets:
        inside = np.zeros(len(chosen), bool)
        inside[rows] = True
        chosen = {"+": chosen | inside, "&": chosen & inside, "-": chosen & ~inside}[operation]
    is_list = len(sets) == 1 and parts[0][1] not in WORDS
    rows = np.array(list(dict.fromkeys(sets[0][1].tolist())), np.int64) if is_list else np.flatnonzero(chosen)
    if with_seen:
        seen = np.sort(bundle.hierarchy.indices(bundle.seen_ids))
        rows = np.concatenate([rows, seen[~np.isin(seen, rows)]]) if is_list else np.union1d(rows, seen)
    if not len(rows):
        raise UnseenError(f"the candidates {names!r} name no class of this hierarchy. Choose from: {HELP}")
    return rows


def default_candidates(bundle: Bundle) -> str:
    """What is evaluated if nobody says: unseen classes; in a hierarchy of the user's own its leaves, since inner nodes
    there are mostly headings, that take photos from the classes below them."""
    if bundle.hierarchy.source.get("kind") in BUILT_IN:
        return "unseen"
    leaves = bundle.hierarchy.indices(bundle.hierarchy.leaves)
    return "unseen&leaves" if (bundle.is_class & ~bundle.is_seen)[leaves].any() else "unseen"


def parse_candidates(bundle: Bundle, spec: str, files: bool = True) -> list[tuple[Operation, str]]:
    """What is joined by +, & and -, from left to right. One of these characters inside a name or a file's name joins
    nothing: 2-hops, a+b.txt. Without `files`, none is looked for."""

    hierarchy = bundle.hierarchy

    @cache
    def is_part(text: str) -> bool:
        kind, colon, argument = text.partition(":")
        if colon and kind == "hops":
            return argument.isdecimal()
        if colon and kind == "subtree":
            return argument in hierarchy or bool(hierarchy.named(argument))
        return text in WORDS or (files and bool(text) and os.path.isfile(text))

    if sum(map(spec.count, _OPERATIONS)) > MOST_OPERATIONS:
        raise UnseenError(
            f"{spec[:40]}...: more than {MOST_OPERATIONS} of the characters + & - in one set of candidates. "
            "Write the ids into a file, one per line, and name the file."
        )
    parts = _split(spec.strip(), is_part)
    if parts is None:
        unknown = _first_unknown(spec.strip(), is_part)
        if unknown.startswith(("subtree:", "hops:")):
            _resolve_part(bundle, unknown, None)  # raises: says what is wrong with it
        near = did_you_mean(close_matches(unknown, WORDS))
        raise UnseenError(f"no candidates named {unknown!r}, and no such file.{near} Choose from: {HELP}")
    return parts


def _split(text: str, is_part: Callable[[str], bool]) -> list[tuple[Operation, str]] | None:
    """Sets and how each is joined to those before it; the last one as long as possible. None: not understood."""

    @cache  # each beginning is read once: without this, k ambiguous parts would take 2^k steps
    def split(text: str) -> tuple[tuple[Operation, str], ...] | None:
        if is_part(text):
            return (("+", text),)
        for at, operation in enumerate(text):
            if operation in _OPERATIONS and is_part(last := text[at + 1 :].strip()):
                before = split(text[:at].strip())
                if before is not None:
                    return (*before, (operation, last))
        return None

    parts = split(text)
    return None if parts is None else list(parts)


def _first_unknown(spec: str, is_part: Callable[[str], bool]) -> str:
    """The part of something not understood that a message should be about."""
    if close_matches(spec, WORDS):
        return spec
    parts = [part.strip() for part in re.split("[+&]", spec)]
    unknown = next((part for part in parts if _split(part, is_part) is None), spec)
    before, minus, after = unknown.partition("-")
    return after.strip() if minus and is_part(before.strip()) else unknown


def _resolve_part(bundle: Bundle, spec: str | Sequence[str], folder: Sequence[str] | None) -> np.ndarray:
    """Rows: ascending, or as listed."""
    hierarchy, is_class = bundle.hierarchy, bundle.is_class
    if not isinstance(spec, str):
        return hierarchy.indices(find_ids(spec, hierarchy, "the candidates"))
    kind, _, argument = spec.partition(":")
    if spec in (*AUTHORS_LISTS, *AWA2, "awa2"):
        listed = [id for name in ((*AWA2,) if spec == "awa2" else (spec,)) for id in paper_list(name)]
        return np.sort(hierarchy.indices(id for id in listed if id in hierarchy))
    seen = np.zeros(len(bundle.ids), bool)
    seen[hierarchy.indices(bundle.seen_ids)] = True
    if spec in ("seen", "1K", "1k"):
        return np.flatnonzero(seen)
    if spec == "any":
        return np.flatnonzero(is_class & ~hidden_people(bundle))
    if spec == "unseen":
        return np.flatnonzero(is_class & ~seen)
    if spec == "novel":
        return np.flatnonzero(is_class & ~_above(hierarchy, seen) & ~hidden_people(bundle))
    if spec == "leaves":
        leaves = np.isin(np.arange(len(hierarchy)), hierarchy.indices(hierarchy.leaves))
        return np.flatnonzero(is_class & leaves & ~hidden_people(bundle))
    if spec == "person":
        if hierarchy.source.get("kind") not in BUILT_IN:
            raise UnseenError("the candidates 'person' are a branch of WordNet: here, write subtree:NAME")
        return np.flatnonzero(is_class & _below(hierarchy, PERSON))
    if spec == "own":
        return hierarchy.indices(_added_classes(bundle))
    if spec == "folder":
        if folder is None:
            raise UnseenError("the candidates 'folder' are the classes of the photos that are evaluated: not here")
        return np.sort(hierarchy.indices(folder))
    if kind == "hops":
        if not argument.isdecimal() or len(argument) > 9 or int(argument) < 1:
            raise UnseenError(f"hops:N takes an integer of at least 1, not {argument!r}")
        within = hierarchy.indices(hierarchy.within_hops(bundle.seen_ids, int(argument)))
        return np.sort(within[is_class[within] & ~seen[within]])
    if kind == "subtree":
        return np.flatnonzero(is_class & _below(hierarchy, find_node(hierarchy, argument)))
    return hierarchy.indices(find_ids(read_ids(Path(spec), hierarchy), hierarchy, spec))


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


def hidden_people(bundle: Bundle) -> np.ndarray:
    """N, bool: unseen classes below *person* in WordNet that nobody added."""
    hierarchy = bundle.hierarchy
    if hierarchy.source.get("kind") not in BUILT_IN or PERSON not in hierarchy:
        return np.zeros(len(hierarchy), bool)
    hidden = _below(hierarchy, PERSON)
    own = own_classes(hierarchy, bundle.added)
    hidden[hierarchy.indices([PERSON, *bundle.seen_ids, *own])] = False
    return hidden


def _added_classes(bundle: Bundle) -> list[str]:
    """What the user added with `unseen add`, or as the FILE of `--hierarchy imagenet+FILE`."""
    built_in = bundle.hierarchy.source.get("kind") in BUILT_IN
    own = own_classes(bundle.hierarchy, bundle.added) if built_in else bundle.added
    added = [id for id in own if bundle.is_class[bundle.hierarchy.index(id)]]
    if not added:
        raise UnseenError(
            "the candidates 'own' are what was added with `unseen add` or in a hierarchy such as imagenet+FILE: "
            "nothing was added to this bundle. All its classes are `any`."
        )
    return added


def read_ids(path: Path, hierarchy: Hierarchy | None = None) -> list[str]:
    """A file with an id or a name in each line, or a JSON list; or a hierarchy, CSV with a header or JSON, whose ids
    count. What follows a tab or a comma is ignored, unless the whole line is a name of the `hierarchy`."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise UnseenError(f"{path}: cannot be read as UTF-8 text: {error}") from None
    if path.suffix == ".json":
        try:
            ids = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise UnseenError(f"{path}: not JSON: {error}") from None
        if isinstance(ids, list) and ids and all(isinstance(i, dict) for i in ids):
            return read_json(path).ids
        if not isinstance(ids, list) or not all(isinstance(i, str) for i in ids):
            raise UnseenError(f"{path}: must hold a JSON list of ids")
    elif _has_header(text):
        return read_csv(path).ids
    else:
        ids = [_first_cell(line.strip(), hierarchy) for line in text.splitlines() if line.strip(" \t,")]
    if not ids:
        raise UnseenError(f"{path}: holds no ids")
    return ids


def _first_cell(line: str, hierarchy: Hierarchy | None) -> str:
    """The id or name that a line begins with; lists of ImageNet's classes also have names after a blank."""
    if hierarchy is not None and (line in hierarchy or hierarchy.named(line)):
        return line
    cell = re.split(r"[\t,]", line)[0].strip(' "')
    return cell.split()[0] if re.match(r"n\d{8}\s", cell) else cell


def _has_header(text: str) -> bool:
    """Whether the first line names the columns of a hierarchy, as the CSV of `unseen add` does."""
    first = next((line for line in text.splitlines() if line.strip()), "").lower()
    cells = {cell.strip(' "') for cell in first.replace(";", ",").replace("\t", ",").split(",")}
    return {"name", "parent"} <= {COLUMNS.get(cell) for cell in cells}


def find_ids(texts: Sequence[str], hierarchy: Hierarchy, where: str) -> list[str]:
    """The ids of classes given by id or name."""
    unknown = [text for text in texts if text not in hierarchy and not hierarchy.named(text)]
    if unknown:
        some, near = list_some(unknown), did_you_mean(near_ids(unknown, hierarchy))
        raise UnseenError(f"{where}: {len(unknown)} ids or names are not in the hierarchy: {some}.{near}")
    return [text if text in hierarchy else find_node(hierarchy, text) for text in texts]


def find_node(hierarchy: Hierarchy, text: str) -> str:
    """The id of a node by id or name. Of several that bear the name, the one that it is the first name of: a "bird" is
    no shuttlecock."""
    if text not in hierarchy:
        first = [sense.id for sense in hierarchy.senses(text) if sense.lemmas[0].lower() == text.strip().lower()]
        if len(first) == 1:
            return first[0]
    return hierarchy.resolve(text)
