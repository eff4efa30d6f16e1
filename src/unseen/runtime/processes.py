"""One process or many: what torchrun started, joined by gloo on CPUs and nccl on GPUs. One process needs none of it."""

from __future__ import annotations

import atexit
import os
import time
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from datetime import timedelta
from typing import Any
from uuid import uuid4

import torch
import torch.distributed as dist
from torch import Tensor, nn

from unseen.errors import UnseenError
from unseen.runtime.devices import choose_device


class Processes(AbstractContextManager):
    """The group of processes that this one belongs to; alone outside torchrun, or if `alone`.

    >>> with Processes("cpu") as processes:
    ...     processes.sum([1.0, 2.0])  # over all processes
    [1.0, 2.0]
    """

    def __init__(self, device: str = "auto", alone: bool = False):
        self.rank = 0 if alone else own_rank()
        self.world = 1 if alone else int(os.environ.get("WORLD_SIZE", "1"))
        local = int(os.environ.get("LOCAL_RANK", "0"))
        if self.world > 1 and device in ("auto", "cuda") and torch.cuda.is_available():
            if local >= torch.cuda.device_count():
                raise UnseenError(f"{local + 1} processes on this machine, but {torch.cuda.device_count()} GPUs")
            device = f"cuda:{local}"
        self.device = choose_device(device)

    def __enter__(self) -> Processes:
        if self.world > 1 and not dist.is_initialized():
            if self.device.type == "cuda":
                torch.cuda.set_device(self.device)
            # gloo beside nccl: counts and flags are exchanged on the CPU, without waiting for the GPU.
            backend = "cpu:gloo,cuda:nccl" if self.device.type == "cuda" else "gloo"
            try:
                # A process that has done its share waits for the slowest; one that is lost is torchrun's to notice.
                patience = timedelta(days=7)
                store = join(*next(dist.rendezvous("env://", timeout=patience)))  # pyright: ignore[reportPrivateImportUsage]
                dist.init_process_group(backend, store=store, rank=self.rank, world_size=self.world, timeout=patience)
            except (ValueError, RuntimeError) as error:
                raise UnseenError(
                    f"process {self.rank} of {self.world} cannot join the others: {str(error).splitlines()[0]}. "
                    "Start them with torchrun, which tells each where the others are."
                ) from None
            atexit.register(dist.destroy_process_group)
        return self

    def __exit__(self, kind, error, trace) -> None:
        """The group stays until the process ends: once parted, its processes would not find each other again."""

    def parallel(self, model: nn.Module) -> nn.Module:
        """The model, its gradients averaged over the processes."""
        if self.world == 1:
            return model
        devices = [self.device.index] if self.device.type == "cuda" else None
        return nn.parallel.DistributedDataParallel(model, device_ids=devices)

    def gather_gradients(self, model: Any, now: bool) -> AbstractContextManager:
        """Within it a backward pass exchanges gradients only if `now`: once a step, however many batches it has."""
        return nullcontext() if now or self.world == 1 else model.no_sync()

    def copy_first(self, tensors: Iterable[Tensor]) -> None:
        """Give every process the first one's tensors: batch-norm's statistics, which each gathers for itself."""
        if self.world > 1:
            for tensor in tensors:
                dist.broadcast(tensor, 0)

    def sum(self, values: list[float]) -> list[float]:
        """The sum of each value over the processes."""
        if self.world == 1:
            return values
        total = torch.tensor(values, dtype=torch.float64)
        dist.all_reduce(total)
        return total.tolist()

    def any(self, flag: bool) -> bool:
        """Whether the flag is set in any process: all of them stop at the same step."""
        return self.sum([float(flag)])[0] > 0

    def gather(self, value: Any) -> list[Any]:
        """The value of every process, in the order of their ranks."""
        if self.world == 1:
            return [value]
        values = [None] * self.world
        dist.all_gather_object(values, value)
        return values

    def agree(self, value: Any, what: str) -> None:
        """Refuse to go on where the processes do not see the same."""
        values = self.gather(value)
        if any(other != values[0] for other in values):
            found = "; ".join(f"process {rank}: {other}" for rank, other in enumerate(values[:4]))
            raise UnseenError(f"the processes disagree on {what} ({found}): all machines must see the same files")

    def wait(self) -> None:
        """Until every process has come here."""
        if self.world > 1:
            dist.barrier()


def own_rank() -> int:
    """Of this process among those that torchrun started; 0 without it."""
    return int(os.environ.get("RANK", "0"))


def join(store: dist.Store, rank: int, world: int) -> dist.Store:  # pyright: ignore[reportPrivateImportUsage]
    """The part of torchrun's store that only the processes of this start use.

    torchrun keeps one store however often it starts the processes anew: what lost ones left there, such as the
    addresses that they listened on, would be taken for the others' own. So the first process names a part of it, and
    tells every process that waits for the name, by a key that is new with each start, until all have confirmed it.
    """
    own = uuid4().hex
    if rank > 0:
        store.set(f"joining/{rank}", own)
        name = store.get(f"name/{own}").decode()  # waits for it
        store.set(f"joined/{name}/{rank}", "")
        return dist.PrefixStore(name, store)  # pyright: ignore[reportPrivateImportUsage]
    missing = set(range(1, world))
    while missing:
        for other in [other for other in missing if store.check([f"joining/{other}"])]:
            store.set(f"name/{store.get(f'joining/{other}').decode()}", own)
        time.sleep(0.01)
        missing -= {other for other in missing if store.check([f"joined/{own}/{other}"])}
    return dist.PrefixStore(own, store)  # pyright: ignore[reportPrivateImportUsage]
