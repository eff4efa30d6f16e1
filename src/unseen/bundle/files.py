"""The files of a bundle: what the header must hold, and whether all are as they were written."""

from __future__ import annotations

import glob
import json
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save

from unseen.errors import UnseenError
from unseen.runtime.checkpoints import CHECKPOINT
from unseen.runtime.files import sha256

FORMAT = 1
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


def read_header(path: Path) -> dict[str, Any]:
    file = path / "bundle.json"
    if not file.exists():
        if (path / CHECKPOINT).exists():
            raise UnseenError(
                f"{path} holds an unfinished training: continue it with resume=True and the same settings",
                "resume=True",
            )
        place = path.resolve()  # as `Bundle.save` has it
        aside = sorted(place.parent.glob(f".{glob.escape(place.name)}.*.old"))
        if aside and not place.exists():  # killed after the old one was moved away, before the new one was there
            raise UnseenError(f"{path} was moved by a process that was killed while saving: rename {aside[-1]} to it")
        what = "has no bundle.json" if path.is_dir() else "does not exist" if not path.exists() else "is not a folder"
        raise UnseenError(f"{path} is not a bundle: it {what}. `unseen train` makes one.")
    try:
        header = json.loads(file.read_text(encoding="utf-8"))
        if header["format"] > FORMAT:
            raise UnseenError(
                f"{path} was made by a newer version of unseen (format {header['format']}): upgrade unseen"
            )
    except (ValueError, KeyError, TypeError, OSError) as error:
        raise UnseenError(f"{file} is damaged ({error}): make the bundle again") from None
    wrong = _wrong_fields(header, HEADER)
    if wrong:
        raise UnseenError(f"{file} is damaged (missing or wrong: {', '.join(wrong)}): make the bundle again")
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
            raise UnseenError(f"{path}: {name} is missing: make the bundle again, or copy it whole")
        if sha256(path / name) != expected:
            raise UnseenError(f"{path}: {name} was changed or damaged since the bundle was made (its checksum differs)")


def pack(arrays: dict[str, np.ndarray]) -> bytes:
    return save({key: np.asarray(value, order="C") for key, value in arrays.items()})  # numbers (0-d) stay such
