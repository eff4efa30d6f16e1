"""The device that torch computes on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unseen.errors import UnseenError

if TYPE_CHECKING:
    import torch


def choose_device(name: str = "auto") -> torch.device:
    """The torch device of that name, tried out; `auto` takes CUDA, then MPS, then the CPU."""
    import torch

    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    try:
        device = torch.device(name)
        torch.zeros(1, device=device).cpu()  # `meta` takes anything, and gives nothing back
    except (RuntimeError, AssertionError) as error:
        raise UnseenError(f"the device {name!r} cannot be used here: {str(error).splitlines()[0]}") from None
    return device
