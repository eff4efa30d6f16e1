"""Where many photos lie: folders, globs, lists, parquet tables, tar shards and URLs. Each photo gets a name.

    FOLDER, GLOB     the pictures there; parquet and tar files among them are opened
    LIST.txt         a path or URL a line; after a tab, its class
    TABLE.parquet    a column of paths, URLs or bytes (also Hugging Face's {bytes, path}); perhaps one of names, one of
                     classes
    SHARD.tar        webdataset's layout: KEY.jpg, perhaps with KEY.cls or KEY.json beside it, which says the class
    scheme://...     any of these, or a photo, where fsspec finds it: s3, gs, https, file, ...

Photos come in the order of the inputs. What a tar file or a table holds is read on the way.
"""

from __future__ import annotations

import hashlib
import json
import os
import tarfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, BinaryIO, NamedTuple

from unseen.photos.reading import PHOTO_ENDINGS, Source, UnreadablePhoto, find_photos
from unseen.util.errors import UnseenError
from unseen.util.names import list_some

OPENED = (".parquet", ".tar")  # files that hold photos, wherever they are found; a .txt only if it is named
LARGEST = 1 << 28  # bytes of a photo that is not a file
SIDECAR = 1 << 16  # bytes of a record beside a photo
TOO_LARGE = f"has more than the limit of {LARGEST:,} bytes."
# Columns of a parquet file that are looked for, the first one first.
PHOTOS = ("photo", "image", "path", "url", "file", "file_name", "filename", "uri", "bytes", "jpg", "png")
NAMES = ("key", "__key__", "id", "name", "image_id")
CLASSES = ("class", "class_id", "label", "wnid", "synset")


class Item(NamedTuple):
    """A photo of an input."""

    name: str
    source: Source  # a path, an `AtUrl` or a `Content`
    label: str = ""  # its class, if the input says so

    @property
    def version(self) -> str:
        return version_of(self.source)


@dataclass(frozen=True)
class AtUrl:
    """A photo that fsspec reads."""

    name: str

    def read(self) -> bytes:
        try:
            system, path = _file_system(self.name)
            as_stream = {"block_size": 0} if self.name.startswith("http") else {}  # a server may send without an end
            with system.open(path, "rb", **as_stream) as file:
                content = _read_all(file)
        except Exception as error:  # each protocol has its own
            raise UnreadablePhoto(self.name, f"cannot be fetched ({type(error).__name__}: {error}).") from None
        return _limited(self.name, content)


@dataclass(frozen=True)
class Content:
    """A photo in a tar file or a table, or the reason why it could not be read."""

    name: str
    place: str  # the file and where in it
    version: str
    content: Any = None
    why: str = ""

    def read(self) -> bytes:
        if self.why or not isinstance(self.content, bytes):
            raise UnreadablePhoto(self.name, self.why or "the table has no bytes for it.")
        return _limited(self.name, self.content)


def list_inputs(
    places: Iterable[str | os.PathLike[str]],
    column: str | None = None,
    key: str | None = None,
    contents: bool = True,
) -> list[Item] | Iterator[Item]:
    """The photos of all places, each name once: a list, or a generator where tar files or tables must be read for it.

    `column` and `key`: a parquet file's photos, and their names. `contents`: with what tar files and tables hold, and
    not only names and classes.

    >>> from unseen.examples import photo
    >>> photo("lime").save("a.png")
    >>> _ = open("list.txt", "w").write("a.png\\tlime\\nhttps://example.org/b.jpg\\n")
    >>> [(item.name, item.label) for item in list_inputs(["list.txt"])]
    [('a.png', 'lime'), ('https://example.org/b.jpg', '')]
    """
    files = [(os.fspath(place), path) for place in places for path in _find(os.fspath(place))]
    opened = (_reachable(place, _open_place(place, path, column, key, contents)) for place, path in files)
    items = _once(chain.from_iterable(opened))
    return items if any(_suffix(path) in OPENED for _, path in files) else list(items)


def _once(items: Iterable[Item]) -> Iterator[Item]:
    known: dict[str, Any] = {}
    for item in items:
        place = getattr(item.source, "place", item.source)
        before = known.setdefault(item.name, place)
        if before != place:
            raise UnseenError(
                f"{item.name}: two different photos have this name. Names are the keys of the labels: "
                "choose another column for them (key), or label the inputs one by one."
            )
        if before is place:
            yield item


def _reachable(place: str, items: Iterator[Item]) -> Iterator[Item]:
    try:
        yield from items
    except UnseenError:
        raise
    except Exception as error:  # each protocol has its own
        if is_url(place):
            raise UnseenError(f"{place}: cannot be read ({type(error).__name__}: {error})") from None
        raise


def several_photos(photos: Any) -> Iterable[Source] | None:
    """What a user gives, as photos one by one: an iterable, an array or tensor of photos, a folder or an input; None
    for a single photo."""
    if isinstance(photos, (str, os.PathLike)):
        several = is_glob(photos) or is_input(photos) or os.path.isdir(photos)
        return _sources([photos]) if several else None
    if hasattr(photos, "ndim"):
        return list(photos) if photos.ndim == 4 else None
    if (
        isinstance(photos, (bytes, bytearray, memoryview))
        or hasattr(photos, "read")
        or not isinstance(photos, Iterable)
    ):
        return None
    return photos if isinstance(photos, Sequence) else iter(photos)


