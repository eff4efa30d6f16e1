"""Which classes the releases of ImageNet-21K have, and which of the paper's lists are missing from them.

    python tools/imagenet_releases.py TIMM_WHEEL      (pip download --no-deps timm==1.0.30)

The list of the winter 2021 release (19,167 classes) is in no package. What is: the 11,221 classes of ImageNet-21K-P
made from fall 2011, and the 10,450 made from winter 2021 in the same way. What the second lacks tells which part of
the hierarchy was cut. Needs the authors' lists (UNSEEN_ASSETS).
"""

from __future__ import annotations

import sys
import zipfile

from unseen.hierarchy.core import Hierarchy
from unseen_lab.authors import paper_list

PERSON = "n00007846"
LISTS = ("train", "2-hops", "3-hops", "all")
RELEASES = {"fall 2011": 21_841, "winter 2021": 19_167}  # classes, as their makers count them


def main(wheel: str) -> None:
    def ids(name: str) -> set[str]:
        with zipfile.ZipFile(wheel) as archive:
            return set(archive.read(f"timm/data/_info/{name}_synsets.txt").decode().split())

    fall, whole = ids("imagenet22k"), ids("imagenet22k_ms")
    p_fall, p_winter = ids("imagenet21k_miil"), ids("imagenet21k_miil_w21")
    wordnet = Hierarchy.wordnet()
    person = {PERSON, *wordnet.descendants(PERSON)}
    gone = p_fall - p_winter
    print(f"fall 2011: {len(fall):,} classes; the list of 21,842 adds {', '.join(sorted(whole - fall))}")
    fewer = RELEASES["fall 2011"] - RELEASES["winter 2021"]
    print(f"winter 2021: {RELEASES['winter 2021']:,} classes, {fewer:,} fewer")
    print(f"21K-P: {len(gone):,} of {len(p_fall):,} gone, {len(gone & person):,} of them people;", end=" ")
    print(f"{len(p_winter & person):,} of {len(p_fall & person):,} people are left")
    print(f"people in fall 2011: {len(fall & person):,}")
    for name in LISTS:
        listed = set(paper_list(name))
        print(f"{name}: {len(listed):,} classes; not in fall 2011: {len(listed - fall)};", end=" ")
        print(f"known to be gone in winter 2021: {len(listed & gone)}; people, so at most: {len(listed & person)}")


if __name__ == "__main__":
    main(sys.argv[1])
