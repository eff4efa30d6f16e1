"""Make the sample photos of the page and the demo: small JPEGs of free pictures that scikit-image carries."""

from __future__ import annotations

import argparse
import importlib.util
import io
import sys
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from unseen._util.files import sha256
from unseen.web import STATIC

LONG_SIDE = 480  # pixels: sharp on a phone, and more than any network reads
MOST_BYTES = 40_000


@dataclass(frozen=True)
class Picture:
    """A picture of scikit-image. `licence` is what its docstring in skimage.data says."""

    name: str
    source: str
    sha256: str
    shows: str
    by: str
    licence: str


PICTURES = [
    Picture(
        "astronaut",
        "astronaut.png",
        "88431cd9653ccd539741b555fb0a46b61558b301d4110412b5bc28b5e3ea6cb5",
        "The astronaut Eileen Collins in her space suit",
        "NASA",
        "public domain",
    ),
    Picture(
        "camera",
        "camera.png",
        "b0793d2adda0fa6ae899c03989482bff9a42d3d5690fc7e3648f2795d730c23a",
        "A man looking through a film camera on a tripod",
        "Lav Varshney",
        "CC0",
    ),
    Picture(
        "cat",
        "chelsea.png",
        "596aa1e7cb875eb79f437e310381d26b338a81c2da23439704a73c4651e8c4bb",
        "Chelsea, a tabby cat",
        "Stefan van der Walt",
        "CC0",
    ),
    Picture(
        "coffee",
        "coffee.png",
        "cc02f8ca188b167c775a7101b5d767d1e71792cf762c33d6fa15a4599b5a8de7",
        "An espresso in a red cup",
        "Rachel Michetti, courtesy of Pikolo Espresso Bar",
        "CC0",
    ),
    Picture(
        "rocket",
        "rocket.jpg",
        "c2dd0de7c538df8d111e479619b129464d0269d0ae5fd18ca91d33a7fdfea95c",
        "A Falcon 9 before the launch of DSCOVR",
        "SpaceX",
        "public domain",
    ),
]


def build(pictures: Path, out: Path) -> None:
    """Write every sample and SAMPLES.md into `out`."""
    out.mkdir(parents=True, exist_ok=True)
    lines = [
        "# Sample photos",
        "",
        "Made by `tools/build_samples.py` from pictures that scikit-image carries (skimage/data), scaled down. "
        "Every one may be used freely, for any purpose.",
        "",
        "| file | shows | by | licence | scikit-image's file |",
        "|---|---|---|---|---|",
    ]
    for picture in PICTURES:
        source = pictures / picture.source
        if sha256(source) != picture.sha256:
            raise SystemExit(f"{source}: not the picture that was looked at (sha256 {sha256(source)})")
        (out / f"{picture.name}.jpg").write_bytes(_jpeg(source))
        row = (f"{picture.name}.jpg", picture.shows, picture.by, picture.licence, picture.source)
        lines.append(f"| {' | '.join(row)} |")
    (out / "SAMPLES.md").write_text("\n".join(lines) + "\n", encoding="utf-8", newline="\n")


def _jpeg(source: Path) -> bytes:
    """The best quality that stays within the size."""
    with Image.open(source) as opened:
        image = opened.convert("RGB")
    image.thumbnail((LONG_SIDE, LONG_SIDE), Image.Resampling.LANCZOS)
    for quality in range(88, 40, -4):
        buffer = io.BytesIO()
        image.save(buffer, "JPEG", quality=quality, optimize=True, progressive=True)
        if buffer.tell() <= MOST_BYTES:
            return buffer.getvalue()
    raise SystemExit(f"{source}: does not fit into {MOST_BYTES:,} bytes")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pictures", type=Path, help="folder of the pictures; by default that of scikit-image")
    parser.add_argument("--out", type=Path, default=STATIC / "samples")
    options = parser.parse_args()
    package = importlib.util.find_spec("skimage")
    if options.pictures is None and package is None:
        raise SystemExit("scikit-image is not installed: pip install scikit-image")
    build(options.pictures or Path(package.origin).parent / "data", options.out)
    for path in sorted(options.out.iterdir()):
        print(f"{path.name}: {path.stat().st_size:,} bytes", file=sys.stderr)


if __name__ == "__main__":
    main()
