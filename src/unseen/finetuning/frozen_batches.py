"""Batches as the frozen part of a network leaves them, kept on disk.

Where only the last stage is trained, everything before it does the same to the same crop of a photo, whatever the
classifiers are. Finetunings of several bundles with one network, one list of photos and one seed share these batches:
the first one makes them, the others only train.

    FOLDER/<key>/<first step>/checkpoint.safetensors   of BLOCK steps: what the last stage sees, in half precision
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from unseen.backbones import Backbone
from unseen.errors import UnseenError
from unseen.finetuning.freezing import stages
from unseen.finetuning.training_data import Batch
from unseen.runtime.checkpoints import load_checkpoint, save_checkpoint

BLOCK = 32  # steps


class FrozenBatches:
    """What the last stage of a network sees at each step.

    Args:
        folder: Where batches are kept, of any network and any photos.
        network: One that `can_share` its batches.
        identity: JSON; all that decides on the photos of a step and on their crops.
    """

    def __init__(self, folder: Path, network: Backbone, identity: dict[str, Any]):
        self.network, self._trunk = network, None
        self.identity = {**identity, "network": network.checksum, "transform": repr(network.transform)}
        key = hashlib.sha256(json.dumps(self.identity, sort_keys=True).encode()).hexdigest()[:16]
        self.folder = folder / key

    def batches(self, step: int, end: int, load: Callable[[int, int], Iterable[Batch]]) -> Iterator[Batch]:
        """The batches of the steps step..end-1. `load(first, end)` gives those of photos, for what is not there yet."""
        fresh: Iterator[Batch] | None = None
        while step < end:
            first = step - step % BLOCK
            last = min(first + BLOCK, end)
            block = self._read(first, last)
            if block is None:
                fresh = iter(load(first, end)) if fresh is None else fresh
                block = self._make(first, islice(fresh, last - first))
            else:
                fresh = None
            yield from block[step - first : last - first]
            step = last

    def _read(self, first: int, end: int) -> list[Batch] | None:
        """A block that is there, whole and as long as asked for."""
        found = load_checkpoint(self._place(first), self.identity)
        if found is None or len(found.tensors["labels"]) < end - first:
            return None
        told = [{int(photo): why for photo, why in failed.items()} for failed in found.facts["unreadable"]]
        return list(zip(found.tensors["hidden"], found.tensors["labels"], told, strict=True))

    def _make(self, first: int, batches: Iterable[Batch]) -> list[Batch]:
        hidden, labels, unreadable = [], [], []
        for pixels, those, failed in batches:
            if pixels is None or any(len(those) < len(others) for others in labels):
                raise UnseenError(f"{len(failed)} photos in a row cannot be read. {next(iter(failed.values()))}")
            hidden.append(self._hidden(pixels))
            labels.append(those)
            unreadable.append(failed)
        tensors = {"hidden": torch.stack(hidden), "labels": torch.stack(labels)}
        save_checkpoint(self._place(first), tensors, {"identity": self.identity, "unreadable": unreadable})
        return list(zip(hidden, labels, unreadable, strict=True))

    @torch.no_grad()
    def _hidden(self, pixels: Tensor) -> Tensor:
        if self._trunk is None:
            self._trunk = self.network.module.trunk_for_inference()
        return self._trunk(pixels.to(self.network.device)).half().cpu()

    def _place(self, first: int) -> Path:
        return self.folder / f"{first:06d}"


def can_share(network: Backbone, first_stages: int) -> bool:
    """Whether the network can be cut before its last stage, and only that stage is trained."""
    cut = type(network) is Backbone and hasattr(network.module, "trunk_for_inference")
    return cut and first_stages in (-1, len(stages(network)) - 1)
