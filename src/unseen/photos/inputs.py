"""Where many photos lie: folders, globs, lists, parquet tables, tar shards and URLs. Each photo gets a name.

    FOLDER, GLOB     the files there; parquet and tar files among them are opened
    LIST.txt         a path or URL a line; after a tab, its class
    TABLE.parquet    a column of paths, URLs or bytes (also Hugging Face's {bytes, path}); perhaps one of names, one of
                     classes
    SHARD.tar        webdataset's layout: KEY.jpg, perhaps with KEY.cls or KEY.json beside it, which says the class
    scheme://...     any of these, or a photo, where fsspec finds it: s3, gs, https, file, ...

Only names and places are listed. `read_photo` takes the places as they are, in whatever process.
"""

from __future__ import annotations

import hashlib
import json
import os
import tarfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from unseen.photos.reading import Source, UnreadablePhoto, find_photos
from unseen.util.errors import UnseenError
from unseen.util.names import list_some

PHOTO_ENDINGS = {"jpg", "jpeg", "png", "webp", "bmp", "gif", "tif", "tiff", "ppm", "avif", "heic"}
OPENED = (".parquet", ".tar")  # files that hold photos, wherever they are found; a .txt only if it is named
LARGEST = 1 << 28  # bytes of a photo that is not a file
SIDECAR = 1 << 16  # bytes of a record beside a photo
# Columns of a parquet file that are looked for, the first one first.
PHOTOS = ("photo", "image", "path", "url", "file", "file_name", "filename", "uri", "bytes", "jpg", "png")
NAMES = ("key", "__key__", "id", "name", "image_id")
CLASSES = ("class", "class_id", "label", "wnid", "synset")


class Item(NamedTuple):
    """A photo of an input."""

    name: str
    source: Source  # a path, bytes, or an object with `read`, `name` and `version`
    label: str = ""  # its class, if the input says so


@dataclass(frozen=True)
class AtUrl:
    """A photo that fsspec reads."""

    name: str
    version: str = ""

    def read(self) -> bytes:
        try:
            system, path = _file_system(self.name)
            content = system.cat_file(path, end=LARGEST + 1)
        except Exception as error:  # each protocol has its own
            raise UnreadablePhoto(self.name, f"cannot be fetched ({type(error).__name__}: {error}).") from None
        return _limited(self.name, content)


@dataclass(frozen=True)
class InTar:
    """A photo in an uncompressed tar file: `size` bytes from `start`."""

    name: str
    tar: str
    start: int
    size: int
    version: str

    def read(self) -> bytes:
        if self.size > LARGEST:
            return _limited(self.name, bytes(0), self.size)
        try:
            with _open(self.tar) as file:
                file.seek(self.start)
                content = file.read(self.size)
        except Exception as error:  # each protocol has its own
            raise UnreadablePhoto(self.name, f"cannot be read from {self.tar} ({error}).") from None
        if len(content) < self.size:
            raise UnreadablePhoto(self.name, "the tar file ends before the photo does.")
        return content


@dataclass(frozen=True)
class InTable:
    """A photo whose bytes are in a parquet file: a row of one of its groups of rows."""

    name: str
    table: str
    column: str
    group: int
    row: int
    version: str

    def read(self) -> bytes:
        try:
            value = _read_group(self.table, self.version, self.column, self.group)[self.row].as_py()
        except Exception as error:
            raise UnreadablePhoto(self.name, f"cannot be read from {self.table} ({error}).") from None
        value = value.get("bytes") if isinstance(value, dict) else value
        if value is None:
            raise UnreadablePhoto(self.name, "the table has no bytes for it.")
        return _limited(self.name, value)


def list_inputs(
    places: Iterable[str | os.PathLike[str]], column: str | None = None, key: str | None = None
) -> list[Item]:
    """The photos of all places, each name once. `column` and `key`: a parquet file's photos, and their names.

    >>> from unseen.examples import photo
    >>> photo("lime").save("a.png")
    >>> _ = open("list.txt", "w").write("a.png\\tlime\\nhttps://example.org/b.jpg\\n")
    >>> [(item.name, item.label) for item in list_inputs(["list.txt"])]
    [('a.png', 'lime'), ('https://example.org/b.jpg', '')]
    """
    items: dict[str, Item] = {}
    for place in places:
        for item in _reachable(place, _list(place, column, key)):
            before = items.setdefault(item.name, item)
            if before.source != item.source:
                raise UnseenError(
                    f"{item.name}: two different photos have this name. Names are the keys of the labels: "
                    "choose another column for them (key), or label the inputs one by one."
                )
    return list(items.values())


