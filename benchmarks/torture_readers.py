"""Every reader of what comes from outside or from a disk, with whole inputs; and damaged ones, a thousand a second."""

from __future__ import annotations

import asyncio
import gzip
import io
import json
import math
import random
import shutil
import time
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from safetensors.numpy import save
from torture_jobs import NETWORK, build, bundle_state, cache_state, digest, store_state
from torture_points import Child, time_limit

from unseen.apps.cli.options import read_transform
from unseen.apps.web.view import View
from unseen.bundle import Bundle
from unseen.hierarchy.core import Hierarchy
from unseen.model import Model
from unseen.naming.reading import read_ids, read_names
from unseen.networks.features import read_arrays
from unseen.networks.loading import load_network
from unseen.photos import read_photo
from unseen.util import arrays as arrays_in_file
from unseen.util.errors import UnseenError
from unseen.util.loop import CHECKPOINT, load_checkpoint, save_checkpoint
from unseen.util.table import open_table
from unseen.vectors.files import parse

PER_BATCH = 4000  # inputs for one process; fewer where a look takes long
PATIENCE = 20  # seconds for one input
TOKENS = [
    b'"', b"'", b",", b"\t", b"\n", b"\r", b"\r\n", b";", b"|", b"#", b"{", b"}", b"[", b"]", b":", b"\\", b"\x00",
    b"\xff", b"\xfe\xff", b"\xef\xbb\xbf", b"\xed\xa0\x80", b"\\ud800", b"\xe2\x80\xae", b"NaN", b"Infinity", b"-1",
    b"1e999", b"9" * 30, b"9" * 5000, b"null", b"true", b"[" * 20000, b'{"a":' * 3000, b"\xff\xff\xff\xff",
    b"\x7f\xff\xff\xff", b"\x00\x00\x00\x01", b" " * 3000, b"id,name,parent\n", "é".encode(), b"animal",
]  # fmt: skip


@dataclass(frozen=True)
class Reader:
    """Some whole inputs, and a function that reads an input's bytes.

    `sealed`: it promises that nothing but the original passes, and returns what tells it, or None where it told of
    damage and does without.
    """

    name: str
    seeds: list[bytes]
    read: Callable[[bytes], object]
    sealed: bool = False
    batch: int = PER_BATCH


def fuzz(reader: Reader, seed: int, told: Path) -> dict:
    """A batch of inputs in a process of its own: how many, how many were refused, and the first problem, if any.

    `told` is a file for the answer.
    """
    told.unlink(missing_ok=True)
    ended = Child(lambda: told.write_text(json.dumps(_fuzz_here(reader, seed)))).wait()
    if ended.status or not told.exists():
        problem = f"the process ended with {ended.status} (seed {seed}): {ended.said[-500:]}"
        return {"inputs": 0, "refused": 0, "slowest": ended.seconds, "problem": problem}
    return json.loads(told.read_text())


def _fuzz_here(reader: Reader, seed: int) -> dict:
    chance = random.Random(seed)
    whole = [reader.read(content) for content in reader.seeds]  # now, so that no input waits for what is only made once
    refused, slowest, problem, number = 0, 0.0, None, 0
    for number in range(reader.batch):
        which = chance.randrange(len(reader.seeds))
        content = mutate(reader.seeds[which], chance, reader.seeds)
        begun = time.perf_counter()
        try:
            with time_limit(PATIENCE, "one input"):
                found = reader.read(content)
            if reader.sealed and found not in (whole[which], None):
                problem = "damage passed unnoticed"
        except UnseenError:
            refused += 1
        except Exception as error:
            problem = f"{type(error).__name__}: {str(error)[:300]}"
        slowest = max(slowest, time.perf_counter() - begun)
        if problem:
            problem += f" (seed {seed}, input {number}, {len(content)} bytes: {content[:80]!r})"
            break
    return {"inputs": number + 1, "refused": refused, "slowest": slowest, "problem": problem}


def mutate(content: bytes, chance: random.Random, others: list[bytes]) -> bytes:
    """One to four changes: bits, bytes, cuts, repeats, splices, and tokens that formats care about."""
    changed = bytearray(content)
    for _ in range(chance.choice([1, 1, 2, 4])):
        at = chance.randrange(len(changed) + 1)
        length = min(chance.choice([1, 2, 4, 16, 64]), len(changed) - at)
        how = chance.randrange(8)
        if how <= 1 and length:
            changed[at] ^= 1 << chance.randrange(8)
        elif how == 2 and length:
            changed[at : at + length] = chance.randbytes(length)
        elif how == 3:
            del changed[at : at + length]
        elif how == 4:
            changed[at:at] = changed[at : at + length] * chance.choice([1, 2, 50])
        elif how == 5:
            changed[at:at] = chance.choice(TOKENS)
        elif how == 6:
            token = chance.choice(TOKENS)
            changed[at : at + len(token)] = token
        elif chance.random() < 0.3:
            del changed[at:]
        else:
            other = chance.choice(others)
            changed[at:] = other[chance.randrange(len(other) + 1) :]
    return bytes(changed)


