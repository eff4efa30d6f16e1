"""How the death of a worker process reaches the program: torch's report, or a connection that breaks before it."""

from __future__ import annotations

import os

import pytest
import torch
from torch.utils.data import DataLoader, Dataset

from unseen.networks.processes import shared, watch_workers
from unseen.util.errors import UnseenError

REPORT = "DataLoader worker (pid 7) is killed by signal: Killed."


def raising(error: Exception):
    def work():
        raise error

    return work


def test_the_report_of_a_death_is_passed_on_with_advice():
    with pytest.raises(UnseenError, match=r"ended unexpectedly: DataLoader worker \(pid 7\).* Killed\. Go on\.$"):
        watch_workers(raising(RuntimeError(f"{REPORT}\nand more")), "Go on.")


def test_other_errors_stay_as_they_are():
    with pytest.raises(RuntimeError, match="out of memory"):
        watch_workers(raising(RuntimeError("out of memory")), "Go on.")


class Large(Dataset):
    def __len__(self):
        return 3

    def __getitem__(self, i: int) -> torch.Tensor:
        return torch.full((1 << 18,), i)


def as_one(batch: list[torch.Tensor]) -> torch.Tensor:
    return shared(torch.stack(batch))


def leave_no_room(worker: int) -> None:
    resource = pytest.importorskip("resource")
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="needs a limit on the size of files")
def test_a_batch_that_has_no_room_in_shared_memory_is_reported():
    """Handed over by torch itself it would never come, and the reader wait for ever."""

    def read() -> None:
        loader = DataLoader(Large(), num_workers=1, collate_fn=as_one, worker_init_fn=leave_no_room, timeout=30)
        for _ in loader:
            pass

    with pytest.raises(UnseenError, match=r"Caught RuntimeError in DataLoader worker.* Go on"):
        watch_workers(read, "Go on.")
