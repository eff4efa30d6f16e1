"""The data files that come with the package, and downloads of larger ones."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from unseen.util.errors import UnseenError
from unseen.util.files import cache_folder, sha256
from unseen.util.run import progress

__all__ = [
    "Asset",
    "data_file",
    "fetch_asset",
    "find_asset",
    "imagenet_1k",
    "imagenet_21k",
    "manifest",
]

MANIFEST = "MANIFEST.json"  # what the others must be
FOLDER = Path(__file__).resolve().parent


def data_file(name: str, verify: bool = True) -> Path:
    """The embedded file of that name, if it is what was released; `verify=False` only looks whether it is there."""
    path = FOLDER / name
    if not path.exists():
        raise UnseenError(f"{path}: the embedded file is missing. Is the installation complete?")
    if (
        verify
        and name != MANIFEST
        and _checksum(path) != {entry["file"]: entry["sha256"] for entry in manifest()}.get(name)
    ):
        raise UnseenError(f"{path}: is damaged (its checksum differs from the manifest's). Install unseen again.")
    return path


def manifest() -> list[dict]:
    """One entry an embedded file: file, what, source, version, source_sha256, licence, sha256, bytes, made_by."""
    path = data_file(MANIFEST)
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UnseenError(f"{path}: is damaged ({error}). Install unseen again.") from None


def _checksum(path: Path) -> str:
    """Computed once a process for an unchanged file: lists are read often, and glove.6B.zip is large."""
    state = path.stat()
    return _checksum_of(path, state.st_size, state.st_mtime_ns)


@lru_cache(maxsize=64)
def _checksum_of(path: Path, size: int, modified: int) -> str:
    return sha256(path)


@cache
def imagenet_1k() -> tuple[str, ...]:
    """The wnids of the 1,000 classes of the ImageNet challenge, sorted: the order of every published network."""
    return tuple(data_file("imagenet-1k.txt").read_text(encoding="ascii").split())


@cache
def imagenet_21k() -> tuple[str, ...]:
    """The wnids of the 21,842 classes of the full ImageNet, sorted; the 1,000 are among them."""
    return tuple(data_file("imagenet-21k.txt").read_text(encoding="ascii").split())


@cache
def looks_glossary() -> dict[str, str]:
    """Id -> what such a thing looks like in photos, for the ImageNet classes that are described."""
    lines = data_file("looks.tsv").read_text(encoding="utf-8").splitlines()
    return dict(line.split("\t") for line in lines)


# Of the repository cyvius96/DGP, which moved.
_AUTHORS = "https://raw.githubusercontent.com/yinboc/DGP/master/materials"
_BLOCK = 1 << 20


@dataclass(frozen=True)
class Asset:
    """A file that is not embedded: where its makers publish it, and what it must hash to."""

    url: str
    sha256: str
    bytes: int
    what: str


ASSETS = {
    "glove.6B.zip": Asset(
        "https://nlp.stanford.edu/data/glove.6B.zip",
        "617afb2fe6cbd085c235baf7a465b96f4112bd7f7ccb2b2cbd649fed9cbcf2fb",
        862_182_613,
        "GloVe 6B word vectors, 50 to 300 dimensions (PDDL 1.0)",
    ),
    "imagenet-split.json": Asset(
        f"{_AUTHORS}/imagenet-split.json",
        "5ef05994c73485529b7e6a556915c642e1bd3252e419e43df4ccbd8a27c0f454",
        283_967,
        "the DGP authors' seen and unseen ImageNet classes (MIT)",
    ),
    "imagenet-testsets.json": Asset(
        f"{_AUTHORS}/imagenet-testsets.json",
        "3014729204d93f21ff8503a723585ae16131b2825df71e1633fa804f7cab433c",
        677_440,
        "the DGP authors' 2-hops, 3-hops and all lists (MIT)",
    ),
    "imagenet-xml-wnids.json": Asset(
        f"{_AUTHORS}/imagenet-xml-wnids.json",
        "ba7c775ff5ad1ac616b7feff3790e8406ce6d06478f467fec118d3f0fafb5230",
        419_835,
        "the DGP authors' graph nodes (MIT)",
    ),
    "tuxpaint-stamps-default_2022.06.04-1_all.deb": Asset(
        "https://deb.debian.org/debian/pool/main/t/tuxpaint-stamps/tuxpaint-stamps-default_2022.06.04-1_all.deb",
        "6db6c1bfc870a47f1499d6203b083522eacb57c5f9c87d468f2e92eb6d9d5f34",
        160_880_444,
        "Debian's package of Tux Paint's stamps, photos of everyday things (GPL-2)",
    ),
}


def find_asset(name: str) -> Path | None:
    """The asset in the folder UNSEEN_ASSETS, else among the downloads in the cache folder, else None."""
    named = os.environ.get("UNSEEN_ASSETS")
    folders = [Path(named).expanduser()] if named else []
    for folder in (*folders, cache_folder() / "assets"):
        if (folder / name).is_file():
            return folder / name
    return None


def fetch_asset(name: str, download: bool = True) -> Path:
    """The asset, downloaded from its makers if it is not on this machine. Its checksum is verified either way."""
    asset, path = ASSETS[name], find_asset(name)
    if path is None:
        if not download:
            raise UnseenError(f"{name} ({asset.what}) is not on this machine. {_advice(name, asset)}")
        return _download(name, asset)
    actual = _checksum(path)
    if actual != asset.sha256:
        advice = f"Delete it, or put the file from {asset.url} in its place"
        raise UnseenError(f"{path}: not the expected file: sha256 is {actual}, should be {asset.sha256}. {advice}.")
    return path


def _download(name: str, asset: Asset) -> Path:
    import pooch  # here, so that who downloads nothing need not wait for it

    pooch.get_logger().setLevel("WARNING")
    folder = cache_folder() / "assets"
    try:
        with progress(f"Downloading {name} (MiB)", total=-(-asset.bytes // _BLOCK)) as bar:
            shown: Any = _BlockBar(bar)  # pooch takes more than its types say
            download: Any = pooch.HTTPDownloader(chunk_size=_BLOCK, progressbar=shown)
            path = pooch.retrieve(asset.url, f"sha256:{asset.sha256}", fname=name, path=folder, downloader=download)
    except (OSError, ValueError) as error:  # no network, a refusal of the server, a full disk; the wrong content
        reason = " ".join(str(error).split())
        raise UnseenError(f"{name} ({asset.what}) could not be downloaded: {reason}. {_advice(name, asset)}") from error
    return Path(path)


class _BlockBar:
    """Our bar as pooch wants one: a step a block; pooch's last word (reset, then update to the end) is not needed."""

    total = 0

    def __init__(self, bar):
        self.update = lambda count: bar.advance(1)

    def reset(self) -> None:
        self.update = lambda count: None

    def close(self) -> None:
        pass


def _advice(name: str, asset: Asset) -> str:
    return f"Get it from {asset.url}, put {name} into a folder, and set UNSEEN_ASSETS to that folder."
