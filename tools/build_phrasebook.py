"""Merge corrections into the phrase book: what a person calls the nodes of WordNet.

    python tools/build_phrasebook.py CORRECTIONS.tsv ...

The book is written by hand for this project and lies among the data, a line a node: id, WordNet's name, what a person
says, rank (3 said exactly so, 2 a helpful answer, 1 vague or technical, 0 never said). A correction has id, what is
said, rank; later ones win. The name tells whether a class still bears WordNet's name: a name of the user's own wins.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import common
from unseen import Hierarchy

BOOK = "phrasebook.tsv"


def merge(book: Path, corrections: list[Path]) -> dict[str, tuple[str, int]]:
    """Id -> what is said, and its rank."""
    entries: dict[str, tuple[str, int]] = {}
    for path in (book, *corrections):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines() if path.exists() else [], 1):
            if line.strip():
                id, *_, say, rank = (cell.strip() for cell in line.split("\t"))
                if not say or rank not in ("0", "1", "2", "3"):
                    raise SystemExit(f"{path}, line {number}: needs what is said and a rank of 0 to 3: {line!r}")
                entries[id] = say, int(rank)
    return entries


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corrections", nargs="*", type=Path, help="TSV files of id, what is said, rank")
    parser.add_argument("--out", type=Path, default=common.DATA, help="folder of the data files")
    options = parser.parse_args()
    path, wordnet = options.out / BOOK, Hierarchy.wordnet()
    entries = merge(path, options.corrections)
    unknown = [id for id in entries if id not in wordnet]
    if unknown:
        raise SystemExit(f"not ids of WordNet: {', '.join(unknown[:10])}")
    lines = [f"{id}\t{wordnet.name(id)}\t{say}\t{rank}\n" for id, (say, rank) in sorted(entries.items())]
    path.write_text("".join(lines), encoding="utf-8", newline="\n")
    source = common.Package("", "written for this project", "1", "", "-")
    what = f"what a person calls {len(lines):,} nodes of WordNet, ranked by how helpful that is"
    nouns = "nouns without an article, such as water"
    for file, about in ((path, what), (options.out / "mass-nouns.txt", nouns)):
        common.record(file, about, source, "MIT (words of our own)", "tools/build_phrasebook.py")


if __name__ == "__main__":
    main()
