"""Arrays and JSON records in one safetensors file, with a checksum of all of it.

    8 bytes   the length of the header
    header    {"__metadata__": {"unseen": kind, "sha256": 64 digits, "records": JSON}, name: {dtype, shape, place}, ...}
    data      the arrays one after the other

Any reader of safetensors opens it. The checksum is that of the file with zeros in place of its digits, so that a change
of any byte is noticed. A file is written beside its place and moved there: readers have the old one or the new one.
"""

from __future__ import annotations

import hashlib
import json
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from unseen.util.files import replacing

LARGE = 2**30  # bytes of a file: in a larger one, the arrays that are much of it may be mapped
BLOCK = 2**24  # bytes that are read or written at a time
ZEROS = "0" * 64
KINDS = {"float64": "F64", "float32": "F32", "float16": "F16", "bool": "BOOL"}  # as safetensors calls them
KINDS |= {f"{u}int{bits}": f"{u.upper() or 'I'}{bits}" for u in ("", "u") for bits in (8, 16, 32, 64)}
TYPES = {code: np.dtype(name).newbyteorder("<") for name, code in KINDS.items()}


def stored_checksum(path: Path, kind: str) -> str | None:
    """The checksum that a file of this kind says it has, without comparing it; None where there is no such file."""
    try:
        with open(path, "rb") as file:
            return _read_start(file, kind)[1]
    except (OSError, ValueError):
        return None


def write_arrays(
    path: Path, kind: str, arrays: Mapping[str, np.ndarray], records: Any, stored: Mapping[str, type] | None = None
) -> None:
    """Write a file, completely or not at all. An array may be mapped from a file that is larger than memory.

    `stored`: the types that some arrays are stored as, if not as what they are.
    """
    types = {key: np.dtype((stored or {}).get(key, array.dtype)) for key, array in arrays.items()}
    order = sorted(arrays, key=lambda key: (-types[key].itemsize, key))  # so that all are aligned
    header: dict[str, Any] = {"__metadata__": {"unseen": kind, "sha256": ZEROS, "records": json.dumps(records)}}
    end = 0
    for key in order:
        begin, end = end, end + arrays[key].size * types[key].itemsize
        shape = list(arrays[key].shape)
        header[key] = {"dtype": KINDS[types[key].name], "shape": shape, "data_offsets": [begin, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    start = len(text).to_bytes(8, "little") + text
    digest = hashlib.sha256(start)
    with replacing(path) as file:
        file.write(start)
        for key in order:
            array = np.atleast_1d(arrays[key])  # a number (0-d) has no rows
            step = max(1, BLOCK // max(array[:1].nbytes, 1))
            for row in range(0, len(array), step):
                block = array[row : row + step].astype(types[key].newbyteorder("<")).tobytes()
                digest.update(block)
                file.write(block)
        file.seek(start.index(ZEROS.encode()))
        file.write(digest.hexdigest().encode())


def read_arrays(
    path: Path, kind: str, verify: bool = True, map_from: int | None = None
) -> tuple[Any, dict[str, np.ndarray]]:
    """What `write_arrays` wrote: records and arrays. ValueError, KeyError or OSError where it is damaged or missing.

    `map_from`: in a file of more bytes, map the arrays that are more than an eighth of it, so that they take up memory
    only where they are used.
    """
    with open(path, "rb") as file:  # once: by its name it may be another file the next moment
        before, checksum = _read_start(file, kind)
        # A small file is read once; what is mapped may be larger than memory.
        size = os.fstat(file.fileno()).st_size
        large = map_from is not None and size > map_from
        file.seek(0)
        content: np.ndarray = np.memmap(file, np.uint8, "r") if large else np.fromfile(file, np.uint8)
    if verify:
        digest = hashlib.sha256(before + ZEROS.encode())
        digest.update(content[len(before) + len(ZEROS) :].data)
        if digest.hexdigest() != checksum:
            raise ValueError("its checksum differs")
    start = 8 + int.from_bytes(before[:8], "little")
    header = json.loads(content[8:start].tobytes())
    records = json.loads(header.pop("__metadata__")["records"])
    arrays = {}
    for key, entry in header.items():
        dtype, (begin, end) = TYPES[entry["dtype"]], entry["data_offsets"]
        array = content[start + begin : start + end].view(dtype).reshape(entry["shape"])
        is_mapped = large and end - begin > size // 8
        # What is small beside the rest is copied, so that it does not keep all of the content in memory.
        arrays[key] = array if is_mapped else array.astype(dtype.newbyteorder("="), copy=large)
    return records, arrays


def _read_start(file: BinaryIO, kind: str) -> tuple[bytes, str]:
    """What comes before the checksum in a file of this kind, and the checksum."""
    magic = f'{{"__metadata__":{{"unseen":"{kind}","sha256":"'.encode()
    before = file.read(8 + len(magic))
    if before[8:] != magic:
        raise ValueError(f"it does not begin as a {kind} does")
    return before, file.read(len(ZEROS)).decode(errors="replace")


def load_numpy(path: Path) -> np.ndarray | dict[str, np.ndarray]:
    """The array of a .npy file, or the arrays of an .npz by name; no code in it is run.

    ValueError for an archive that becomes far larger than it is: 3 MB of zeros could fill all memory.
    """
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            size = sum(item.file_size for item in archive.infolist())  # of which no more is ever read
        if size > max(2**28, 50 * path.stat().st_size):
            raise ValueError(f"unpacked it has {size / 1e9:,.1f} GB; save it without compression: np.savez")
    try:
        loaded = np.load(path, allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            return loaded
        with loaded:
            return dict(loaded)
    except TypeError as error:  # numpy sorts the names in a header before it looks whether they are text
        raise ValueError(f"its header is damaged: {error}") from None


def normalise_rows(matrix: np.ndarray) -> np.ndarray:
    """Rows divided by their L2 norm, float32; rows of zeros stay zero."""
    matrix = matrix.astype(np.float32) if matrix.dtype == np.float16 else matrix
    norms = np.linalg.norm(matrix, axis=1, keepdims=True)
    return (matrix / np.maximum(norms, np.finfo(np.float32).tiny)).astype(np.float32, copy=False)
