"""The benchmark of free photos: which it takes from the package, and how."""

from __future__ import annotations

import io
import tarfile

import numpy as np
import pytest
from PIL import Image

from support.command_line import run_command
from unseen.data import ASSETS, imagenet_1k, imagenet_21k
from unseen.hierarchy.core import Hierarchy
from unseen.util.errors import UnseenError
from unseen_lab.data import everyday


def make_package(photos: dict[str, str]) -> bytes:
    """A Debian package: an `ar` archive of three files, the last one a compressed tar."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:xz") as archive:
        for name, colour in photos.items():
            png, image = io.BytesIO(), Image.new("RGBA", (40, 40), (0, 0, 0, 0))
            image.paste(colour, (0, 0, 20, 40))
            image.save(png, "PNG")
            entry = tarfile.TarInfo(f"./usr/share/tuxpaint/stamps/{name}")
            entry.size = len(png.getvalue())
            archive.addfile(entry, io.BytesIO(png.getvalue()))
    package = b"!<arch>\n"
    for name, content in {"debian-binary": b"2.0\n", "control.tar.xz": b"odd", "data.tar.xz": file.getvalue()}.items():
        package += f"{name:<16}{0:<12}{0:<6}{0:<6}{644:<8}{len(content):<10}`\n".encode() + content
        package += b"\n" * (len(content) % 2)
    return package


def test_photos_come_by_class_on_white(tmp_path):
    package = make_package({"a/frog.png": "green", "a/other.png": "red", "b/rose.png": "red"})
    assert everyday.unpack(package, {"a/frog.png": "n01639765", "b/rose.png": "n12620196"}, tmp_path) == 2
    assert sorted(path.name for path in tmp_path.rglob("*.png")) == ["frog.png", "rose.png"]
    photo = np.asarray(Image.open(tmp_path / "n01639765" / "frog.png"))
    assert photo[5, 5].tolist() == [0, 128, 0] and photo[5, 35].tolist() == [255, 255, 255]


def test_what_is_missing_is_named(tmp_path):
    with pytest.raises(UnseenError, match=r"lacks 1 of the photos, such as a/frog\.png"):
        everyday.unpack(make_package({}), {"a/frog.png": "n01639765"}, tmp_path)
    with pytest.raises(UnseenError, match="is not a Debian package"):
        everyday.unpack(b"<html>", {}, tmp_path)


def test_the_list_is_what_the_page_says():
    photos, seen = everyday.listed_photos(), set(imagenet_1k())
    assert set(photos.values()) <= seen | set(imagenet_21k())
    classes = set(photos.values())
    assert (len(photos), len(classes), len(classes - seen)) == (171, 151, 81)
    lines = everyday.LIST.read_text(encoding="utf-8").splitlines()[1:]
    hierarchy = Hierarchy.imagenet()
    assert all(hierarchy.name(id) == name for _, id, name in (line.split("\t") for line in lines))
    assert everyday.PACKAGE in ASSETS


@pytest.mark.slow
def test_it_runs_on_what_the_package_holds(tmp_path, monkeypatch):
    """As one of the tables, whose rows may be other methods."""
    listed = {"a/frog.png": "n01639765", "b/hen.png": "n01514859"}
    (tmp_path / "package").write_bytes(make_package(dict.fromkeys(listed, "green")))
    monkeypatch.setattr(everyday, "listed_photos", lambda: listed)
    monkeypatch.setattr(everyday, "fetch_asset", lambda name: tmp_path / "package")
    options = ["--out", tmp_path / "work", "--device", "cpu", "--workers", "0"]
    done = run_command("reproduce", "everyday", "--methods", "structural", *options, "--json")
    assert done.code == 0, done.err
    table = done.json["tables"]["everyday"]
    (row,) = table["rows"]
    assert row["label"] == "structural" and row["measured"]["unseen&folder"]["image"]["hit@1"] == 100  # the frog alone
    assert [entry["images"] for entry in table["coverage"].values()] == [1, 1, 2]
    assert len(list((tmp_path / "work" / "everyday").glob("*/*.png"))) == 2
    assert run_command("reproduce", "gat", "--methods", "kin", *options).code == 1