# -- the readers -------------------------------------------------------------------------------------------------------


def list_readers(inputs: Path, folder: Path, finished: Callable[[str], Path]) -> dict[str, Reader]:
    """All readers, with a folder for those that read files; `finished` tells where the results of a command lie."""
    folder.mkdir(parents=True, exist_ok=True)
    readers = [_photos(), *_hierarchies(inputs, folder), *_vectors(inputs, folder), *_lists(inputs, folder)]
    readers += [*_bundles(inputs, folder), *_stores(finished("features"), folder), _checkpoint(folder)]
    readers += [
        *_labels(finished("classify, csv"), folder),
        *_caches(finished("vector cache"), folder),
        _uploads(inputs),
    ]
    return {reader.name: reader for reader in readers}


def _in_file(path: Path, read: Callable[[Path], object]) -> Callable[[bytes], object]:
    def read_content(content: bytes) -> object:
        path.write_bytes(content)
        return read(path)

    return read_content


def _photos() -> Reader:
    pixels = np.random.default_rng(0).integers(0, 256, (20, 24, 4), dtype=np.uint8)
    seeds = []
    for kind, mode, more in (
        ("PNG", "RGB", {}), ("PNG", "RGBA", {}), ("PNG", "P", {}), ("JPEG", "RGB", {}), ("JPEG", "CMYK", {}),
        ("JPEG", "RGB", {"progressive": True}), ("GIF", "P", {}), ("BMP", "RGB", {}), ("TIFF", "RGB", {}),
        ("TIFF", "L", {"compression": "tiff_lzw"}), ("WEBP", "RGB", {}), ("PPM", "RGB", {}),
        ("AVIF", "RGB", {}),
    ):  # fmt: skip
        file = io.BytesIO()
        try:
            Image.fromarray(pixels).convert(mode).save(file, kind, **more)
        except (KeyError, OSError):  # a Pillow without it
            continue
        seeds.append(file.getvalue())
    return Reader("photos", seeds, lambda content: read_photo(content, short_side=16))


def _hierarchies(inputs: Path, folder: Path) -> list[Reader]:
    table = (inputs / "classes.csv").read_bytes()
    hierarchy = Hierarchy.load(inputs / "classes.csv")
    tree = {"name": "thing", "children": [{"name": "animal|beast", "children": ["dog", {"name": "cat", "id": "c1"}]}]}
    nodes = [{"id": id, "name": id, "parents": hierarchy.parents(id), "definition": "one"} for id in hierarchy.ids]
    edges = "".join(f"{id}\t{parent}\n" for id in hierarchy.ids for parent in hierarchy.parents(id)).encode()
    quoted = b'id;name;parent;definition\nthing;thing;;""\ndog;"dog|hound";thing;"a ""dog"""\n'
    saved = [json.dumps(value).encode() for value in (tree, nodes, hierarchy.to_json())]
    return [
        Reader("hierarchies, CSV", [table, quoted], _in_file(folder / "h.csv", Hierarchy.load)),
        Reader("hierarchies, TSV", [table.replace(b",", b"\t")], _in_file(folder / "h.tsv", Hierarchy.load)),
        Reader("hierarchies, JSON", saved, _in_file(folder / "h.json", Hierarchy.load)),
        Reader("hierarchies, edges", [edges, edges.replace(b"\t", b",")], _in_file(folder / "h.txt", Hierarchy.load)),
    ]


def _vectors(inputs: Path, folder: Path) -> list[Reader]:
    text = (inputs / "vectors.txt").read_bytes()
    rows = [line.split() for line in text.splitlines()]
    header = f"{len(rows)} {len(rows[0]) - 1}\n".encode()
    binary = header + b"".join(row[0] + b" " + np.array(row[1:], "<f4").tobytes() + b"\n" for row in rows)
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("vectors.txt", text)

    return [
        Reader("vectors, text", [text, header + text], _in_file(folder / "v.txt", parse)),
        Reader("vectors, binary", [binary], _in_file(folder / "v.bin", parse)),
        Reader("vectors, gzip", [gzip.compress(text, mtime=0)], _in_file(folder / "v.txt.gz", parse)),
        Reader("vectors, zip", [packed.getvalue()], _in_file(folder / "v.zip", parse)),
    ]


