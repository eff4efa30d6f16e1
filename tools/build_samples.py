"""Make the sample photos of the page and the demo: small JPEGs of free photos that packages carry.

The first two are of classes that the default network was never shown, nor any kind of them: it names the one right, and
the other wrong. A search among the free photos of scikit-image, scipy, Tux Paint and GCompris found them.
"""

from __future__ import annotations

import argparse
import bz2
import hashlib
import importlib.util
import io
import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path

from PIL import Image

import common
from unseen.apps.web import STATIC

LONG_SIDE = 420  # pixels: sharp on a phone, and more than any network reads
MOST_BYTES = 40_000
SCIPY = common.Package(
    "pypi",
    "scipy",
    "1.9.3",
    "scipy-1.9.3-cp38-cp38-manylinux_2_17_x86_64.manylinux2014_x86_64.whl",
    "cff3a5295234037e39500d35316a4c5794739433528310e117b8a9a0c76d20fc",
)
GCOMPRIS = "gcompris-qt-data_3.1-2_all.deb"  # of Debian 12; `apt-get download gcompris-qt-data`


# What was looked at: name -> sha256 of the picture in its package. samples.json says where each lies, and whose it is.
PICTURES = {
    "temple": "c94ddb83bb2d878fecaf0677e8e6c1e73ede7dd39bd69f5e84d2f68e84515156",
    "raccoon": "9d8b0b4d081313e2b485748c770472e5a95ed1738146883d84c7030493e82886",
    "cat": "596aa1e7cb875eb79f437e310381d26b338a81c2da23439704a73c4651e8c4bb",
    "coffee": "cc02f8ca188b167c775a7101b5d767d1e71792cf762c33d6fa15a4599b5a8de7",
    "rocket": "c2dd0de7c538df8d111e479619b129464d0269d0ae5fd18ca91d33a7fdfea95c",
    "camera": "b0793d2adda0fa6ae899c03989482bff9a42d3d5690fc7e3648f2795d730c23a",
}


def build(inputs: Path, out: Path) -> None:
    """Write every sample of samples.json into `out`."""
    out.mkdir(parents=True, exist_ok=True)
    for picture in json.loads((STATIC / "samples" / "samples.json").read_text(encoding="utf-8")):
        data = _read(picture, inputs)
        if hashlib.sha256(data).hexdigest() != PICTURES[picture["name"]]:
            raise SystemExit(f"{picture['source']}: not the picture that was looked at")
        (out / picture["file"]).write_bytes(_jpeg(picture, data))


def _read(picture: dict[str, str], inputs: Path) -> bytes:
    """The bytes of a picture in its package."""
    package, _, file = picture["source"].partition(": ")
    if "scikit-image" in package:
        skimage = importlib.util.find_spec("skimage")
        if skimage is None:
            raise SystemExit("scikit-image is not installed: pip install scikit-image")
        return (Path(skimage.origin).parent / "data" / file).read_bytes()
    if "scipy" in package:
        with zipfile.ZipFile(SCIPY.find(inputs)) as wheel:
            return wheel.read(file)
    archive = inputs / GCOMPRIS
    if not archive.exists():
        raise SystemExit(f"put Debian's {GCOMPRIS} into {inputs}: apt-get download gcompris-qt-data")
    unpack = f"dpkg-deb --fsys-tarfile '{archive}' | tar -xO ./usr/share/gcompris-qt/rcc/explore_monuments.rcc"
    resources = subprocess.run(["sh", "-c", unpack], check=True, capture_output=True).stdout
    for match in re.finditer(rb"RIFF(....)WEBP", resources, re.DOTALL):
        data = resources[match.start() : match.start() + int.from_bytes(match[1], "little") + 8]
        if hashlib.sha256(data).hexdigest() == PICTURES[picture["name"]]:
            return data
    raise SystemExit(f"{archive}: {file} is not in it")


def _jpeg(picture: dict[str, str], data: bytes) -> bytes:
    """The best quality that stays within the size."""
    if picture["source"].endswith("face.dat"):
        image = Image.frombytes("RGB", (1024, 768), bz2.decompress(data))
    else:
        image = Image.open(io.BytesIO(data)).convert("RGB")
    image.thumbnail((LONG_SIDE, LONG_SIDE), Image.Resampling.LANCZOS)
    for quality in range(88, 40, -4):
        buffer = io.BytesIO()
        image.save(buffer, "JPEG", quality=quality, optimize=True, progressive=True)
        if buffer.tell() <= MOST_BYTES:
            return buffer.getvalue()
    raise SystemExit(f"{picture['name']}: does not fit into {MOST_BYTES:,} bytes")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=Path, default=common.INPUTS, help="folder of the packages")
    parser.add_argument("--out", type=Path, default=STATIC / "samples")
    options = parser.parse_args()
    build(options.inputs, options.out)
    for path in sorted(options.out.iterdir()):
        print(f"{path.name}: {path.stat().st_size:,} bytes", file=sys.stderr)


if __name__ == "__main__":
    main()
