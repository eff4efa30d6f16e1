"""The device that torch computes on. Importing this module does not import torch."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from typing import TYPE_CHECKING

from unseen.util.errors import UnseenError
from unseen.util.names import first_line

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
        raise UnseenError(f"the device {name!r} cannot be used here: {first_line(error)}") from None
    return device


def list_devices() -> list[str]:
    """The devices that torch can use here."""
    import torch

    gpus = [f"cuda:{number}" for number in range(torch.cuda.device_count())]
    return ["cpu", *gpus, *(["mps"] if torch.backends.mps.is_available() else [])]


def is_cpu(device: torch.device | str | None) -> bool:
    """None stands for the CPU without torch."""
    return device is None or str(device).partition(":")[0] == "cpu"


def has_gpu() -> bool:
    """Whether torch can use a GPU here; it is imported only where the system seems to have one."""
    mac = sys.platform == "darwin" and platform.machine() == "arm64"
    drivers = ("/dev/nvidiactl", "/dev/kfd", "/dev/dxg")  # of NVIDIA, AMD, and Windows' Linux
    if not (mac or shutil.which("nvidia-smi") or any(map(os.path.exists, drivers))):
        return False
    try:
        return choose_device().type != "cpu"
    except ImportError:
        return False
