"""The larger assets that a user may add: found by name, checked by sha256."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from unseen.errors import UnseenError
from unseen.runtime.files import sha256
from unseen.runtime.folders import cache_folder
from unseen.runtime.progress import progress

_AUTHORS = (
    "https://raw.githubusercontent.com/yinboc/DGP/master/materials"  # of the repository cyvius96/DGP, which moved
)
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
    asset = ASSETS.get(name)
    if asset is None:
        raise UnseenError(f"{name!r} is not a known asset. Known: {', '.join(ASSETS)}.")
    path = find_asset(name)
    if path is not None:
        _verify(path, asset)
        return path
    if not download:
        raise UnseenError(f"{name} ({asset.what}) is not on this machine. {_advice(name, asset)}")
    return _download(name, asset)


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

    def __init__(self, bar):
        self._bar, self._ended, self.total = bar, False, 0

    def update(self, count: int) -> None:
        if not self._ended:
            self._bar.advance(1)

    def reset(self) -> None:
        self._ended = True

    def close(self) -> None:
        pass


@cache
def _checksum(path: Path, size: int, modified: int) -> str:
    """sha256 once a process for an unchanged file: a list of a few hundred kB is read often, glove.6B.zip is large."""
    return sha256(path)


def _verify(path: Path, asset: Asset) -> None:
    state = path.stat()
    found = _checksum(path, state.st_size, state.st_mtime_ns)
    if found != asset.sha256:
        advice = f"Delete it, or put the file from {asset.url} in its place"
        raise UnseenError(f"{path}: not the expected file: sha256 is {found}, should be {asset.sha256}. {advice}.")


def _advice(name: str, asset: Asset) -> str:
    return f"Get it from {asset.url}, put {name} into a folder, and set UNSEEN_ASSETS to that folder."
