"""Check the glossary of looks and renew its checksum; or list lines that may be wrong, for a person to read.

    python tools/check_looks.py                    after every correction: form, then the entry in MANIFEST.json
    python tools/check_looks.py --suspicious 100   the 100 most suspicious pairs of classes, in seconds

Suspicious are two classes that share a name, are far apart in the hierarchy, and whose looks share rare words: one line
may speak of the other meaning. Of the checks that docs/looks.md tells of, this one found the most mistakes.
"""

from __future__ import annotations

import argparse
import math
import re
from collections import Counter, defaultdict
from itertools import combinations
from pathlib import Path

import common
from unseen.data import imagenet_21k
from unseen.hierarchy.core import Hierarchy

WORDS = range(22, 46)
ALLOWED = re.compile(r"[A-Za-z0-9 ,;:.'()/âçèéû-]+")
FAR = 3  # edges between two classes: nearer ones may well look alike
RARE = 2.5  # log of how many lines there are for one that has the word


def read(path: Path) -> dict[str, str]:
    """Id -> look; stops with the numbers of the lines that are not as docs/looks.md says."""
    wrong, looks, last, known = [], {}, "", set(imagenet_21k())
    for number, line in enumerate(path.read_text(encoding="utf-8").split("\n")[:-1], 1):
        id, _, look = line.partition("\t")
        if id not in known or id <= last:
            wrong.append(f"{number}: {id} is no ImageNet class, or not after the one before it")
        if not ALLOWED.fullmatch(look) or look != " ".join(look.split()).rstrip("."):
            wrong.append(f"{number}: {id} has a character that is not allowed, or blanks or a full stop too many")
        if len(look.split()) not in WORDS:
            wrong.append(f"{number}: {id} has {len(look.split())} words, not {WORDS[0]} to {WORDS[-1]}")
        looks[id], last = look, id
    wrong += [f"given twice: {look}" for look, count in Counter(looks.values()).items() if count > 1]
    if wrong:
        raise SystemExit("\n".join([f"{path}:", *wrong]))
    return looks


def suspicious(looks: dict[str, str]) -> list[str]:
    """Pairs of classes with their shared words, worst first."""
    hierarchy = Hierarchy.imagenet()
    words = {id: set(re.findall(r"[a-z]{4,}", look.lower())) for id, look in looks.items()}
    lines_with = Counter(word for of_line in words.values() for word in of_line)
    weight = {word: max(0.0, math.log(len(looks) / count) - RARE) for word, count in lines_with.items()}
    named: dict[str, list[str]] = defaultdict(list)
    for id in looks:
        for name in hierarchy.lemmas[hierarchy.index(id)]:
            named[name.lower()].append(id)
    found = []
    for pair in sorted({pair for ids in named.values() for pair in combinations(ids, 2)}):
        shared = sorted(words[pair[0]] & words[pair[1]], key=weight.__getitem__, reverse=True)
        if len(hierarchy.path(*pair)) > FAR + 1 and shared:
            found.append((sum(map(weight.__getitem__, shared)), pair, shared[:8]))
    found.sort(reverse=True)
    return [
        "\n".join([" ".join(shared), *(f"  {id} ({hierarchy.definition(id)}) {looks[id]}" for id in pair)])
        for _, pair, shared in found
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suspicious", type=int, metavar="N", help="list the N most suspicious pairs")
    wanted = parser.parse_args().suspicious
    path = common.DATA / "looks.tsv"
    looks = read(path)
    if wanted:
        print(*suspicious(looks)[:wanted], sep="\n")
        return
    what = f"what {len(looks):,} ImageNet classes look like in photos, {WORDS[0]} to {WORDS[-1]} words each"
    source = common.Package("written", "for this project by a language model, docs/looks.md", "1", "", "")
    common.record(path, what, source, "MIT (texts of our own)", "tools/check_looks.py")


if __name__ == "__main__":
    main()
