"""A small benchmark that anyone can run: photos of everyday things, cut out on white, from a package of Debian.

`everyday.tsv` names photos of tuxpaint-stamps-default (GPL-2) and the class that each shows, checked by eye:
171 photos of 151 classes, 81 of them not among ImageNet's 1,000. The package is fetched once to the user's assets
folder and verified; the photos are unpacked to OUT/everyday/<id>/*. Things on white are easier than photos of scenes,
and there is hardly more than one photo of a class: the figures show that all runs and what to expect, not more.
"""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from unseen import UnseenError
from unseen.data import fetch_asset

LIST = Path(__file__).with_name("everyday.tsv")
PACKAGE = "tuxpaint-stamps-default_2022.06.04-1_all.deb"
INSIDE = "./usr/share/tuxpaint/stamps/"
LARGEST = 2**24  # bytes of a photo in the package


def listed_photos() -> dict[str, str]:
    """Photo in the package -> class id."""
    lines = LIST.read_text(encoding="utf-8").splitlines()
    return dict(line.split("\t")[:2] for line in lines if not line.startswith("#"))


def unpack(package: bytes, chosen: Mapping[str, str], place: Path) -> int:
    """Write the chosen photos to `place`/<class id>/, on white; how many there are."""
    from PIL import Image

    missing, count = dict(chosen), 0
    with tarfile.open(fileobj=io.BytesIO(_member(package, "data.tar"))) as files:
        for entry in files:
            name = entry.name.removeprefix(INSIDE)
            id = missing.pop(name, None)
            content = files.extractfile(entry) if id is not None and entry.isfile() and entry.size < LARGEST else None
            if id is None or content is None:
                continue
            photo = Image.open(io.BytesIO(content.read())).convert("RGBA")
            white = Image.new("RGBA", photo.size, "white")
            (place / id).mkdir(parents=True, exist_ok=True)
            Image.alpha_composite(white, photo).convert("RGB").save(place / id / Path(name).name)
            count += 1
    if missing:
        raise UnseenError(f"{PACKAGE} lacks {len(missing)} of the photos, such as {next(iter(missing))}")
    return count


def _member(package: bytes, name: str) -> bytes:
    """A file of an `ar` archive, which Debian packages are, by the beginning of its name."""
    if not package.startswith(b"!<arch>\n"):
        raise UnseenError(f"{PACKAGE}: is not a Debian package")
    for found, content in _members(package):
        if found.startswith(name):
            return content
    raise UnseenError(f"{PACKAGE}: has no {name}")


def _members(package: bytes) -> Iterator[tuple[str, bytes]]:
    at = 8
    while at + 60 <= len(package):
        header = package[at : at + 60]
        size = int(header[48:58])
        yield header[:16].decode().strip(), package[at + 60 : at + 60 + size]
        at += 60 + size + size % 2


def fetch_everyday(place: Path) -> Path:
    """The photos by class, unpacked to `place` once."""
    if not place.exists():
        package = fetch_asset(PACKAGE).read_bytes()
        unfinished = place.with_name(f"{place.name}.unfinished")
        unpack(package, listed_photos(), unfinished)
        unfinished.replace(place)
    return place.resolve()
