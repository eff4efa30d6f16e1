"""The loop that both stages share, on a training that only counts."""

from __future__ import annotations

import json
import os
import signal

import pytest
import torch

from unseen.util.errors import UnseenError
from unseen.util.loop import CHECKPOINT, TrainingLoop, load_checkpoint, save_checkpoint
from unseen.util.processes import Processes
from unseen.util.run import Run


class Counting(TrainingLoop):
    """Adds the step's number to a sum; `interrupt` names a step during which Ctrl-C comes."""

    log_every = 4

    def __init__(self, run: Run, total: int = 10, interrupt: int | None = None, identity: str = "counting"):
        super().__init__(run, total, {"what": identity}, Processes("cpu", alone=True))
        self.sum, self.interrupt = torch.zeros(()), interrupt

    def update(self, batch):
        if self.step + 1 == self.interrupt:
            os.kill(os.getpid(), signal.SIGINT)
        self.sum += self.step + 1

    def log(self):
        self.check_finite(float(self.sum))
        self.run.log(step=self.step, sum=float(self.sum))
        return {"sum": str(float(self.sum))}

    def pack(self):
        return {"sum": self.sum}, {"count": self.step}

    def unpack(self, tensors, facts):
        assert facts["count"] == facts["step"]
        self.sum = tensors["sum"].clone()


def quiet(folder=None, **options) -> Run:
    return Run(folder, device="cpu", show_progress=False, checkpoint_every=5, **options)


def steps_logged(folder) -> list[int]:
    return [json.loads(line)["step"] for line in (folder / "log.jsonl").read_text().splitlines()]


def test_it_logs_at_its_cadence_and_with_every_checkpoint(tmp_path):
    loop = Counting(quiet(tmp_path))
    loop.do_steps("Counting")
    assert loop.step == 10 and float(loop.sum) == 55
    assert steps_logged(tmp_path) == [4, 5, 8, 10]
    assert (tmp_path / "checkpoint.safetensors").exists()


def test_interrupted_it_saves_says_so_and_goes_on(tmp_path):
    with pytest.raises(UnseenError, match="stopped after step 7 of 10; resume it with the same settings"):
        Counting(quiet(tmp_path), interrupt=7).do_steps("Counting")
    again = Counting(quiet(tmp_path, resume=True))
    again.do_steps("Counting")
    assert float(again.sum) == 55 and again.begun == 7
    assert steps_logged(tmp_path) == [4, 5, 7, 8, 10]


def test_without_a_folder_nothing_is_kept():
    with pytest.raises(UnseenError, match="stopped after step 3 of 10; nothing is kept"):
        Counting(quiet(), interrupt=3).do_steps("Counting")


def test_fewer_steps_than_are_done_are_refused(tmp_path):
    Counting(quiet(tmp_path)).do_steps("Counting")
    with pytest.raises(
        UnseenError,
        match="has 10 steps already, more than the 5 asked for: ask for more, or overwrite it",
    ):
        Counting(quiet(tmp_path, resume=True), total=5).do_steps("Counting")


def test_a_checkpoint_of_something_else_is_refused(tmp_path):
    Counting(quiet(tmp_path)).do_steps("Counting")
    with pytest.raises(UnseenError, match="belongs to another training: what was counting, now guessing"):
        Counting(quiet(tmp_path, resume=True), identity="guessing").do_steps("Counting")


def test_a_loss_that_is_no_number_ends_it(tmp_path):
    loop = Counting(quiet(tmp_path))
    loop.sum = torch.tensor(torch.nan)
    with pytest.raises(UnseenError, match="the loss became nan by step 4: lower the learning rate"):
        loop.do_steps("Counting")


def test_a_process_can_be_alone_under_torchrun(monkeypatch):
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    alone = Processes("cpu", alone=True)
    assert (alone.rank, alone.world) == (0, 1) and alone.any(True)


def test_no_changed_bit_of_a_checkpoint_goes_unnoticed(tmp_path):
    identity, weight = {"method": "dgp", "seed": 0}, torch.arange(12.0)
    assert load_checkpoint(tmp_path, identity) is None
    save_checkpoint(tmp_path, {"weight": weight}, {"identity": identity, "step": 2})
    saved, content = load_checkpoint(tmp_path, identity), (tmp_path / CHECKPOINT).read_bytes()
    assert saved[1]["step"] == 2 and torch.equal(saved[0]["weight"], weight)
    for place in range(0, 8 * len(content), 5):
        changed = bytearray(content)
        changed[place // 8] ^= 1 << place % 8
        (tmp_path / CHECKPOINT).write_bytes(changed)
        with pytest.raises(UnseenError, match=r"checkpoint\.safetensors is damaged .*: overwrite it to start again"):
            load_checkpoint(tmp_path, identity)
