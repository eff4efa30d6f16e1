"""How often `suggest` finds the right place for everyday names that WordNet lacks: everyday-names.csv.

A name is right where its parent is at most two steps from the true one (or from one of them, where several are). One
half of the names, by a hash, is for choosing weights (tools/tune_suggest.py), the other for reporting. fresh-names.csv
is a second list to report on, written before any suggestion for it was seen:

    python benchmarks/suggest.py                 the report half; --half develop or fresh for the others
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from unseen import Hierarchy
from unseen.naming.meaning import find_head_noun
from unseen.naming.placing import suggest

NAMES = Path(__file__).with_name("everyday-names.csv")
FRESH = Path(__file__).with_name("fresh-names.csv")
HALVES = ("develop", "report")
STEPS = 2


@dataclass(frozen=True)
class Everyday:
    list: str
    name: str
    parents: tuple[str, ...]


def read_half(half: str) -> list[Everyday]:
    """The names of a half, or with "fresh" those of the second list."""
    with (FRESH if half == "fresh" else NAMES).open(encoding="utf-8", newline="") as file:
        names = [Everyday(row["list"], row["name"], tuple(row["parent"].split("|"))) for row in csv.DictReader(file)]
    if half == "fresh":
        return names
    return [name for name in names if HALVES[int(hashlib.sha256(name.name.encode()).hexdigest(), 16) % 2] == half]


def lists_of(names: list[Everyday]) -> list[list[Everyday]]:
    return [list(group) for _, group in groupby(names, lambda name: name.list)]


def measure(lists: list[list[Everyday]]) -> dict:
    """Per cent of names whose first place, and one of whose first three, is at most STEPS from the truth."""
    wordnet = Hierarchy.wordnet()
    first, three, wrong = 0, 0, []
    for names in lists:
        found = {name: item for item in suggest([name.name for name in names]) for name in item.name.split("|")}
        for name in names:
            hops = wordnet.hops_from(name.parents)
            right = [0 <= hops[wordnet.index(place.sense.id)] <= STEPS for place in found[name.name].places]
            first, three = first + any(right[:1]), three + any(right)
            if not any(right[:1]):
                wrong.append(f"{name.name}: {', '.join(place.sense.name for place in found[name.name].places)}")
    count = sum(map(len, lists))
    return {"names": count, "right": 100 * first / count, "right_of_three": 100 * three / count, "wrong": wrong}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--half", choices=(*HALVES, "fresh"), default="report")
    parser.add_argument("--wrong", action="store_true", help="list the names that are wrong")
    options = parser.parse_args()
    names = read_half(options.half)
    known = [name.name for name in names if find_head_noun(name.name, Hierarchy.wordnet()).is_name]
    if known:
        raise SystemExit(f"WordNet has these: {', '.join(known)}")
    result = {"half": options.half, "lists": measure(lists_of(names)), "alone": measure([[name] for name in names])}
    for figures in (result["lists"], result["alone"]):
        wrong = figures.pop("wrong")
        if options.wrong:
            print("\n".join(wrong), end="\n\n")
    print(json.dumps(result))


if __name__ == "__main__":
    main()