def _lists(inputs: Path, folder: Path) -> list[Reader]:
    ids = b"dog\ncat, tabby\nanimal\n"
    archive = io.BytesIO()
    np.savez(archive, features=np.ones((3, 4), np.float32), labels=np.array(["dog", "cat", "dog"]))
    plain = io.BytesIO()
    np.save(plain, np.ones((3, 4), np.float32))
    transform = json.dumps({"size": 160, "resize": 170, "mean": [0.5, 0.5, 0.5], "std": 0.2}).encode()
    weight, classes = np.ones((2, 4), np.float32), ["dog", "cat"]
    layer, layers = io.BytesIO(), save({"fc.weight": weight}, {"classes": json.dumps(classes)})
    np.savez(layer, weight=weight, bias=weight[:, 0], classes=np.array(classes))
    return [
        Reader(
            "networks, npz", [layer.getvalue()], _in_file(folder / "l.npz", lambda path: load_network(f"linear:{path}"))
        ),
        Reader(
            "networks, safetensors",
            [layers],
            _in_file(folder / "l.safetensors", lambda path: load_network(f"linear:{path}")),
        ),
        Reader("candidates, text", [ids, (inputs / "classes.csv").read_bytes()], _in_file(folder / "c.txt", read_ids)),
        Reader("candidates, JSON", [b'["dog", "cat"]', b'[{"id": "dog"}]'], _in_file(folder / "c.json", read_ids)),
        Reader("names", [b"okapi\nred panda|firefox\n"], _in_file(folder / "n.txt", read_names)),
        Reader("features, npz", [archive.getvalue()], _in_file(folder / "f.npz", read_arrays)),
        Reader("features, npy", [plain.getvalue()], _in_file(folder / "f.npy", read_arrays)),
        Reader("transforms", [transform], _in_file(folder / "t.json", lambda path: read_transform(str(path)))),
    ]


