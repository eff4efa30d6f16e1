"""The files of a bundle: what the header must hold, and whether all are as they were written."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import load_file

from unseen.errors import UnseenError
from unseen.runtime.checkpoints import CHECKPOINT
from unseen.runtime.files import sha256, writing
from unseen.runtime.seals import is_sealed

FORMAT = 1
LARGE = 2**30  # bytes of arrays that are read at once
BLOCK = 2**24  # bytes that are written at a time
KINDS = {"float64": "F64", "float32": "F32", "float16": "F16", "bool": "BOOL"}  # as safetensors calls them
KINDS |= {f"{u}int{bits}": f"{u.upper() or 'I'}{bits}" for u in ("", "u") for bits in (8, 16, 32, 64)}
AGAIN = "make the bundle again, or copy it whole"
CHECKED = ("classes.json", "classifiers.safetensors", "state.safetensors", "log.jsonl")  # files with a checksum
NETWORK = "network.safetensors"  # likewise, where there is one
BUNDLE_FILES = frozenset({"bundle.json", "README.md", *CHECKED, NETWORK})
HEADER = {  # what bundle.json must hold
    "method": str,
    "settings": dict,
    "seed": int,
    "vectors": {"names": list, "provenance": list},
    "backbone": {"name": str, "checksum": str, "num_features": int, "class_ids": list},
    "projection": {"kind": str, "settings": dict},
    "precision": str,
    "details": dict,
    "made": {"at": str, "packages": dict},
    "files": dict.fromkeys(CHECKED, str),
}
UNSEALED = frozenset(HEADER) | {"format", "nodes", "seen", "hierarchy", "without_vector", "shape"}
"""All fields of a header without a checksum, as versions before 0.2 wrote it: with another one it has lost its checksum
to damage."""
DAMAGE = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, OSError, SafetensorError, RecursionError)
"""What reading damaged JSON or a damaged array can raise."""


def read_header(path: Path, verify: bool = True) -> dict[str, Any]:
    """What bundle.json holds, if that is whole; `verify` compares its checksum, where it has one."""
    file = path / "bundle.json"
    if not file.exists():
        if (path / CHECKPOINT).exists():
            raise UnseenError(
                f"{path} holds an unfinished training: continue it with resume=True and the same settings",
                "resume=True",
            )
        what = "has no bundle.json" if path.is_dir() else "does not exist" if not path.exists() else "is not a folder"
        raise UnseenError(f"{path} is not a bundle: it {what}. `unseen train` makes one.")
    try:
        header = json.loads(file.read_text(encoding="utf-8"))
        newer, whole = header["format"] > FORMAT, not verify or is_sealed(header, UNSEALED)
    except PermissionError:
        raise UnseenError(f"{file} cannot be read: permission denied") from None
    except DAMAGE as error:
        raise UnseenError(f"{file} is damaged ({str(error) or type(error).__name__}): {AGAIN}") from None
    if newer and whole:
        raise UnseenError(f"{path} was made by a newer version of unseen (format {header['format']}): upgrade unseen")
    wrong = _wrong_fields(header, HEADER)
    if wrong:
        raise UnseenError(f"{file} is damaged (missing or wrong: {', '.join(wrong)}): {AGAIN}")
    if not whole:
        raise UnseenError(f"{file} was changed or damaged since the bundle was made (its checksum differs): {AGAIN}")
    return header


def _wrong_fields(found: Any, wanted: dict[str, Any], prefix: str = "") -> list[str]:
    """The fields that are missing or of another kind than wanted, with the names of those around them."""
    wrong = []
    for name, kind in wanted.items():
        value = found.get(name)
        if isinstance(kind, dict) and isinstance(value, dict):
            wrong += _wrong_fields(value, kind, f"{prefix}{name}: ")
        elif not isinstance(value, dict if isinstance(kind, dict) else kind):
            wrong.append(f"{prefix}{name}")
    return wrong


def verify_files(path: Path, files: dict[str, str]) -> None:
    for name, expected in files.items():
        if name not in BUNDLE_FILES or not (path / name).is_file():
            raise UnseenError(f"{path}: {name} is missing: {AGAIN}")
        if sha256(path / name) != expected:
            raise UnseenError(
                f"{path}: {name} was changed or damaged since the bundle was made (its checksum differs): {AGAIN}"
            )


def write_arrays(path: Path, arrays: Mapping[str, np.ndarray], kinds: Mapping[str, type] | None = None) -> None:
    """A safetensors file as its own library writes it, but some rows at a time: an array may be mapped from a file that
    is larger than memory. `kinds`: as what an array is stored, if not as what it is."""
    kept = {key: np.dtype((kinds or {}).get(key, array.dtype)) for key, array in arrays.items()}
    order = sorted(arrays, key=lambda key: (-kept[key].itemsize, key))
    header, end = {}, 0
    for key in order:
        begin, end = end, end + arrays[key].size * kept[key].itemsize
        shape = list(arrays[key].shape)
        header[key] = {"dtype": KINDS[kept[key].name], "shape": shape, "data_offsets": [begin, end]}
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    with writing(path), open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for key in order:
            array = np.atleast_1d(arrays[key])  # a number (0-d) has no rows
            step = max(1, BLOCK // max(array[:1].nbytes, 1))
            for start in range(0, len(array), step):
                file.write(array[start : start + step].astype(kept[key].newbyteorder("<")).tobytes())
        file.flush()
        os.fsync(file.fileno())


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """The arrays of a safetensors file. Those of a file of more than LARGE bytes are memory-mapped if they are most of
    it: they take up memory only where they are looked at."""
    if path.stat().st_size <= LARGE:
        return load_file(path)
    with safe_open(path, framework="numpy") as arrays, open(path, "rb") as file:  # the former checks the header
        start = 8 + int.from_bytes(file.read(8), "little")
        header, found = json.loads(file.read(start - 8)), {}
        for key in arrays.keys():  # noqa: SIM118
            begin, end = header[key]["data_offsets"]
            if end - begin > LARGE // 2:
                kind = next(name for name, code in KINDS.items() if code == header[key]["dtype"])
                found[key] = np.memmap(path, kind, "r", start + begin, tuple(header[key]["shape"]))
            else:
                found[key] = arrays.get_tensor(key)
    return found
