"""Checkpoints of a training: one safetensors file with all tensors, and the rest as JSON in its header.

One file, replaced in one step, so that there is always a whole checkpoint: the earlier one or the new one. It has a
checksum, and the one before it is kept: what a failing disk damages is noticed, and costs a few steps.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetensors import SafetensorError, safe_open

from unseen.errors import UnseenError
from unseen.runtime.files import temporary_beside, write_atomically, writing

if TYPE_CHECKING:  # every bundle is looked at for an unfinished training: torch is imported only where there is one
    from torch import Generator, Tensor, nn
    from torch.optim import Optimizer

CHECKPOINT = "checkpoint.safetensors"  # in a run's folder
PREVIOUS = "checkpoint-previous.safetensors"
FORMAT = 2  # 1 had no checksum
AGAIN = "start again with overwrite=True instead of resume=True"  # where a checkpoint is of no use
AGAIN_ARGUMENTS = ("overwrite=True", "resume=True")
DAMAGE = (SafetensorError, LookupError, TypeError, ValueError, AttributeError, RuntimeError, OSError, MemoryError)
"""What reading a damaged checkpoint can raise."""


@dataclass(frozen=True)
class Checkpoint:
    """What was saved: tensors and JSON facts."""

    path: Path
    tensors: dict[str, Tensor]
    facts: dict[str, Any]


def save_checkpoint(folder: Path, tensors: dict[str, Tensor], facts: dict[str, Any]) -> None:
    """Write tensors and JSON facts; on a full disk or in a read-only folder the earlier checkpoint stays as it was."""
    from safetensors.torch import save

    content = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    text = json.dumps({"format": FORMAT, **facts})
    packed = save(content, {"facts": text, "sha256": _digest(content, text)})
    _keep_previous(folder)
    write_atomically(folder / CHECKPOINT, packed)


def load_checkpoint(
    folder: Path, identity: dict[str, Any], say: Callable[[str], None] = lambda message: None
) -> Checkpoint | None:
    """What was saved last, or None where nothing was. Refused unless it was made with the same `identity`.

    In place of a damaged one there is the one before it, or None where that is of no use either; `say` is told.
    """
    last, earlier = folder / CHECKPOINT, folder / PREVIOUS
    if not last.exists():
        return None
    try:
        found = _read(last)
    except DAMAGE as damage:
        try:
            found = _read(earlier)
            _check_identity(found, identity)
        except (UnseenError, *DAMAGE):
            say(f"{last} is damaged ({damage}), and there is no whole one before it: starting from the beginning.")
            return None
        say(f"{last} is damaged ({damage}): continuing from the checkpoint before it.")
        return found
    _check_identity(found, identity)
    return found


def remove_damaged(folder: Path, used: Checkpoint | None) -> None:
    """After a load that found damage: what was used is the last checkpoint from now on."""
    with writing(folder):
        if used is None:
            (folder / CHECKPOINT).unlink(missing_ok=True)
            (folder / PREVIOUS).unlink(missing_ok=True)
        elif used.path.name == PREVIOUS:
            os.replace(used.path, folder / CHECKPOINT)


def _keep_previous(folder: Path) -> None:
    """Let the last checkpoint have the previous one's name too; its own stays until the next one is written."""
    last = folder / CHECKPOINT
    if not last.exists():
        return
    with writing(folder):
        temporary = temporary_beside(folder / PREVIOUS)
        temporary.unlink(missing_ok=True)
        try:
            os.link(last, temporary)
        except OSError:  # a file system without links
            shutil.copyfile(last, temporary)
        os.replace(temporary, folder / PREVIOUS)


def _read(path: Path) -> Checkpoint:
    """A checkpoint that is whole; anything of `DAMAGE` if it is not."""
    with safe_open(path, "pt") as file:
        metadata = file.metadata()
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
    facts = json.loads(metadata["facts"])
    signed = metadata.get("sha256")
    if (signed or facts["format"] != 1) and signed != _digest(tensors, metadata["facts"]):
        raise ValueError("its checksum differs")
    if not isinstance(facts["identity"], dict):
        raise ValueError("it does not say of which training it is")
    return Checkpoint(path, tensors, facts)


def _digest(tensors: dict[str, Tensor], facts: str) -> str:
    """Of all that is saved: of the file as it would be without the checksum."""
    from safetensors.torch import save

    return hashlib.sha256(save(tensors, {"facts": facts})).hexdigest()


def _check_identity(found: Checkpoint, identity: dict[str, Any]) -> None:
    if found.facts["format"] not in (1, FORMAT):
        raise UnseenError(f"{found.path} was made by another version of unseen: {AGAIN}", *AGAIN_ARGUMENTS)
    then, now = _flat(found.facts["identity"]), _flat(json.loads(json.dumps(identity)))
    changed = sorted(key for key in now | then if then.get(key) != now.get(key))
    if changed:
        differences = "; ".join(f"{key} was {then.get(key)}, now {now.get(key)}" for key in changed)
        raise UnseenError(
            f"{found.path} belongs to another training: {differences}. Use the same settings to continue it, or "
            f"{AGAIN}",
            *AGAIN_ARGUMENTS,
        )


def pack_training(network: nn.Module, optimiser: Optimizer, generator: Generator) -> dict[str, Tensor]:
    """All that the next step depends on: weights, the optimiser's moments, the state of the random numbers."""
    from torch import as_tensor

    tensors = {f"network.{name}": tensor for name, tensor in network.state_dict().items()}
    for index, state in optimiser.state_dict()["state"].items():
        tensors |= {f"optimiser.{index}.{name}": as_tensor(value) for name, value in state.items()}
    return tensors | {"generator": generator.get_state()}


def unpack_training(tensors: dict[str, Tensor], network: nn.Module, optimiser: Optimizer, generator: Generator) -> None:
    """Put back what pack_training() took."""
    prefix = "network."
    network.load_state_dict({name[len(prefix) :]: t for name, t in tensors.items() if name.startswith(prefix)})
    state: dict[int, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        if name.startswith("optimiser."):
            _, index, key = name.split(".", 2)
            state.setdefault(int(index), {})[key] = tensor
    optimiser.load_state_dict({**optimiser.state_dict(), "state": state})
    generator.set_state(tensors["generator"])


def _flat(facts: dict[str, Any]) -> dict[str, Any]:
    """Nested settings as one level, for a comparison that can be read."""
    flat = {}
    for key, value in facts.items():
        flat |= _flat(value) if isinstance(value, dict) else {key: value}
    return flat
