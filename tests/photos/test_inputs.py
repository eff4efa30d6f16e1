"""Photos from folders, lists, parquet tables, tar shards and URLs: the same pictures whichever way they come."""

from __future__ import annotations

import io
import tarfile
import threading
from contextlib import nullcontext
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

from support.bundles import small_photo
from unseen.photos import read_photo
from unseen.photos.inputs import LARGEST, AtUrl, is_input, list_inputs, version_of
from unseen.photos.reading import UnreadablePhoto
from unseen.util.errors import UnseenError

pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")
fsspec = pytest.importorskip("fsspec")


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for seed in range(3):
        place = Path("photos", f"class-{seed % 2}")
        place.mkdir(parents=True, exist_ok=True)
        small_photo(seed).save(place / f"{seed}.png")
    return Path("photos")


def pixels(item) -> np.ndarray:
    return np.asarray(read_photo(item.source))


def same(items, seeds) -> bool:
    return all(
        np.array_equal(pixels(item), np.asarray(small_photo(seed))) for item, seed in zip(items, seeds, strict=True)
    )


def test_a_folder_a_glob_and_a_list(folder):
    items = list_inputs([folder])
    assert [item.name for item in items] == [f"photos/class-{n}.png" for n in ("0/0", "0/2", "1/1")]
    assert [item.label for item in items] == ["class-0", "class-0", "class-1"] and same(items, [0, 2, 1])
    assert list_inputs(["photos/*/*.png"]) == items
    Path("list.txt").write_text("photos/class-1/1.png\n\nphotos/class-0/0.png\tn1\n", encoding="utf-8")
    listed = list_inputs(["list.txt"])
    assert [(item.name, item.label) for item in listed] == [
        ("photos/class-1/1.png", "class-1"),
        ("photos/class-0/0.png", "n1"),
    ]
    assert same(listed, [1, 0]) and list_inputs(["list.txt", folder])[2:] == [items[1]]
    (folder / "notes.txt").write_text("not/a/list.png\n")  # found, not named, and no picture by its name
    (folder / "class-0" / ".DS_Store").touch(), (folder / "class-0" / "labels.json").touch()
    assert list_inputs([folder]) == items


def test_tar_shards_as_webdataset_writes_them(folder):
    with tarfile.open("a.tar", "w") as tar:
        for seed in range(3):
            for ending, content in (
                ("png", png(seed)),
                ("cls", f"n{seed}".encode()),
                ("json", b""),
            ):
                member = tarfile.TarInfo(f"part/{seed}.{ending}")
                member.size, member.mtime = len(content), 1000 + seed
                tar.addfile(member, io.BytesIO(content))
        link = tarfile.TarInfo("part/link.png")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(link)
    items = list(list_inputs(["a.tar"]))
    assert [(item.name, item.label) for item in items] == [(f"a.tar/part/{seed}.png", f"n{seed}") for seed in range(3)]
    assert same(items, range(3)) and version_of(items[1].source).endswith("-1001")
    names = list(list_inputs(["a.tar"], contents=False))
    assert [(item.name, item.label) for item in names] == [(item.name, item.label) for item in items]
    late = list_inputs(["a.tar"])
    next(late)
    Path("a.tar").write_bytes(Path("a.tar").read_bytes()[:2000])  # cut while it is used
    *_, last = late
    with pytest.raises(UnseenError, match=r"2.png: the tar file ends before the photo does"):
        read_photo(last.source)
    Path("b.tar").write_bytes(b"no tar" * 1000)
    with pytest.raises(UnseenError, match=r"b.tar: cannot be read as an uncompressed tar"):
        list(list_inputs(["b.tar"]))


def png(seed: int) -> bytes:
    file = io.BytesIO()
    small_photo(seed).save(file, "PNG")
    return file.getvalue()


