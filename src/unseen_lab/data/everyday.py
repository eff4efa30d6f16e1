"""A small benchmark that anyone can run: photos of everyday things, cut out on white, from a package of Debian.

`recipes/everyday.tsv` names photos of tuxpaint-stamps-default (GPL-2) and the class that each shows, checked by eye:
171 photos of 151 classes, 81 of them not among ImageNet's 1,000. The package is fetched once to the user's assets
folder and verified; the photos are unpacked to OUT/everyday/<id>/*. Things on white are easier than photos of scenes,
and there is hardly more than one photo of a class: the figures show that all runs and what to expect, not more.
"""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from unseen.data import fetch_asset
from unseen.evaluation.protocol import evaluate_lists
from unseen.util.errors import UnseenError
from unseen.util.files import replacing_folder
from unseen_lab.tables.compare import HITS, parse_method
from unseen_lab.tables.levels import FOLDER, Lengths, Level
from unseen_lab.tables.trainings import Trainings

PACKAGE = "tuxpaint-stamps-default_2022.06.04-1_all.deb"
INSIDE = "./usr/share/tuxpaint/stamps/"
METHODS = ("kin", "structural", "conse")
LISTS = {"unseen&folder": "unseen, of the photos", "unseen": "unseen", "any": "any"}
LARGEST = 2**24  # bytes of a photo in the package


def listed_photos() -> dict[str, str]:
    """Photo in the package -> class id."""
    lines = (FOLDER / "everyday.tsv").read_text(encoding="utf-8").splitlines()
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


def run_everyday(trainings: Trainings, methods: Sequence[str] = METHODS) -> dict[str, Any]:
    """{"table", "photos", "classes", "rows": [{"method", "vectors", "epochs", list: {"image", "class"}}]}."""
    place = trainings.work / "everyday"
    chosen = listed_photos()
    if not place.exists():
        package = fetch_asset(PACKAGE).read_bytes()
        with replacing_folder(place) as unfinished:
            unpack(package, chosen, unfinished)
    work, rows = replace(trainings, level=replace(trainings.level, unseen=place.resolve())), []
    for row in map(parse_method, methods):
        if (lack := work.lacks(row)) is not None:
            raise UnseenError(f"{row.label}: {lack}")
        model = work.model(row)
        results = evaluate_lists(model, work.store(model, place), list(LISTS), confidence=None)
        names = ("image", "class_", "images", "listed_classes")
        figures = {spec: {name.strip("_"): getattr(result, name) for name in names}
                   for spec, result in zip(LISTS, results, strict=True)}  # fmt: skip
        vectors = "+".join(model.bundle.vectors.names)
        rows.append({"method": row.label, "vectors": vectors, "epochs": work.epochs(row), **figures})
    counts = {"photos": len(chosen), "classes": len(set(chosen.values()))}
    return {"table": "everyday", "network": trainings.level.network, **counts, "rows": rows}


def everyday_level(network: str | None) -> Level:
    level = Level("photos", "imagenet", "glove", "efficientnet-lite0")
    return level.with_parts(network=network)


EVERYDAY_LENGTHS = Lengths(300, 100, 0, study_epochs=300)


def table_of(result: dict[str, Any]) -> list[list[str]]:
    """Text cells, header first; Hit@k over photos."""
    header = ["method", "vectors", *(f"{name} @{hit[4:]}" for name in LISTS.values() for hit in HITS)]
    lines = [[row["method"], row["vectors"], *(f"{row[spec]['image'][hit]:.1f}" for spec in LISTS for hit in HITS)]
             for row in result["rows"]]  # fmt: skip
    return [header, *lines]
