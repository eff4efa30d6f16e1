"""The embedded WordNet 3.0, the hierarchies made from it, and its names and parents for classes that a user adds."""

from __future__ import annotations

import json
import lzma
from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import numpy as np

from unseen.data import data_file, fetch_asset, imagenet_21k
from unseen.hierarchy import paths
from unseen.hierarchy.core import Hierarchy, Node, as_texts
from unseen.hierarchy.search import plain
from unseen.util.errors import UnseenError

BUILT_IN = ("imagenet", "paper", "wordnet")


def built_in(name: str) -> Hierarchy:
    """The built-in hierarchy of that name."""
    return {"imagenet": imagenet, "paper": paper, "wordnet": wordnet}[name]()


@cache
def wordnet() -> Hierarchy:
    """All nouns, with their hypernyms."""
    with np.load(data_file("wordnet-nouns.npz"), allow_pickle=False) as file:
        offset, ptr, idx, text = (file[name] for name in ("offset", "parent_ptr", "parent_idx", "lemmas"))
    ids = [f"n{number:08d}" for number in offset.tolist()]
    lemmas = [tuple(line.split("|")) for line in text.tobytes().decode().rstrip("\n").split("\n")]
    return Hierarchy.trusted(ids, lemmas, (ptr, idx), source={"kind": "wordnet", "version": "3.0"})


@cache
def imagenet() -> Hierarchy:
    """ImageNet's classes and their ancestors."""
    hierarchy = wordnet().subgraph(imagenet_21k())
    hierarchy.source = {"kind": "imagenet", "classes": len(imagenet_21k()), "wordnet": "3.0"}
    return hierarchy


def paper() -> Hierarchy:
    """The authors' graph: the classes of their split, climbing to hypernyms until a node of their second list is met
    (that node is kept, not climbed from), and then all of that list; with WordNet's edges between the nodes kept."""
    files = (fetch_asset(name) for name in ("imagenet-split.json", "imagenet-xml-wnids.json"))
    split, listed_ids = (json.loads(file.read_text(encoding="utf-8")) for file in files)
    nouns = wordnet()
    kept, listed = np.zeros(len(nouns), bool), np.zeros(len(nouns), bool)
    listed[nouns.indices(listed_ids)] = True
    frontier = nouns.indices(split["train"] + split["test"])
    while frontier.size:
        kept[frontier] = True
        _, above = paths.neighbours((nouns.parent_ptr, nouns.parent_idx), frontier[~listed[frontier]])
        frontier = np.unique(above[~kept[above]])
    hierarchy = nouns.subgraph([nouns.ids[row] for row in np.flatnonzero(kept | listed)], closed=False)
    hierarchy.source = {"kind": "paper", "wordnet": "3.0", "lists": "yinboc/DGP"}
    return hierarchy


@cache
def _offsets() -> np.ndarray:
    """The number in each row's id, ascending. Much quicker to load than names and hypernyms."""
    with np.load(data_file("wordnet-nouns.npz"), allow_pickle=False) as file:
        return file["offset"]


def is_wordnet_id(id: str) -> bool:
    """Whether this is the id of a WordNet noun. WordNet is read only if the id looks like one."""
    return wordnet_row(id) >= 0


def wordnet_row(id: str) -> int:
    """The row of a noun in WordNet; -1 for any other id."""
    return int(wordnet_rows([id])[0])


def wordnet_rows(ids: Sequence[str]) -> np.ndarray:
    """n: the row of each noun in WordNet, -1 for other ids.

    >>> wordnet_rows(["n00001740", "n00001741", "entity", "n000017400"]).tolist()
    [0, -1, -1, -1]
    """
    letters = np.array(ids, "U10").reshape(-1, 1).view(np.uint32)  # the tenth is 0, or an id is too long
    digits = letters[:, 1:9].astype(np.int64) - ord("0")
    looks_like_one = (letters[:, 0] == ord("n")) & ((digits >= 0) & (digits < 10)).all(axis=1) & (letters[:, 9] == 0)
    numbers, offsets = digits @ 10 ** np.arange(7, -1, -1), _offsets()
    rows = np.minimum(np.searchsorted(offsets, numbers), len(offsets) - 1)
    return np.where(looks_like_one & (offsets[rows] == numbers), rows, -1)


def has_wordnet_ids(hierarchy: Hierarchy) -> bool:
    """Whether any class of the hierarchy is a WordNet noun."""
    return bool((wordnet_rows(hierarchy.ids) >= 0).any())


@cache
def _glosses() -> list[str]:
    with lzma.open(data_file("wordnet-glosses.txt.xz"), "rt", encoding="utf-8", newline="\n") as file:
        return file.read().split("\n")


def wordnet_gloss(id: str) -> str:
    """WordNet's definition of a noun; "" for any other id."""
    return _glosses()[wordnet().index(id)] if is_wordnet_id(id) else ""


def completed(node: Node) -> Node:
    """A WordNet noun with all its names, and with WordNet's parents if none are given; other nodes unchanged.

    It then has the class vector of WordNet. Names or a definition that are not WordNet's stay: the user means something
    else by the id.
    """
    names, parents = as_texts(node.lemmas), as_texts(node.parents)
    if is_wordnet_id(node.id):
        lemmas, given = wordnet().lemmas[wordnet().index(node.id)], set(map(plain, names))
        parents = parents or tuple(wordnet().parents(node.id))
        if given <= set(map(plain, lemmas)) and node.definition in ("", wordnet_gloss(node.id)):
            first = tuple(name for name in lemmas if plain(name) in given)  # the name to show stays the given one
            names = first + tuple(name for name in lemmas if name not in first)
            return Node(node.id, names, parents, looks=node.looks)
    return replace(node, lemmas=names, parents=parents)


def connecting_nodes(hierarchy: Hierarchy, nodes: Sequence[Node]) -> list[Node]:
    """WordNet's nodes that link new `nodes` to `hierarchy`: their missing parents, with all above them."""
    new = {node.id for node in nodes}
    links: dict[str, Node] = {}
    wanted = [parent for node in nodes for parent in node.parents]
    while wanted:
        id = wanted.pop(0)
        if id not in hierarchy and id not in new and id not in links and is_wordnet_id(id):
            links[id] = completed(Node(id, ()))
            wanted += links[id].parents
    return list(links.values())  # `Hierarchy.extend` reports unknown parents


def check_connected(hierarchy: Hierarchy, grown: Hierarchy, ids: Sequence[str]) -> None:
    """Refuse new classes of `grown` without an ancestor in `hierarchy`, which no class could lend a classifier."""
    for id in ids:
        above = grown.ancestors(id)
        if not any(other in hierarchy for other in above):
            chain = ", ".join(f"{grown.name(other)} ({other})" for other in list(above)[:3])
            root = f"{hierarchy.name(hierarchy.roots[0])} ({hierarchy.roots[0]})"
            advice = f"Give it a parent that is, such as {root}."
            raise UnseenError(f"{id}: no class above it ({chain}, ...) is in this hierarchy. {advice}")
