"""Finetunings that train the last stage alone share what the stages before it make of the photos."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from support.finetuning import QUICK, assert_same_weights, interrupt_at, tune
from support.problems import SEEN
from support.tiny_network import SIZE, TinyNetwork, make_bundle
from unseen.backbones import Backbone, PhotoTransform, load_backbone
from unseen.backbones.inference import quick_trunk
from unseen.errors import UnseenError
from unseen.finetuning.frozen_batches import BLOCK, can_share
from unseen.finetuning.training_data import TrainingPhotos
from unseen.runtime.run import Run

LAST = replace(QUICK, freeze_stages=-1, epochs=8)  # 40 steps: two blocks


class CutNetwork(TinyNetwork):
    """The tiny network with the protocol of the built-in ones."""

    def forward_trunk(self, x: Tensor) -> Tensor:
        return self.blocks[0](self.norm(self.stem(x)))

    def forward_last_stage(self, x: Tensor) -> Tensor:
        return self.blocks[1](x)

    def forward_features(self, x: Tensor) -> Tensor:
        return self.forward_last_stage(self.forward_trunk(x))

    def forward_head(self, x: Tensor, pre_logits: bool = False) -> Tensor:
        x = x.mean((2, 3))
        return x if pre_logits else self.last(x)

    def get_classifier(self) -> torch.nn.Linear:
        return self.last

    def trunk_for_inference(self):
        return quick_trunk(self, 4)


def build() -> Backbone:
    with torch.random.fork_rng([]):
        torch.manual_seed(0)
        return Backbone(CutNetwork(), SEEN, PhotoTransform(SIZE), name="cut")


def tune_cut(folder, shared=None, out=None, seed: int = 0, resume: bool = False, classifiers_of: str = "dgp"):
    backbone = build()
    bundle = make_bundle(backbone)
    if classifiers_of != "dgp":
        bundle.solution.classifiers[:] = bundle.solution.classifiers[::-1].copy()
    run = Run(seed=seed, resume=resume, show_progress=False)
    return tune(folder, out, LAST, run, bundle, backbone=backbone, shared=shared)


def forbid_photos(patch: pytest.MonkeyPatch) -> None:
    def refuse(self, key):
        raise AssertionError("a photo was read")

    patch.setattr(TrainingPhotos, "__getitem__", refuse)


def test_shared_batches_train_as_photos_do(folder, tmp_path):
    """But for half precision between trunk and last stage."""
    plain, shared = tune_cut(folder), tune_cut(folder, tmp_path)
    start = build().weights()
    for name, weight in plain.network.items():
        moved = np.abs(weight - start[name].numpy()).max()
        assert np.abs(shared.network[name] - weight).max() <= 0.02 * moved + 1e-7, name
    assert any(not np.array_equal(plain.network[name], start[name].numpy()) for name in start)


def test_the_second_bundle_reads_no_photo(folder, tmp_path, monkeypatch):
    tune_cut(folder, tmp_path)
    expected = tune_cut(folder, tmp_path / "apart", classifiers_of="another method")
    forbid_photos(monkeypatch)
    assert_same_weights(tune_cut(folder, tmp_path, classifiers_of="another method"), expected)


def test_another_seed_has_batches_of_its_own(folder, tmp_path, monkeypatch):
    tune_cut(folder, tmp_path)
    forbid_photos(monkeypatch)
    with pytest.raises(AssertionError, match="a photo was read"):
        tune_cut(folder, tmp_path, seed=1)


@pytest.mark.parametrize("step", [3, BLOCK + 3])
def test_an_interrupted_run_goes_on_in_the_middle_of_a_block(folder, tmp_path, step):
    expected = tune_cut(folder, tmp_path / "whole")
    with pytest.MonkeyPatch.context() as patch:
        interrupt_at(step, patch)
        with pytest.raises(UnseenError, match="stopped after step"):
            tune_cut(folder, tmp_path / "parts", tmp_path / "out")
    assert_same_weights(tune_cut(folder, tmp_path / "parts", tmp_path / "out", resume=True), expected)


def test_a_damaged_block_is_made_again(folder, tmp_path):
    expected = tune_cut(folder, tmp_path)
    file = next(tmp_path.rglob("checkpoint.safetensors"))
    content = bytearray(file.read_bytes())
    content[-100] ^= 1
    file.write_bytes(content)
    assert_same_weights(tune_cut(folder, tmp_path), expected)


def test_which_networks_can_be_cut():
    backbone = load_backbone()
    assert can_share(backbone, -1) and can_share(backbone, 8)
    assert not can_share(backbone, 0) and not can_share(backbone, 7)
    x = torch.rand(2, 3, 64, 64)
    with torch.no_grad():
        whole = backbone.module.forward_last_stage(backbone.module.trunk_for_inference()(x))
        torch.testing.assert_close(whole, backbone.forward_features(x), rtol=1e-3, atol=1e-3)