def _reachable(place: str | os.PathLike[str], items: Iterator[Item]) -> Iterator[Item]:
    try:
        yield from items
    except UnseenError:
        raise
    except Exception as error:  # each protocol has its own
        if is_url(os.fspath(place)):
            raise UnseenError(f"{place}: cannot be read ({type(error).__name__}: {error})") from None
        raise


def is_input(place: Any) -> bool:
    """Whether this names a list, a table or shards, or lies elsewhere: not a local photo or a folder."""
    text = os.fspath(place) if isinstance(place, (str, os.PathLike)) else ""
    return is_url(text) or Path(text).suffix.lower() in (".txt", *OPENED)


def is_glob(place: str | os.PathLike[str]) -> bool:
    """Whether this is a pattern, and no file that is called so."""
    return any(sign in os.fspath(place) for sign in "*?[") and not os.path.exists(place)


def is_url(text: str) -> bool:
    return "://" in text[:20]


def version_of(source: Source) -> str:
    """Size and time of a file, or of what holds the photo; the checksum of bytes; "" where neither is known."""
    if isinstance(source, (bytes, bytearray, memoryview)):
        return hashlib.sha256(source).hexdigest()[:16]
    if not isinstance(source, (str, os.PathLike)):
        return getattr(source, "version", "")
    try:
        status = os.stat(source)
    except (OSError, ValueError):
        return ""
    return f"{status.st_size}-{status.st_mtime_ns}"


def _list(place: str | os.PathLike[str], column: str | None, key: str | None) -> Iterator[Item]:
    text = os.fspath(place)
    paths = _find_urls(text) if is_url(text) else [str(path) for path in find_photos(place)]
    alone = paths == [text] or (not is_url(text) and not os.path.isdir(text))
    for path in paths:
        suffix = os.path.splitext(path)[1].lower()
        if suffix == ".parquet":
            yield from _list_table(path, column, key)
        elif suffix == ".tar":
            yield from _list_tar(path)
        elif suffix == ".txt" and alone:
            yield from _list_lines(path)
        else:
            yield _item(path)


def _item(path: str, name: str | None = None, label: str | None = None) -> Item:
    """A path or a URL; without a label its class is its folder."""
    label = os.path.basename(os.path.dirname(path)) if label is None and not is_url(path) else label or ""
    return Item(path if name is None else name, AtUrl(path) if is_url(path) else path, label)


def _list_lines(path: str) -> Iterator[Item]:
    with _open(path) as file:
        lines = file.read().decode("utf-8-sig", "surrogateescape").splitlines()
    if not any(lines):
        raise UnseenError(f"{path}: the list is empty: write a path or a URL on each line")
    for line in lines:
        if line.strip():
            place, tab, label = line.partition("\t")
            yield _item(place, label=label.strip() if tab else None)


def _list_tar(path: str) -> Iterator[Item]:
    photos, classes = read_shard(path)
    if not photos:
        raise UnseenError(f"{path}: holds no photo: names there must end in .{', .'.join(sorted(PHOTO_ENDINGS))}")
    for key, (start, size, member, time) in photos.items():
        name = f"{path}/{member}"
        label = classes.get(key, os.path.basename(os.path.dirname(member)))
        yield Item(name, InTar(name, path, start, size, f"{size}-{time}"), label)


def read_shard(path: str) -> tuple[dict[str, tuple[int, int, str, int]], dict[str, str]]:
    """Of a tar file in webdataset's layout: where each photo lies (offset, size, name, time of its last change) and
    what its .cls or .json file says is its class, by the key that they share."""
    photos: dict[str, tuple[int, int, str, int]] = {}
    classes: dict[str, str] = {}
    try:
        with _open(path) as file, tarfile.open(fileobj=file, mode="r:") as tar:
            for member in tar:
                tar.members = []  # pyright: ignore[reportAttributeAccessIssue]  (it keeps all it has met otherwise)
                folder, slash, name = member.name.rpartition("/")
                key, _, ending = name.partition(".")
                key = folder + slash + key
                if not member.isfile() or member.issparse():
                    continue
                if ending.lower() in PHOTO_ENDINGS:
                    photos[key] = (member.offset_data, member.size, member.name, int(member.mtime))
                elif ending.lower() == "cls":
                    content = tar.extractfile(member)
                    classes[key] = content.read(256).decode("utf-8", "replace").strip() if content else ""
                elif ending.lower() == "json" and key not in classes and member.size <= SIDECAR:
                    content = tar.extractfile(member)
                    if said := _class_in(content.read() if content else b""):
                        classes[key] = said
    except (tarfile.TarError, OSError, EOFError) as error:
        raise UnseenError(f"{path}: cannot be read as an uncompressed tar file: {error}") from None
    return photos, classes