def _bundles(inputs: Path, folder: Path) -> list[Reader]:
    read = _in_file(folder / "bundle", bundle_state)
    return [
        Reader("bundles", [(inputs / "base").read_bytes()], read, sealed=True, batch=PER_BATCH // 8),
        Reader("bundles, forged", [b"0"], lambda seed: use_forged(inputs / "base", folder / "forged", seed), batch=100),
    ]


ODD = [5, -1, 0, 1.5, math.nan, math.inf, None, True, "", [], {}, "linear@" * 3000, ["a"], [1], {"a": 1}, [None]]
ODD += ["../../etc/passwd", "\x1b]0;title\a", 10**30, [[]], "module:function"]


def use_forged(source: Path, place: Path, seed: bytes) -> None:
    """Change a fact or an array of a bundle, give it the checksum that fits, and use it in every way."""
    chance = random.Random(seed)
    records, arrays = arrays_in_file.read_arrays(source, "bundle")
    facts = {"records": records} | {key: json.loads(arrays[key].tobytes()) for key in ("classes", "log")}
    if chance.random() < 0.7:
        part = chance.choice([*facts])
        holder, key = chance.choice([(facts, part), *_places(facts[part])])
        if chance.random() < 0.15 and holder is not facts:
            del holder[key]
        else:
            holder[key] = chance.choice(ODD)
    else:
        key = chance.choice([*arrays])
        array = arrays[key]
        ways = [array[:-1], array[:0], array.reshape(-1), array.astype(np.int8), array[None], array * 0 + 255]
        arrays = {name: held for name, held in arrays.items() if name != key}
        arrays |= {key: np.ascontiguousarray(chance.choice(ways))} if chance.random() < 0.85 else {}
    for key in {"classes", "log"} & set(arrays):
        if isinstance(arrays[key], np.ndarray) and arrays[key].dtype == np.uint8 and chance.random() < 0.9:
            arrays[key] = np.frombuffer(json.dumps(facts[key]).encode(), np.uint8)
    arrays_in_file.write_arrays(place, "bundle", arrays, facts["records"])
    model = Model(Bundle.load(place))
    features, ids = np.ones((2, model.bundle.network.num_features), np.float32), model.bundle.ids
    json.dumps(model.bundle.header(), default=str)
    model.answers(features, k=3)
    model.explain(ids[0])
    view = View("forged", model)
    _ = view.info(), view.topics(), view.details(ids[-1], 3), view.search("a", 3)
    model.add("okapi", ids[0], vectors=source.with_name("vectors.txt"))
    model.save(place.with_name("forged again"), overwrite=True)


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every place in nested lists and dicts that can be changed, of long lists the first ones."""
    for key in value if isinstance(value, dict) else range(min(len(value), 3)) if isinstance(value, list) else ():
        yield value, key
        yield from _places(value[key])


def _within(path: Path, content: bytes, state: Callable[[], object]) -> Callable[[bytes], object]:
    """What `state` tells while the file is damaged; its content comes back."""

    def read(damaged: bytes) -> object:
        path.write_bytes(damaged)
        try:
            return state()
        finally:
            path.write_bytes(content)

    return read


def _stores(finished: Path, folder: Path) -> list[Reader]:
    place = folder / "store"
    if not place.exists():
        shutil.copytree(finished / "out", place)
    block = next(iter(sorted(place.rglob("*.safetensors")))).relative_to(place)
    readers = []
    for name in (Path("store.json"), block):
        content = (finished / "out" / name).read_bytes()
        read = _within(place / name, content, lambda: store_state(place))
        readers.append(Reader(f"stores, {name.suffix[1:]}", [content], read, sealed=True, batch=PER_BATCH // 4))
    return readers


def _labels(finished: Path, folder: Path) -> list[Reader]:
    """The parts of a table that a run continues."""
    place = folder / "parts"
    if not place.exists():
        shutil.copytree(finished / "out.csv.parts", place)
    readers = []
    for file in sorted(place.glob("*.safetensors")):
        content = file.read_bytes()
        read = _within(file, content, lambda: list(open_parts(place)))
        readers.append(Reader(f"labels, {file.stem}", [content], read, batch=PER_BATCH // 8))
    return readers


def open_parts(place: Path) -> list[str]:
    with open_table(place, "labels", str(place)) as table:
        return list(table.entries)


def _caches(finished: Path, folder: Path) -> list[Reader]:
    """Parsed vectors."""
    shutil.copytree(finished / "cache", folder / "cache", dirs_exist_ok=True)
    readers = []
    for path in sorted(item for item in folder.glob("cache/word-vectors/*") if item.is_file()):
        content = path.read_bytes()

        def read(damaged: bytes, path: Path = path, content: bytes = content) -> object:
            path.write_bytes(damaged)
            try:
                return cache_state(folder / "cache")
            finally:
                path.write_bytes(content)

        readers.append(Reader(f"cached vectors, {path.suffix[1:]}", [content], read, sealed=True))
    return readers


def _uploads(inputs: Path) -> Reader:
    """Bodies of requests with photos, through all of the server but its socket; any answer of 500 is a finding."""
    boundary = b"--limit"
    parts = [b'name="k"\r\n\r\n3', b'name="candidates"\r\n\r\nunseen', b'name="seen_shift"\r\n\r\n0.5']
    photo = next((inputs / "photos").rglob("*.png")).read_bytes()
    parts.append(b'name="files"; filename="a.png"\r\nContent-Type: image/png\r\n\r\n' + photo)
    body = b"".join(b"%s\r\nContent-Disposition: form-data; %s\r\n" % (boundary, part) for part in parts)
    served = []  # in the process that reads: threads do not survive a fork

    def read(content: bytes) -> None:
        if not served:
            served.append(_serve(inputs / "base"))
        status, said = asyncio.run(_request(served[0], content))
        if status >= 500:
            raise AssertionError(f"status {status}: {said[:200]!r}")
        if status != 200:
            raise UnseenError(f"status {status}")

    return Reader("uploads", [body + boundary + b"--\r\n"], read, batch=PER_BATCH // 40)


def _serve(bundle: Path):
    from unseen.apps.web.app import create_app
    from unseen.apps.web.service import Service

    return create_app(Service({"base": Model(Bundle.load(bundle), build())}))


async def _request(app, body: bytes) -> tuple[int, bytes]:
    headers = {"host": "127.0.0.1", "content-type": "multipart/form-data; boundary=limit", "content-length": len(body)}
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "POST", "scheme": "http",
        "path": "/api/classify", "raw_path": b"/api/classify", "query_string": b"", "root_path": "",
        "headers": [(name.encode(), str(value).encode()) for name, value in headers.items()],
        "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 80),
    }  # fmt: skip
    status, said, sent = 0, b"", False

    async def receive() -> dict:
        nonlocal sent
        if sent:
            await asyncio.sleep(3600)
        sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: dict) -> None:
        nonlocal status, said
        status = message.get("status", status)
        said += message.get("body", b"")

    await app(scope, receive, send)
    return status, said


def _checkpoint(folder: Path) -> Reader:
    import torch

    place, identity = folder / "training", {"network": NETWORK, "seed": 0}
    place.mkdir(exist_ok=True)
    tensors = {"weight": torch.arange(12.0).reshape(3, 4), "generator": torch.Generator().get_state()[:64]}
    save_checkpoint(place, tensors, {"identity": identity, "step": 3, "records": [{"seconds": 0.5}]})

    def read(path: Path) -> object:
        saved = load_checkpoint(path.parent, identity)
        if saved is None:
            return None
        tensors, facts = saved
        parts = [(name, tensors[name].numpy().tobytes()) for name in sorted(tensors)]
        return digest(json.dumps(facts, sort_keys=True), *(part for pair in parts for part in pair))

    return Reader("checkpoints", [(place / CHECKPOINT).read_bytes()], _in_file(place / CHECKPOINT, read), sealed=True)
