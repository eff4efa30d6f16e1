"""Checkpoints of a training: one safetensors file with all tensors, and the rest as JSON in its header.

One file, replaced in one step, so that there is always a whole checkpoint: the earlier one or the new one.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from unseen.errors import UnseenError
from unseen.runtime.files import write_atomically

CHECKPOINT = "checkpoint.safetensors"  # in a run's folder
FORMAT = 1
AGAIN = "start again with overwrite=True instead of resume=True"  # where a checkpoint is of no use
AGAIN_ARGUMENTS = ("overwrite=True", "resume=True")


def save_checkpoint(folder: Path, tensors: dict[str, Tensor], facts: dict[str, Any]) -> None:
    """Write tensors and JSON facts; on a full disk or in a read-only folder the earlier checkpoint stays as it was."""
    content = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    write_atomically(folder / CHECKPOINT, save(content, {"facts": json.dumps({"format": FORMAT, **facts})}))


def load_checkpoint(folder: Path, identity: dict[str, Any]) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
    """What was saved, or None where nothing was. Refused unless it was made with the same `identity`."""
    path = folder / CHECKPOINT
    if not path.exists():
        return None
    try:
        with safe_open(path, "pt") as file:
            facts = json.loads(file.metadata()["facts"])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
    except (SafetensorError, OSError, ValueError, KeyError, TypeError) as error:
        raise UnseenError(f"{path} is damaged ({error}): {AGAIN}", *AGAIN_ARGUMENTS) from None
    if facts.get("format") != FORMAT:
        raise UnseenError(f"{path} was made by another version of unseen: {AGAIN}", *AGAIN_ARGUMENTS)
    then, now = _flat(facts["identity"]), _flat(json.loads(json.dumps(identity)))
    changed = sorted(key for key in now | then if then.get(key) != now.get(key))
    if changed:
        differences = "; ".join(f"{key} was {then.get(key)}, now {now.get(key)}" for key in changed)
        raise UnseenError(
            f"{path} belongs to another training: {differences}. Use the same settings to continue it, or {AGAIN}",
            *AGAIN_ARGUMENTS,
        )
    return tensors, facts


def pack_training(
    network: nn.Module, optimiser: torch.optim.Optimizer, generator: torch.Generator
) -> dict[str, Tensor]:
    """All that the next step depends on: weights, the optimiser's moments, the state of the random numbers."""
    tensors = {f"network.{name}": tensor for name, tensor in network.state_dict().items()}
    for index, state in optimiser.state_dict()["state"].items():
        tensors |= {f"optimiser.{index}.{name}": torch.as_tensor(value) for name, value in state.items()}
    return tensors | {"generator": generator.get_state()}


def unpack_training(
    tensors: dict[str, Tensor], network: nn.Module, optimiser: torch.optim.Optimizer, generator: torch.Generator
) -> None:
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
