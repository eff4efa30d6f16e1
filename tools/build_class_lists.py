"""Compile the ImageNet-1k and ImageNet-21k class lists (wnids, sorted) from timm's wheel, without importing timm."""

from __future__ import annotations

import zipfile
from pathlib import Path

import common

# Of timm's three lists of the full ImageNet only this one has all 21,842 classes: imagenet22k_synsets.txt lacks
# n04399382 (teddy bear); imagenet21k_goog_synsets.txt lacks it too, and has two ids that are not classes.
LISTS = {"imagenet-1k.txt": "imagenet_synsets.txt", "imagenet-21k.txt": "imagenet22k_ms_synsets.txt"}


def build(wheel: Path, out: Path) -> list[Path]:
    """Write each list sorted, one wnid a line; return the paths."""
    paths = []
    with zipfile.ZipFile(wheel) as archive:
        for name, source in LISTS.items():
            wnids = sorted(set(archive.read(f"timm/data/_info/{source}").decode("ascii").split()))
            paths.append(out / name)
            paths[-1].write_text("".join(f"{wnid}\n" for wnid in wnids), encoding="ascii", newline="\n")
    return paths


def main() -> None:
    options = common.arguments(__doc__).parse_args()
    for path in build(common.TIMM.find(options.inputs), options.out):
        what = f"{path.stem.replace('imagenet', 'ImageNet')} class list (wnids, sorted)"
        common.record(path, what, common.TIMM, "Apache-2.0", "tools/build_class_lists.py")


if __name__ == "__main__":
    main()
