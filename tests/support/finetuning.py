"""Stage 2 of a tiny network on photos of noise, in a second."""

from __future__ import annotations

import os
import signal
from dataclasses import replace

import numpy as np
import pytest

from support.tiny_network import build, make_bundle
from unseen.bundle import Bundle
from unseen.model import Model
from unseen.training.settings import FinetuneSettings
from unseen.training.stage2 import Stage2, finetune
from unseen.util.run import Run

QUICK = FinetuneSettings(epochs=3, batch=8, learning_rate=0.02)
QUICK_OPTIONS = ["--epochs", "3", "--batch", "8", "--learning-rate", "0.02"]


def tune(folder, out=None, settings=QUICK, run=None, bundle=None, workers=0, network=None, **options) -> Bundle:
    run = replace(run or Run(show_progress=False), workers=workers)
    model = Model(bundle or make_bundle(), network, device="cpu")
    return finetune(model.bundle, model.network, folder, settings, out=out, run=run, **options)


def assert_same_weights(one: Bundle, other: Bundle) -> None:
    assert one.network_weights.keys() == other.network_weights.keys()
    for name, weight in one.network_weights.items():
        np.testing.assert_array_equal(weight, other.network_weights[name], err_msg=name)


def assert_close_weights(one: Bundle, other: Bundle) -> None:
    """Equal but for the order of sums, and far closer than the way that they went."""
    start = build().weights()
    for name, weight in one.network_weights.items():
        np.testing.assert_allclose(weight, other.network_weights[name], rtol=1e-4, atol=1e-6, err_msg=name)
    moved = max(np.abs(one.network_weights[name] - start[name].numpy()).max() for name in start)
    assert moved > 1e-2


def interrupt_at(step: int, patch: pytest.MonkeyPatch) -> None:
    """Ctrl-C in the middle of a step."""
    update = Stage2.update

    def update_and_interrupt(self, batch):
        if self.step == step:
            os.kill(os.getpid(), signal.SIGINT)
        return update(self, batch)

    patch.setattr(Stage2, "update", update_and_interrupt)
