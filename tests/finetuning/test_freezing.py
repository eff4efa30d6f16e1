"""What is to stay, stays."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from support.finetuning import QUICK, tune
from support.tiny_network import build
from unseen.backbones import load_backbone
from unseen.errors import UnseenError
from unseen.finetuning.freezing import freeze, stages


def test_frozen_batch_norm_stays(folder):
    before, tuned = build().weights(), tune(folder, settings=replace(QUICK, freeze_batch_norm=True))
    norms = ("norm.", "blocks.0.1.", "blocks.1.1.")
    for name, weight in before.items():
        same = np.array_equal(tuned.network[name], weight.numpy())
        assert same == name.startswith(("last.", *norms)), name


def test_frozen_stages_stay(folder):
    """The stem with its batch-norm, then the first block."""
    before, tuned = build().weights(), tune(folder, settings=replace(QUICK, freeze_stages=2))
    for name, weight in before.items():
        same = np.array_equal(tuned.network[name], weight.numpy())
        assert same == name.startswith(("stem.", "norm.", "blocks.0.", "last.")), name


def test_all_stages_but_the_last_stay(folder):
    before, tuned = build().weights(), tune(folder, settings=replace(QUICK, freeze_stages=-1))
    moved = {name for name, weight in before.items() if not np.array_equal(tuned.network[name], weight.numpy())}
    assert moved and all(name.startswith(f"blocks.{len(build().module.blocks) - 1}.") for name in moved)


def test_stages_of_the_built_in_network():
    """The stem, seven stages and the head, each with its batch-norm; nothing is left when all are frozen."""
    backbone = load_backbone()
    assert len(stages(backbone)) == 9
    counted = sum(p.numel() for stage in stages(backbone) for module in stage for p in module.parameters())
    last = sum(p.numel() for p in backbone.get_classifier().parameters())
    assert counted + last == sum(p.numel() for p in backbone.parameters())
    with pytest.raises(UnseenError, match="it has 9"):
        freeze(backbone, 9, batch_norm=False)
