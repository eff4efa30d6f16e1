"""New classes for a hierarchy that has to do with WordNet: what WordNet knows of them need not be said again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from unseen.errors import UnseenError
from unseen.taxonomy.core import Taxonomy
from unseen.taxonomy.nodes import Node, as_texts
from unseen.taxonomy.search import plain
from unseen.taxonomy.wordnet import is_wordnet_id, wordnet, wordnet_gloss


def reserve_of(taxonomy: Taxonomy) -> Taxonomy | None:
    """WordNet, where a hierarchy has some of its ids, so that parents which the hierarchy lacks can come along."""
    return wordnet() if any(map(is_wordnet_id, taxonomy.ids)) else None


def completed(node: Node) -> Node:
    """A WordNet noun with all that WordNet says of it: its other names, and its parents where none are given.

    It then has the class vector it has in a hierarchy made from WordNet. Where the given names or definition are not
    WordNet's, the user means something else by the id, and they stay as they are. Any other node stays as it is.
    """
    given, parents = as_texts(node.lemmas), as_texts(node.parents)
    if not is_wordnet_id(node.id):
        return replace(node, lemmas=given, parents=parents)
    wanted, own = set(map(plain, given)), wordnet().lemmas[wordnet().index(node.id)]
    parents = parents or tuple(wordnet().parents(node.id))
    if wanted <= set(map(plain, own)) and node.definition in ("", wordnet_gloss(node.id)):
        first = tuple(name for name in own if plain(name) in wanted)  # the name to show stays the one that was given
        return Node(node.id, first + tuple(name for name in own if name not in first), parents)
    return replace(node, lemmas=given, parents=parents)


def connecting_nodes(taxonomy: Taxonomy, nodes: Sequence[Node]) -> list[Node]:
    """The nodes of WordNet between the parents of new `nodes` that `taxonomy` lacks and `taxonomy` itself."""
    known = {node.id for node in nodes}
    found: dict[str, Node] = {}
    wanted = [parent for node in nodes for parent in node.parents]
    while wanted:
        id = wanted.pop(0)
        if id in taxonomy or id in known or id in found or not is_wordnet_id(id):
            continue  # what is in none of them is told by `Taxonomy.extend`
        found[id] = completed(Node(id, ()))
        wanted += found[id].parents
    return list(found.values())


def check_connected(taxonomy: Taxonomy, grown: Taxonomy, ids: Sequence[str]) -> None:
    """Refuse new classes of `grown` above which there is nothing of `taxonomy`: they would have nothing to borrow."""
    for id in ids:
        above = grown.ancestors(id)
        if not any(other in taxonomy for other in above):
            chain = ", ".join(f"{grown.name(other)} ({other})" for other in list(above)[:3])
            raise UnseenError(
                f"{id}: nothing above it ({chain}, ...) is in this hierarchy. Give it a parent that is, such as "
                f"{taxonomy.name(taxonomy.roots[0])} ({taxonomy.roots[0]})."
            )
