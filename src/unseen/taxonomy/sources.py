"""The built-in hierarchies, and what a user may write for one: `--graph imagenet`, `my.csv`, `wordnet+my.csv`."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import numpy as np

from unseen.assets import fetch_asset, imagenet_21k
from unseen.errors import UnseenError
from unseen.taxonomy import paths, readers
from unseen.taxonomy.additions import completed, connecting_nodes, reserve_of
from unseen.taxonomy.core import Taxonomy
from unseen.taxonomy.makers import maker
from unseen.taxonomy.nodes import Node
from unseen.taxonomy.search import close_matches, did_you_mean
from unseen.taxonomy.wordnet import is_wordnet_id, wordnet

BUILT_IN = ("imagenet", "paper", "wordnet")  # hierarchies that are made of WordNet's nodes
READERS = {
    ".csv": readers.read_csv,
    ".tsv": readers.read_csv,
    ".json": readers.read_json,
    ".txt": readers.read_edge_file,
    ".edges": readers.read_edge_file,
}


@maker
@cache
def imagenet() -> Taxonomy:
    taxonomy = wordnet().subgraph(imagenet_21k())
    taxonomy.source = {"kind": "imagenet", "classes": len(imagenet_21k()), "wordnet": "3.0"}
    return taxonomy


@maker
def paper() -> Taxonomy:
    """The authors' graph: the classes of their split, climbing to hypernyms until a node of their second list is met
    (that node is kept, not climbed from), and then all of that list; with WordNet's edges between the nodes kept."""
    split, listed_ids = (_json_asset(name) for name in ("imagenet-split.json", "imagenet-xml-wnids.json"))
    whole = wordnet()
    kept, listed = np.zeros(len(whole), bool), np.zeros(len(whole), bool)
    listed[whole.indices(listed_ids)] = True
    frontier = whole.indices(split["train"] + split["test"])
    while frontier.size:
        kept[frontier] = True
        _, above = paths.neighbours((whole.parent_ptr, whole.parent_idx), frontier[~listed[frontier]])
        frontier = np.unique(above[~kept[above]])
    taxonomy = whole.subgraph([whole.ids[row] for row in np.flatnonzero(kept | listed)], closed=False)
    taxonomy.source = {"kind": "paper", "wordnet": "3.0", "lists": "yinboc/DGP"}
    return taxonomy


def _json_asset(name: str):
    return json.loads(fetch_asset(name).read_text(encoding="utf-8"))


@maker
def load(spec: str | Path) -> Taxonomy:
    """What the user wrote -> the taxonomy."""
    text = str(spec)
    if text in BUILT_IN:
        return getattr(Taxonomy, text)()
    base, plus, file = text.partition("+")
    if plus and base in BUILT_IN:
        if not file:
            raise UnseenError(f"{text!r}: name the CSV file with your classes after the '+'.")
        return _with_additions(base, Path(file))
    return _read_file(Path(spec))


def _read_file(path: Path) -> Taxonomy:
    return Taxonomy.from_json(path) if path.suffix.lower() == ".json" else _draft(path).taxonomy()


def _draft(path: Path) -> readers.Draft:
    read = READERS.get(path.suffix.lower())
    if read is not None:
        return read(path)
    choices = f"Choose {', '.join(BUILT_IN)}, a file ({' '.join(READERS)}), or e.g. wordnet+my-classes.csv."
    if path.exists():
        raise UnseenError(f"{path}: not a kind of file that a hierarchy is read from. {choices}")
    near = did_you_mean(close_matches(str(path), BUILT_IN))
    raise UnseenError(f"There is no hierarchy {str(path)!r}.{near} {choices}")


def read_additions(path: str | Path, taxonomy: Taxonomy) -> list[Node]:
    """The classes in a file as nodes for `taxonomy`. Parents: ids or names, of the taxonomy, the file or WordNet.

    Rows that only restate a class of the taxonomy are among them: those whose id is in the taxonomy.
    """
    return _draft(Path(path)).additions(taxonomy, reserve_of(taxonomy))


def _with_additions(base: str, path: Path) -> Taxonomy:
    """A built-in hierarchy with the new classes of a file. Parents that it lacks come along from WordNet.

    `source` keeps which WordNet nouns the file names as classes: they are meant to be answers, not only to connect.
    """
    draft = _draft(path)
    taxonomy = getattr(Taxonomy, base)()
    nodes = draft.additions(taxonomy, reserve_of(taxonomy))
    new = [completed(node) for node in nodes if node.id not in taxonomy]
    grown = taxonomy.extend([*connecting_nodes(taxonomy, new), *new])
    facts = {"added": len(new), "additions": path.name, "already_there": len(nodes) - len(new)}
    facts["named"] = [node.id for node in nodes if is_wordnet_id(node.id)]
    grown.source.update({key: fact for key, fact in facts.items() if fact})
    return grown
