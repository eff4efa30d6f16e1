"""Checkpoints that are not what was written."""

from __future__ import annotations

import torch

from unseen.runtime.checkpoints import CHECKPOINT, load_checkpoint, save_checkpoint

IDENTITY = {"method": "dgp", "seed": 0}


def save(folder, step: int) -> None:
    save_checkpoint(folder, {"weight": torch.arange(12.0) + step}, {"identity": IDENTITY, "step": step})


def test_a_changed_bit_is_told_and_the_one_before_is_used(tmp_path):
    save(tmp_path, 1)
    save(tmp_path, 2)
    whole, told = (tmp_path / CHECKPOINT).read_bytes(), []
    assert load_checkpoint(tmp_path, IDENTITY, told.append).facts["step"] == 2 and told == []
    for place in range(0, 8 * len(whole), 5):
        changed = bytearray(whole)
        changed[place // 8] ^= 1 << place % 8
        (tmp_path / CHECKPOINT).unlink()
        (tmp_path / CHECKPOINT).write_bytes(changed)
        told.clear()
        found = load_checkpoint(tmp_path, IDENTITY, told.append)
        assert found.facts["step"] == 2 - len(told), place
        assert torch.equal(found.tensors["weight"], torch.arange(12.0) + found.facts["step"]), place
        assert all(CHECKPOINT in sentence and "is damaged" in sentence for sentence in told)
