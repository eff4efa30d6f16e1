"""Several processes: a group that torchrun starts (gloo on CPUs, nccl on GPUs), and workers that read photos."""

from __future__ import annotations

import atexit
import os
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from datetime import timedelta
from typing import Any
from uuid import uuid4

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.utils.data import get_worker_info

from unseen.networks.devices import choose_device
from unseen.util.devices import own_rank
from unseen.util.errors import UnseenError
from unseen.util.names import first_line

PATIENCE = timedelta(days=7)  # with the slowest process: torchrun notices a lost one


class Processes(AbstractContextManager):
    """The group that this process belongs to; it is alone outside torchrun, or if `alone`.

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
                store = join(*next(dist.rendezvous("env://", timeout=PATIENCE)))  # pyright: ignore[reportPrivateImportUsage]
                dist.init_process_group(backend, store=store, rank=self.rank, world_size=self.world, timeout=PATIENCE)
            except (ValueError, RuntimeError) as error:
                raise UnseenError(
                    f"process {self.rank} of {self.world} cannot join the others: {first_line(error)}. "
                    "Start them with torchrun, which tells each where the others are."
                ) from None
            atexit.register(dist.destroy_process_group)
        return self

    def __exit__(self, kind, error, trace) -> None:
        """The group stays until the process ends: processes that leave it could not join again."""

    def parallel(self, model: nn.Module) -> nn.Module:
        """The model, its gradients averaged over the processes."""
        if self.world == 1:
            return model
        devices = [self.device.index] if self.device.type == "cuda" else None
        return nn.parallel.DistributedDataParallel(model, device_ids=devices)

    def gather_gradients(self, model: Any, now: bool) -> AbstractContextManager:
        """A backward pass inside exchanges gradients only if `now`: once a step, not once a batch."""
        return nullcontext() if now or self.world == 1 else model.no_sync()

    def copy_first(self, tensors: Iterable[Tensor]) -> None:
        """Copy the first process's tensors to all others: each process collects its own batch-norm statistics."""
        for tensor in tensors if self.world > 1 else ():
            dist.broadcast(tensor, 0)

    def sum(self, values: list[float]) -> list[float]:
        """The sum of each value over the processes."""
        total = torch.tensor(values, dtype=torch.float64)
        if self.world > 1:
            dist.all_reduce(total)
        return total.tolist()

    def any(self, flag: bool) -> bool:
        """Whether the flag is set in any process: all of them stop at the same step."""
        return self.sum([float(flag)])[0] > 0

    def gather(self, value: Any) -> list[Any]:
        """The value of every process, in the order of their ranks."""
        values = [value] * self.world
        if self.world > 1:
            dist.all_gather_object(values, value)
        return values

    def agree(self, value: Any, what: str) -> None:
        """Raise unless the value is the same in all processes."""
        values = self.gather(value)
        if any(other != values[0] for other in values):
            seen = "; ".join(f"process {rank}: {other}" for rank, other in enumerate(values[:4]))
            raise UnseenError(f"the processes disagree on {what} ({seen}): all machines must see the same files")

    def wait(self) -> None:
        """Wait until every process gets here."""
        if self.world > 1:
            dist.barrier()


def join(store: Any, rank: int, world: int) -> dist.Store:  # pyright: ignore[reportPrivateImportUsage]
    """A part of torchrun's store that only the processes of this start use.

    torchrun keeps one store when it restarts processes, with the addresses of lost ones. So the first process names a
    part of the store, and passes the name to each other process under a key that is new with every start.
    """
    name = key = uuid4().hex
    if rank > 0:
        store.set(f"joining/{rank}", key)
        name = store.get(f"name/{key}").decode()  # waits for it
        store.set(f"joined/{name}/{rank}", "")
    missing = set(range(1, world)) if rank == 0 else set()
    while missing:
        for other in [other for other in missing if store.check([f"joining/{other}"])]:
            store.set(f"name/{store.get(f'joining/{other}').decode()}", name)
        time.sleep(0.01)
        missing -= {other for other in missing if store.check([f"joined/{name}/{other}"])}
    return dist.PrefixStore(name, store)  # pyright: ignore[reportPrivateImportUsage]


def shared(batch: torch.Tensor) -> torch.Tensor:
    """Move a worker's batch to shared memory. torch would do so in a thread that loses the error if memory is full, and
    the reader would wait for ever."""
    return batch if get_worker_info() is None else batch.share_memory_()


def watch_workers(work: Callable[[], None], advice: str) -> None:
    """Run `work`, which reads from worker processes; if one of them dies, raise an error with `advice`."""
    try:
        work()
        return
    except (RuntimeError, ConnectionError, EOFError) as error:  # torch's, or of a batch that broke off
        if type(error) is RuntimeError and "DataLoader worker" not in str(error):
            raise
        death = first_line(error)
    # Raised here, where nothing holds the loader any more: torch would report it again.
    raise UnseenError(f"a process that reads photos ended unexpectedly: {death}. {advice}")