def _class_in(content: bytes) -> str:
    """The class that a record in JSON names; "" where it names none."""
    try:
        record = json.loads(content)
    except (ValueError, RecursionError):
        return ""
    said = next((record[name] for name in CLASSES if name in record), "") if isinstance(record, dict) else ""
    return str(said) if isinstance(said, (str, int)) else ""


def _list_table(path: str, column: str | None, key: str | None) -> Iterator[Item]:
    from pyarrow import types

    with _open(path) as handle:
        file = _parquet(path, handle)
        schema = file.schema_arrow
        column = _column(path, schema.names, column, PHOTOS) or _only_column(path, schema.names)
        key = _column(path, schema.names, key, NAMES)
        label = _column(path, schema.names, None, CLASSES)
        kind = schema.field(column).type
        is_struct = types.is_struct(kind)
        is_text = types.is_string(kind) or types.is_large_string(kind)
        if not (is_text or is_struct or types.is_binary(kind) or types.is_large_binary(kind)):
            raise UnseenError(f"{path}: the column {column} must hold paths, URLs or bytes of photos, not {kind}")
        inside = [f"{column}.path"] if is_struct and "path" in [field.name for field in kind] else []
        wanted = [column] if is_text else inside
        wanted += [name for name in dict.fromkeys((key, label)) if name and name not in wanted]
        version, number = version_of(path), 0
        for group in range(file.num_row_groups):
            rows = file.read_row_group(group, columns=wanted).to_pylist() if wanted else []
            for row in range(file.metadata.row_group(group).num_rows):
                values = rows[row] if rows else {}
                name = values.get(key) if key else None
                known = None if label is None or values[label] is None else str(values[label])
                if is_text:
                    yield _item(str(values[column]), None if name is None else str(name), known)
                else:
                    name = f"{path}#{number}" if name is None else str(name)
                    yield Item(name, InTable(name, path, column, group, row, version), known or "")
                number += 1


def _column(path: str, names: list[str], chosen: str | None, usual: tuple[str, ...]) -> str | None:
    if chosen is not None and chosen not in names:
        raise UnseenError(f"{path}: has no column {chosen}; there are: {list_some(names, 20)}")
    return chosen or next((name for name in usual if name in names), None)


def _only_column(path: str, names: list[str]) -> str:
    if len(names) == 1:
        return names[0]
    raise UnseenError(f"{path}: say which column holds the photos (column): {list_some(names, 20)}")


@lru_cache(maxsize=4)  # a group of rows is read once for all its photos
def _read_group(table: str, version: str, column: str, group: int) -> Any:
    with _open(table) as handle:
        return _parquet(table, handle).read_row_group(group, columns=[column]).column(column)


def _parquet(path: str, handle: BinaryIO) -> Any:
    try:
        import pyarrow.parquet as parquet
    except ImportError:
        raise UnseenError(f"{path}: reading parquet needs pyarrow: pip install pyarrow") from None
    try:
        return parquet.ParquetFile(handle)
    except (OSError, ValueError) as error:
        raise UnseenError(f"{path}: is not a readable parquet file ({error})") from None


def _open(path: str) -> BinaryIO:
    try:
        if not is_url(path):
            return open(path, "rb")
        system, place = _file_system(path)
        return system.open(place, "rb")
    except OSError as error:
        raise UnseenError(f"{path}: cannot be opened ({error.strerror or error})") from None


def _find_urls(url: str) -> list[str]:
    """The URL, all that it matches, or all below it if it ends in a slash."""
    if not url.endswith("/") and not any(sign in url for sign in "*["):
        return [url]
    system, path = _file_system(url)
    try:
        found = sorted(system.find(path) if url.endswith("/") else system.glob(path))
    except OSError as error:
        raise UnseenError(f"{url}: cannot be listed ({error})") from None
    if not found:
        raise UnseenError(f"{url}: no file matches")
    return [system.unstrip_protocol(name) for name in found]


def _file_system(url: str) -> tuple[Any, str]:
    try:
        from fsspec.core import url_to_fs

        return url_to_fs(url)
    except ImportError as error:  # fsspec, or what it needs for this protocol
        raise UnseenError(f"{url}: {error}") from None
    except ValueError as error:
        raise UnseenError(f"{url}: cannot be opened ({error})") from None


def _limited(name: str, content: bytes, size: int = 0) -> bytes:
    if max(len(content), size) > LARGEST:
        raise UnreadablePhoto(name, f"has more than the limit of {LARGEST:,} bytes.")
    return content
