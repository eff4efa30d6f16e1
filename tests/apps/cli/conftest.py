"""A user's folder to run commands in."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from support.bundles import SEEN, UNSEEN, small_photo
from support.command_line import run_command
from unseen.hierarchy.core import Hierarchy

NETWORK = """
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, num_classes=6):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, stride=2)
        self.head = nn.Linear(8, num_classes)

    def forward(self, x):
        return self.head(torch.relu(self.stem(x)).mean((2, 3)))


def build():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return Net()
"""


@pytest.fixture(scope="session")
def unseen():
    """`unseen("train", "--out", path)` runs the command; a stack trace fails the test."""
    return run_command


@pytest.fixture(scope="session")
def workshop(tmp_path_factory, unseen) -> Path:
    """A user's folder: a network in a module, its classes, a hierarchy, a photo, and a bundle trained from them."""
    folder = tmp_path_factory.mktemp("workshop")
    (folder / "cli_networks.py").write_text(NETWORK)
    (folder / "classes.txt").write_text("\n".join(SEEN) + "\n")
    small_photo().save(folder / "photo.png")
    hierarchy = Hierarchy.imagenet().subgraph([*SEEN, *UNSEEN])
    rows = [f"{i},{hierarchy.name(i)},{'|'.join(hierarchy.parents(i))}" for i in hierarchy.ids]
    (folder / "tree.csv").write_text("\n".join(["id,name,parent", *rows]) + "\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        done = unseen(
            "train", "--hierarchy", "tree.csv", "--vectors", "glove", "--network", "cli_networks:build",
            "--classes", "classes.txt", "--out", "bundle", "--json",
        )  # fmt: skip
    assert done.code == 0, done.err
    assert done.json["bundle"] == "bundle" and done.json["seen"] == 6
    return folder


@pytest.fixture
def here(workshop, tmp_path, monkeypatch) -> Path:
    """A copy of the workshop of one's own, as the current folder."""
    shutil.copytree(workshop, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path