def _sources(places: list[Any]) -> Iterable[Source]:
    items = list_inputs(places)
    return [item.source for item in items] if isinstance(items, list) else (item.source for item in items)


def is_input(place: Any) -> bool:
    """Whether this names a list, a table or shards, or lies elsewhere: not a local photo or a folder."""
    text = os.fspath(place) if isinstance(place, (str, os.PathLike)) else ""
    return is_url(text) or _suffix(text) in (".txt", *OPENED)


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


def _suffix(path: str) -> str:
    return os.path.splitext(path)[1].lower()


def _find(place: str) -> list[str]:
    return _find_urls(place) if is_url(place) else [str(path) for path in find_photos(place, OPENED)]


def _open_place(place: str, path: str, column: str | None, key: str | None, contents: bool) -> Iterator[Item]:
    """The photos of a file that was found at a place."""
    if _suffix(path) == ".parquet":
        yield from _read_table(path, column, key, contents)
    elif _suffix(path) == ".tar":
        yield from _read_tar(path, contents)
    elif _suffix(path) == ".txt" and (path == place or is_glob(place)):
        yield from _read_list(path)
    else:
        yield _item(path)


def _item(path: str, name: str | None = None, label: str | None = None) -> Item:
    """A path or a URL; without a label its class is its folder."""
    label = os.path.basename(os.path.dirname(path)) if label is None and not is_url(path) else label or ""
    return Item(path if name is None else name, AtUrl(path) if is_url(path) else path, label)


def _read_list(path: str) -> Iterator[Item]:
    with _open(path) as file:
        lines = file.read().decode("utf-8-sig", "surrogateescape").splitlines()
    if not any(lines):
        raise UnseenError(f"{path}: the list is empty: write a path or a URL on each line")
    for line in lines:
        if line.strip():
            place, tab, label = line.partition("\t")
            yield _item(place, label=label.strip() if tab else None)


def _read_tar(path: str, contents: bool) -> Iterator[Item]:
    photos, classes = read_shard(path)
    if not photos:
        raise UnseenError(f"{path}: holds no photo: names there must end in .{', .'.join(sorted(PHOTO_ENDINGS))}")
    with _open(path) as file:
        for key, (start, size, member, time) in photos.items():
            name, content, why = f"{path}/{member}", None, ""
            if contents and size <= LARGEST:
                file.seek(start)
                content = file.read(size)
                why = "" if len(content) == size else "the tar file ends before the photo does."
            elif contents:
                why = TOO_LARGE
            label = classes.get(key, os.path.basename(os.path.dirname(member)))
            yield Item(name, Content(name, name, f"{size}-{time}", content, why), label)


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


def _read_table(path: str, column: str | None, key: str | None, contents: bool) -> Iterator[Item]:
    from pyarrow import types

    with _open(path) as handle:
        file = _parquet(path, handle)
        names, version = file.schema_arrow.names, version_of(path)
        if len(set(names)) < len(names):
            raise UnseenError(f"{path}: has several columns of one name: {list_some(sorted(names), 20)}")
        column = _column(path, names, column, PHOTOS) or _only_column(path, names)
        key, label = _column(path, names, key, NAMES), _column(path, names, None, CLASSES)
        kind = file.schema_arrow.field(column).type
        is_text = types.is_string(kind) or types.is_large_string(kind)
        if not (is_text or types.is_struct(kind) or types.is_binary(kind) or types.is_large_binary(kind)):
            raise UnseenError(f"{path}: the column {column} must hold paths, URLs or bytes of photos, not {kind}")
        named = [name for name in (key, label) if name]
        for number, row in enumerate(_rows(file, [column, *named] if contents or is_text else named)):
            name, known = (None if it is None or row[it] is None else str(row[it]) for it in (key, label))
            if is_text and row[column] is not None:
                yield _item(row[column], name, known)
                continue
            value, place = row.get(column), f"{path}#{number}"
            content = value.get("bytes") if isinstance(value, dict) else value
            yield Item(name or place, Content(name or place, place, version, content), known or "")


def _rows(file: Any, columns: list[str]) -> Iterator[dict[str, Any]]:
    """The rows of a parquet file, some of their columns; a few at a time, since each may hold a photo."""
    for batch in file.iter_batches(64, columns=list(dict.fromkeys(columns))):
        yield from batch.to_pylist() if columns else [{}] * batch.num_rows


def _column(path: str, names: list[str], chosen: str | None, usual: tuple[str, ...]) -> str | None:
    if chosen is not None and chosen not in names:
        raise UnseenError(f"{path}: has no column {chosen}; there are: {list_some(names, 20)}")
    return chosen or next((name for name in usual if name in names), None)


def _only_column(path: str, names: list[str]) -> str:
    if len(names) == 1:
        return names[0]
    raise UnseenError(f"{path}: say which column holds the photos (column): {list_some(names, 20)}")


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


def _limited(name: str, content: bytes) -> bytes:
    if len(content) > LARGEST:
        raise UnreadablePhoto(name, TOO_LARGE)
    return content


def _read_all(file: BinaryIO) -> bytes:
    """What a stream gives, but never much more than the limit."""
    content = bytearray()
    while len(content) <= LARGEST and (block := file.read(min(1 << 20, LARGEST + 1 - len(content)))):
        content += block
    return bytes(content)
