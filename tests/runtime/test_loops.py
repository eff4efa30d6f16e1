"""The loop that both stages share, on a training that only counts."""

from __future__ import annotations

import json
import os
import signal

import pytest
import torch

from unseen.errors import UnseenError
from unseen.runtime.loops import TrainingLoop
from unseen.runtime.processes import Processes
from unseen.runtime.run import Run


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
        return {"sum": self.sum}, {"told": self.step}

    def unpack(self, tensors, facts):
        assert facts["told"] == facts["step"]
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
    with pytest.raises(
        UnseenError, match="stopped after step 7 of 10; continue with resume=True and the same settings"
    ):
        Counting(quiet(tmp_path), interrupt=7).do_steps("Counting")
    again = Counting(quiet(tmp_path, resume=True))
    again.do_steps("Counting")
    assert float(again.sum) == 55 and again.begun == 7
    assert steps_logged(tmp_path) == [4, 5, 7, 8, 10]


def test_an_interruption_during_the_last_step_ends_it_as_usual(tmp_path):
    loop = Counting(quiet(tmp_path), interrupt=10)
    loop.do_steps("Counting")
    assert loop.step == 10


def test_without_a_folder_nothing_is_kept():
    with pytest.raises(UnseenError, match="stopped after step 3 of 10; nothing is kept") as raised:
        Counting(quiet(), interrupt=3).do_steps("Counting")
    assert raised.value.arguments == ()


def test_it_may_end_early(tmp_path):
    class Enough(Counting):
        def is_enough(self):
            return self.step == 6

    loop = Enough(quiet(tmp_path))
    loop.do_steps("Counting")
    assert loop.step == 6


def test_fewer_steps_than_are_done_are_refused(tmp_path):
    Counting(quiet(tmp_path)).do_steps("Counting")
    with pytest.raises(
        UnseenError, match="has 10 steps already, more than the 5 asked for: ask for more, or start again"
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
