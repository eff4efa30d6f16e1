"""The loop of both stages, on a training that only counts."""

from __future__ import annotations

import json
import os
import signal

import pytest
import torch
from torch import nn

from unseen.methods.graph.loop import CHECKPOINT, TrainingLoop, check_finite, load_checkpoint, save_checkpoint
from unseen.networks.processes import Processes
from unseen.util.errors import UnseenError
from unseen.util.run import Run


class Counting(TrainingLoop):
    """Subtracts the epoch's number from a weight; `interrupt` names an epoch during which Ctrl-C comes."""

    def __init__(self, run: Run, total: int = 10, interrupt: int | None = None, identity: str = "counting"):
        self.layer = nn.Linear(1, 1, bias=False)
        nn.init.zeros_(self.layer.weight)
        optimiser = torch.optim.SGD(self.layer.parameters(), lr=1.0, momentum=0.5)
        super().__init__(run, total, {"what": identity}, self.layer, optimiser, Processes("cpu", alone=True))
        self.interrupt = interrupt

    @property
    def weight(self) -> float:
        return float(self.layer.weight.detach())

    def train_epoch(self):
        if self.epoch + 1 == self.interrupt:
            os.kill(os.getpid(), signal.SIGINT)
        self.layer.weight.grad = torch.full((1, 1), self.epoch + 1.0)
        self._optimiser.step()

    def end_epoch(self, saves):
        if saves or self.epoch % 4 == 0:
            self.run.log(epoch=self.epoch, weight=self.weight)
        self.bar.advance(1)

    def pack(self):
        return {"count": torch.tensor(self.epoch)}, {"count": self.epoch}

    def unpack(self, tensors, facts):
        assert facts["count"] == facts["epoch"] == tensors["count"]


def quiet(folder=None, **options) -> Run:
    return Run(folder, device="cpu", show_progress=False, checkpoint_every=5, **options)


def epochs_logged(folder) -> list[int]:
    return [json.loads(line)["epoch"] for line in (folder / "log.jsonl").read_text().splitlines()]


def test_every_checkpoint_is_logged(tmp_path):
    loop = Counting(quiet(tmp_path))
    loop.do_epochs("Counting")
    assert loop.epoch == 10
    assert epochs_logged(tmp_path) == [4, 5, 8, 10]
    assert (tmp_path / CHECKPOINT).exists()


def test_an_interrupted_training_resumes_and_ends_as_an_undisturbed_one(tmp_path):
    with pytest.raises(UnseenError, match="stopped after epoch 7 of 10; resume it with the same settings"):
        Counting(quiet(tmp_path), interrupt=7).do_epochs("Counting")
    again, undisturbed = Counting(quiet(tmp_path, resume=True)), Counting(quiet())
    again.do_epochs("Counting")
    undisturbed.do_epochs("Counting")
    assert again.weight == undisturbed.weight and again.resumed == 7
    assert epochs_logged(tmp_path) == [4, 5, 7, 8, 10]


def test_without_a_folder_nothing_is_kept():
    with pytest.raises(UnseenError, match="stopped after epoch 3 of 10; nothing is kept"):
        Counting(quiet(), interrupt=3).do_epochs("Counting")


def test_fewer_epochs_than_are_done_are_refused(tmp_path):
    Counting(quiet(tmp_path)).do_epochs("Counting")
    with pytest.raises(
        UnseenError,
        match="has 10 epochs already, more than the 5 asked for: ask for more, or overwrite it",
    ):
        Counting(quiet(tmp_path, resume=True), total=5).do_epochs("Counting")


def test_a_checkpoint_of_something_else_is_refused(tmp_path):
    Counting(quiet(tmp_path)).do_epochs("Counting")
    with pytest.raises(UnseenError, match="belongs to another training: what was counting, now guessing"):
        Counting(quiet(tmp_path, resume=True), identity="guessing").do_epochs("Counting")


def test_a_loss_that_is_no_number_is_an_error():
    check_finite(0.5, 4)
    with pytest.raises(UnseenError, match="the loss became nan by epoch 4: lower the learning rate"):
        check_finite(float("nan"), 4)


def test_a_process_can_be_alone_under_torchrun(monkeypatch):
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    alone = Processes("cpu", alone=True)
    assert (alone.rank, alone.world) == (0, 1) and alone.any(True)


def test_no_changed_bit_of_a_checkpoint_goes_unnoticed(tmp_path):
    identity, weight = {"method": "dgp", "seed": 0}, torch.arange(12.0)
    assert load_checkpoint(tmp_path, identity) is None
    save_checkpoint(tmp_path, {"weight": weight}, {"identity": identity, "epoch": 2})
    saved, content = load_checkpoint(tmp_path, identity), (tmp_path / CHECKPOINT).read_bytes()
    assert saved[1]["epoch"] == 2 and torch.equal(saved[0]["weight"], weight)
    for bit in range(0, 8 * len(content), 5):
        changed = bytearray(content)
        changed[bit // 8] ^= 1 << bit % 8
        (tmp_path / CHECKPOINT).write_bytes(changed)
        with pytest.raises(UnseenError, match=r"checkpoint\.safetensors is damaged .*: overwrite it to start again"):
            load_checkpoint(tmp_path, identity)
