"""Check the form of the glossary of looks, and renew its checksum in MANIFEST.json: after every correction."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import common
from unseen.data import imagenet_21k

WORDS = range(22, 46)
ALLOWED = re.compile(r"[A-Za-z0-9 ,;:.'()/âçèéû-]+")


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


def main() -> None:
    path = common.DATA / "looks.tsv"
    what = f"what {len(read(path)):,} ImageNet classes look like in photos, {WORDS[0]} to {WORDS[-1]} words each"
    source = common.Package("written", "for this project by a language model, docs/looks.md", "1", "", "")
    common.record(path, what, source, "MIT (texts of our own)", "tools/check_looks.py")


if __name__ == "__main__":
    main()
