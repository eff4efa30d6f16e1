"""What several processes exchange: two real ones, started by torchrun."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from torch import nn

from unseen.networks.processes import Processes
from unseen.util.errors import UnseenError

TWO = """
import torch
from torch import nn
from unseen.util.errors import UnseenError
from unseen.networks.processes import Processes

with Processes("cpu") as processes:
    rank = processes.rank
    assert processes.world == 2
    assert processes.sum([1.0 + rank, 10.0]) == [3.0, 20.0]
    assert processes.any(rank == 1) and not processes.any(False)
    assert processes.gather({"rank": rank}) == [{"rank": 0}, {"rank": 1}]
    processes.agree("same", "a word")
    try:
        processes.agree(rank, "their number")
        raise SystemExit("they do not agree")
    except UnseenError as error:
        assert "process 0: 0; process 1: 1" in str(error)

    layer = nn.Linear(2, 1, bias=False)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[float(rank), 5.0]]))
    model = processes.parallel(layer)
    assert layer.weight.tolist() == [[0.0, 5.0]]        # all begin with the first one's
    for number in (1, 2):
        with processes.gather_gradients(model, now=number == 2):
            model(torch.tensor([[1.0 + rank, 2.0]])).sum().backward()
    assert layer.weight.grad.tolist() == [[3.0, 4.0]]   # two batches each, averaged over the two
    statistics = torch.full((3,), float(rank + 7))
    processes.copy_first([statistics])
    assert statistics.tolist() == [7.0] * 3
    processes.wait()
"""


@pytest.mark.slow
def test_two_processes(tmp_path):
    script = tmp_path / "two.py"
    script.write_text(TWO)
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", script]
    done = subprocess.run(torchrun, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def test_one_process_needs_no_group():
    layer = nn.Linear(2, 1)
    with Processes("cpu") as processes:
        assert processes.device == torch.device("cpu") and processes.rank == 0
        assert processes.parallel(layer) is layer
        assert processes.sum([1.5]) == [1.5] and processes.any(True) and processes.gather(3) == [3]
        processes.agree(1, "anything")
        processes.wait()
        assert not torch.distributed.is_initialized()


def test_a_process_that_was_not_started_by_torchrun_is_reported(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    for name in ("MASTER_ADDR", "MASTER_PORT", "RANK"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(UnseenError, match=r"process 0 of 2 cannot join the others.*torchrun"), Processes("cpu"):
        pass
