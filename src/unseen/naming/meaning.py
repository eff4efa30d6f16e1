"""What class a text means: an id, or a name. Case, hyphens and runs of blanks in a name do not count.

Every text that names a class is looked up here: those of `Model`, of commands and the page, of candidates, lists and
folders. `unseen.hierarchy.search` has the index of names and the suggestions for misspelt ones.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from unseen.hierarchy.core import Hierarchy, Node, as_texts
from unseen.hierarchy.search import did_you_mean, near_ids, plain
from unseen.hierarchy.wordnet import has_wordnet_ids
from unseen.util.errors import UnseenError
from unseen.util.names import list_some


def find_class(text: str, *hierarchies: Hierarchy, prefer_first_name: bool = False) -> str:
    """The id that a text means: an id of any of the hierarchies, else a name in the first of them that has it.

    A name of several classes is refused, unless `prefer_first_name` and it is the first name of only one: a "bird" is
    no shuttlecock.
    """
    text = text.strip()
    if any(text in hierarchy for hierarchy in hierarchies):
        return text
    hierarchy = next((one for one in hierarchies if one.named(text)), hierarchies[0])
    if prefer_first_name:
        first = [id for id in hierarchy.named(text) if hierarchy.name(id).lower() == text.lower()]
        if len(first) == 1:
            return first[0]
    return hierarchy.resolve(text)


def find_classes(texts: Sequence[str], hierarchy: Hierarchy, where: str) -> list[str]:
    """The ids that the texts of a list mean, first names preferred. One message names all unknown ones; `where` is
    the list."""
    unknown = [text for text in texts if text not in hierarchy and not hierarchy.named(text)]
    if unknown:
        some, near = list_some(unknown), did_you_mean(near_ids(unknown, hierarchy))
        raise UnseenError(f"{where}: {len(unknown)} ids or names are not in the hierarchy: {some}.{near}")
    return [find_class(text, hierarchy, prefer_first_name=True) for text in texts]


def with_parent_ids(nodes: Sequence[Node], hierarchy: Hierarchy) -> list[Node]:
    """New classes for the hierarchy, whose parents may be names, with the ids of these parents.

    A parent is another of the nodes, a class of the hierarchy, or of WordNet if the hierarchy has WordNet's classes.
    """
    new = {node.id for node in nodes}
    texts = {text for node in nodes for text in as_texts(node.parents)} - new
    known = [hierarchy]
    if any(text not in hierarchy and not hierarchy.named(text) for text in texts) and has_wordnet_ids(hierarchy):
        known.append(Hierarchy.wordnet())  # takes a while to read
    meant = {text: find_class(text, *known) for text in texts}
    parents = [dict.fromkeys(meant.get(text, text) for text in as_texts(node.parents)) for node in nodes]
    return [replace(node, parents=tuple(above)) for node, above in zip(nodes, parents, strict=True)]


# --- the noun in a name: "air fryer" is a fryer, "hoverboard" perhaps a board -----------------------------------------

PLURALS = (("ies", "y"), ("ves", "f"), ("es", ""), ("s", ""))
UNIT = "v|w|l|ml|cl|m|cm|mm|km|kg|g|mg|oz|lbs?|in|inch|ft|gb|tb|mb|hz|mah|x|pcs?|pack|ct"
AMOUNT = rf"x?\d+(?:[.,x/]\d+)*(?: ?(?:{UNIT}))?|xs|x{{1,3}}l"  # "18V", "5.5 L", "2 pack", "XL"
SHORTEST = 3  # letters of a noun that ends a compound; at least one fewer come before it


class HeadNoun(NamedTuple):
    """The longest end of a name that is a noun of WordNet."""

    text: str
    ids: tuple[str, ...]  # its senses; empty if no end of the name is a noun
    is_name: bool  # it is the full name
    compound: bool  # it is the end of a word, not a word: less certain


def spell_out(name: str) -> str:
    """The name in plain words, without sizes and remarks: "E-Scooters XL (2 pack)" is "electric scooters"."""
    text = re.sub(r"\([^)]*\)", " ", name)
    text = re.sub(rf"(?i)(?<![\w'-])(?:{AMOUNT})(?![\w-])", " ", text)
    words = plain(re.sub(r"[^\w\s'-]", " ", text)) or plain(re.sub(r"[^\w\s'-]", " ", name))
    return re.sub(r"^e (?=\w)", "electric ", words)


def find_head_noun(name: str, wordnet: Hierarchy) -> HeadNoun:
    """The longest end of the name that is a noun: of its words, else of the letters of the last one."""
    spelt = spell_out(name)
    words = re.split(r"(?<=\w) (?:with|without|for|from) ", spelt)[0].split()  # a case for phones is a case
    last = words[-1] if words else ""
    ends = [(text, True, False) for text in (plain(name), spelt)]
    ends += [(" ".join(words[start:]), False, False) for start in range(len(words))]
    ends += [(last[start:], False, True) for start in range(SHORTEST - 1, len(last) - SHORTEST + 1)]
    for text, is_name, compound in ends:
        if ids := _singular_or_plural(text, wordnet):
            return HeadNoun(text, tuple(ids), is_name, compound)
    return HeadNoun("", (), False, False)


def _singular_or_plural(text: str, wordnet: Hierarchy) -> list[str]:
    """The ids of the classes with that name, else of those with its singular."""
    singulars = [text[: -len(end)] + to for end, to in PLURALS if text.endswith(end) and len(text) > len(end) + 2]
    return next((ids for form in (text, *singulars) if (ids := wordnet.named(form))), [])
