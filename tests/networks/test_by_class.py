"""The same photos as a folder, a list, a table and shards: the same features under the same classes."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path

import numpy as np
import pytest

from support.stores import QUIET, picture
from unseen.networks.build import build_store
from unseen.networks.store import FeatureStore
from unseen.photos.by_class import list_by_class
from unseen.util.errors import UnseenError

PHOTOS = {"cat/1.png": 1, "cat/2.png": 2, "dog/1.png": 3}


@pytest.fixture
def photos(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, seed in PHOTOS.items():
        picture(Path("photos", name), seed)
    return Path("photos")


def by_class(store: str) -> dict[str, list[list[float]]]:
    """The rows of each class, in an order that does not depend on names."""
    found: dict[str, list[list[float]]] = {}
    for features, ids, _ in FeatureStore.open(store).batches():
        for row, id in zip(features.tolist(), ids, strict=True):
            found.setdefault(id, []).append(row)
    return {id: sorted(rows) for id, rows in found.items()}


def write_tar(name: str, files: dict[str, bytes]) -> str:
    with tarfile.open(name, "w") as tar:
        for path, content in files.items():
            member = tarfile.TarInfo(path)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return name


def write_list(photos: Path) -> str:
    Path("list.txt").write_text("".join(f"{photos / name}\t{name[:3]}\n" for name in PHOTOS))
    return "list.txt"


def write_bare_list(photos: Path) -> str:
    Path("list.txt").write_text("".join(f"{photos / name}\n" for name in PHOTOS))  # the folder is the class
    return "list.txt"


def write_sidecars(photos: Path) -> str:
    files = {}
    for place, name in enumerate(PHOTOS):
        files[f"{place}.png"] = (photos / name).read_bytes()
        files |= (
            {f"{place}.cls": name[:3].encode()} if place else {f"{place}.json": json.dumps({"label": "cat"}).encode()}
        )
    return write_tar("shard-0.tar", files)


def write_folders_in_tar(photos: Path) -> str:
    write_tar("shard-0.tar", {name: (photos / name).read_bytes() for name in PHOTOS})
    return "shard-*.tar"


def write_table(photos: Path) -> str:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    rows = {"image": [(photos / name).read_bytes() for name in PHOTOS], "wnid": [name[:3] for name in PHOTOS]}
    parquet.write_table(pyarrow.table(rows), "table.parquet")
    return "table.parquet"


@pytest.mark.parametrize("write", [write_list, write_bare_list, write_sidecars, write_folders_in_tar, write_table])
def test_any_input_gives_what_the_folder_gives(write, photos, network):
    build_store(photos, "folder", network, **QUIET)
    place = write(photos)
    assert build_store(place, "store", network, **QUIET).new == 3
    expected, found = by_class("folder"), by_class("store")
    assert found.keys() == expected.keys() == {"cat", "dog"}
    assert all(np.array_equal(found[id], expected[id]) for id in expected)
    assert build_store(place, "store", network, **QUIET).new == 0  # nothing has changed


def test_a_photo_that_changed_or_left_the_list(photos, network):
    build_store(write_list(photos), "store", network, **QUIET)
    before = by_class("store")
    picture(photos / "dog/1.png", 9, size=(40, 26))
    Path("list.txt").write_text("photos/cat/1.png\tcat\nphotos/dog/1.png\tdog\nphotos/gone.png\tdog\n")
    built = build_store("list.txt", "store", network, **QUIET)
    assert (built.photos, built.new, built.unreadable) == (2, 1, 1)
    after = by_class("store")
    assert after["cat"][0] in before["cat"] and after["dog"] != before["dog"]
    assert "gone.png" in Path("store/unreadable.jsonl").read_text()


def test_photos_without_a_class_and_impossible_classes(photos):
    loose = write_tar("loose.tar", {"1.png": (photos / "cat/1.png").read_bytes()})
    with pytest.raises(UnseenError, match=r"says of 1 of 1 photos no class \(loose.tar/1.png\).*KEY.cls"):
        list_by_class(loose)
    Path("list.txt").write_text("photos/cat/1.png\t../../elsewhere\n")
    with pytest.raises(UnseenError, match=r"is no id or name of a class: '\.\./\.\./elsewhere'"):
        list_by_class("list.txt")