def test_parquet_tables_of_paths_bytes_and_of_hugging_face(folder):
    paths = ["photos/class-0/0.png", "photos/class-1/1.png"]
    parquet.write_table(pyarrow.table({"path": paths, "label": ["a", "b"], "size": [1, 2]}), "paths.parquet")
    items = list(list_inputs(["paths.parquet"]))
    assert [(item.name, item.label) for item in items] == [(paths[0], "a"), (paths[1], "b")] and same(items, [0, 1])

    table = pyarrow.table({"jpg": [png(seed) for seed in range(5)], "id": list(range(10, 15)), "x": list("vwxyz")})
    parquet.write_table(table, "bytes.parquet", row_group_size=2)
    items = list(list_inputs(["bytes.parquet"]))
    assert [item.name for item in items] == ["10", "11", "12", "13", "14"] and same(items, range(5))
    assert [item.name for item in list_inputs(["bytes.parquet"], key="x")] == list("vwxyz")
    parquet.write_table(table.drop_columns(["id", "x"]), "bare.parquet")
    assert list(list_inputs(["bare.parquet"]))[3].name == "bare.parquet#3"

    pictures = [{"bytes": png(0), "path": "0.png"}, {"bytes": None, "path": "1.png"}]
    parquet.write_table(pyarrow.table({"image": pictures, "key": ["k0", "k1"]}), "hf.parquet")
    items = list(list_inputs(["hf.parquet"]))
    assert [item.name for item in items] == ["k0", "k1"] and same(items[:1], [0])
    with pytest.raises(UnseenError, match="k1: the table has no bytes for it"):
        read_photo(items[1].source)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"column": "none"}, "table.parquet: has no column none; there are: a, b"),
        ({}, r"table.parquet: say which column holds the photos \(column\): a, b"),
        ({"column": "b"}, "the column b must hold paths, URLs or bytes of photos, not int64"),
        ({"column": "a", "key": "b"}, "7: two different photos have this name"),
    ],
)
def test_tables_that_do_not_say_enough(folder, options, says):
    parquet.write_table(pyarrow.table({"a": ["x.png", "y.png"], "b": [7, 7]}), "table.parquet")
    with pytest.raises(UnseenError, match=says):
        list(list_inputs(["table.parquet"], **options))


def test_a_forged_table_is_one_line(folder):
    parquet.write_table(pyarrow.table([["x.png"], ["y.png"]], names=["path", "path"]), "twice.parquet")
    with pytest.raises(UnseenError, match=r"twice.parquet: has several columns of one name"):
        list(list_inputs(["twice.parquet"]))
    parquet.write_table(pyarrow.table({"image": [{"bytes": 7}], "id": ["a"]}), "numbers.parquet")
    parquet.write_table(pyarrow.table({"path": [None, "x.png"]}), "null.parquet")
    for name, photo in (("numbers.parquet", "a"), ("null.parquet", "null.parquet#0")):
        first = next(iter(list_inputs([name])))
        with pytest.raises(UnreadablePhoto, match=f"{photo}: the table has no bytes for it"):
            read_photo(first.source)


def test_an_endless_answer_is_cut_at_the_limit(monkeypatch):
    class Endless:
        given = 0

        def read(self, size: int) -> bytes:
            Endless.given += size
            return bytes(size)

    monkeypatch.setattr("unseen.photos.inputs.LARGEST", 3 << 20)
    monkeypatch.setattr(fsspec.get_filesystem_class("memory"), "_open", lambda *_, **__: nullcontext(Endless()))
    with pytest.raises(UnreadablePhoto, match=f"has more than the limit of {LARGEST:,} bytes"):
        AtUrl("memory://endless.jpg").read()
    assert Endless.given == (3 << 20) + 1


def refuse(*_: object, **__: object) -> None:
    raise ValueError("no ranges here")  # as fsspec does where a server sends whole files only


def test_urls(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(SimpleHTTPRequestHandler, "log_message", lambda *_: None)
    handler = partial(SimpleHTTPRequestHandler, directory=str(tmp_path))
    pytest.importorskip("aiohttp")
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        base = f"http://127.0.0.1:{server.server_port}/photos"
        Path("urls.txt").write_text(f"{base}/class-0/2.png\n{base}/none.png\nfile://{tmp_path}/photos/class-1/1.png\n")
        items = list_inputs(["urls.txt"])
        assert same([items[0], items[2]], [2, 1])
        with pytest.raises(UnseenError, match=r"none.png: cannot be fetched \(FileNotFoundError"):
            read_photo(items[1].source)
        server.shutdown()
    found = list_inputs([f"file://{tmp_path}/photos/*/*.png"])
    assert same(found, [0, 2, 1]) and found == list_inputs([f"file://{tmp_path}/photos/"])
    monkeypatch.setattr(fsspec.get_filesystem_class("memory"), "_open", refuse)
    with pytest.raises(UnseenError, match=r"memory://shard.tar: cannot be read \(ValueError: no ranges here\)"):
        list(list_inputs(["memory://shard.tar"]))
    with pytest.raises(UnseenError, match="nowhere://x"):
        list_inputs(["nowhere://x/*.png"])
    with pytest.raises(UnseenError, match="photos are read from disk, not from the web"):
        read_photo(f"{base}/class-0/2.png")  # a text alone never opens a connection


def test_what_is_an_input():
    assert all(map(is_input, ("list.txt", "a.parquet", "a.tar", "s3://b/photo.jpg")))
    assert not any(map(is_input, ("photo.jpg", "folder", Path("x.png"), b"bytes")))
