"""What the words of a name tell of its place: "air fryer" is a fryer, "hoverboard" perhaps a board."""

from __future__ import annotations

import re
from dataclasses import dataclass

from unseen.taxonomy import Taxonomy
from unseen.taxonomy.search import plain

PLURALS = (("ies", "y"), ("ves", "f"), ("es", ""), ("s", ""))
UNIT = "v|w|l|ml|cl|m|cm|mm|km|kg|g|mg|oz|lbs?|in|inch|ft|gb|tb|mb|hz|mah|x|pcs?|pack|ct"
AMOUNT = rf"x?\d+(?:[.,x/]\d+)*(?: ?(?:{UNIT}))?|xs|x{{1,3}}l"  # "18V", "5.5 L", "2 pack", "XL"
SHORTEST = 3  # letters of a noun that ends a compound, and of what is before it at least one less


@dataclass(frozen=True)
class HeadNoun:
    """The end of a name that is a noun of WordNet."""

    text: str
    ids: tuple[str, ...]  # of its senses; none where no end of the name is a noun
    whole: bool  # the name itself is that noun
    compound: bool  # it is the end of a word, not a word: less sure


def spell_out(name: str) -> str:
    """The name in plain words, without sizes and remarks: "E-Scooters XL (2 pack)" is "electric scooters"."""
    text = re.sub(r"\([^)]*\)", " ", name)
    text = re.sub(rf"(?i)(?<![\w'-])(?:{AMOUNT})(?![\w-])", " ", text)
    words = plain(re.sub(r"[^\w\s'-]", " ", text)) or plain(re.sub(r"[^\w\s'-]", " ", name))
    return re.sub(r"^e (?=\w)", "electric ", words)


def senses_of(text: str, wordnet: Taxonomy) -> tuple[str, ...]:
    """The ids of the classes with that name, else of those with its singular."""
    singulars = [text[: -len(end)] + to for end, to in PLURALS if text.endswith(end) and len(text) > len(end) + 2]
    for form in (text, *singulars):
        found = tuple(sense.id for sense in wordnet.senses(form))
        if found:
            return found
    return ()


def find_head(name: str, wordnet: Taxonomy) -> HeadNoun:
    """The longest end of the name that is a noun: of its words, else of the letters of the last one."""
    given = senses_of(plain(name), wordnet)
    if given:
        return HeadNoun(plain(name), given, True, False)
    spelt = spell_out(name)
    if spelt != plain(name) and (given := senses_of(spelt, wordnet)):
        return HeadNoun(spelt, given, True, False)
    words = re.split(r"(?<=\w) (?:with|without|for|from) ", spelt)[0].split()  # a case for phones is a case
    for start in range(len(words)):
        ids = senses_of(" ".join(words[start:]), wordnet)
        if ids:
            return HeadNoun(" ".join(words[start:]), ids, False, False)
    last = words[-1] if words else ""
    for start in range(SHORTEST - 1, len(last) - SHORTEST + 1):
        ids = senses_of(last[start:], wordnet)
        if ids:
            return HeadNoun(last[start:], ids, False, True)
    return HeadNoun("", (), False, False)
