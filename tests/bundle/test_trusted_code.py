"""A bundle that names a module of somebody's: nothing of it is imported unless the user says so."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import unseen
from support.bundles import small_photo
from support.tiny_network import make_bundle, make_photos
from unseen.apps.cli.app import COMMANDS, load_command
from unseen.bundle import Bundle
from unseen.model import Model
from unseen.networks import custom
from unseen.util.errors import UnseenError

NETWORK = """
from pathlib import Path
Path("imported").touch()

def build():
    from support.tiny_network import build
    return build("own_network:build")
"""
LOADING = {"classify", "serve", "evaluate", "calibrate", "features", "finetune", "add", "teach", "export"}


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """A bundle whose network is made by a module that lies beside it, and that no process has asked for yet."""
    (tmp_path / "own_network.py").write_text(NETWORK)
    bundle = make_bundle()
    replace(bundle, network=replace(bundle.network, name="own_network:build")).save(tmp_path / "bundle")
    small_photo().save(tmp_path / "photo.png")
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    sys.modules.pop("own_network", None)
    custom._imported.discard("own_network:build")


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own, as a user runs it."""
    return subprocess.run([sys.executable, "-m", "unseen", *arguments], capture_output=True, text=True, timeout=120)


@pytest.mark.slow
def test_a_command_imports_nothing_unless_trusted(folder):
    classify = ("classify", "photo.png", "--bundle", "bundle", "--json")
    refused = run(*classify)
    assert refused.returncode == 1 and not (folder / "imported").exists()
    assert "bundle bundle names the network own_network:build" in refused.stderr
    assert str(folder / "own_network.py") in refused.stderr and "--trust-code" in refused.stderr

    trusted = run(*classify, "--trust-code")
    assert trusted.returncode == 0, trusted.stderr
    assert f"Importing own_network from {folder / 'own_network.py'}." in trusted.stderr
    assert (folder / "imported").exists()


def test_a_name_from_python_itself_is_not_called(folder):
    """`os:abort` would end the process, and the tests with it."""
    bundle = make_bundle()
    replace(bundle, network=replace(bundle.network, name="os:abort")).save("abort")
    model = unseen.load("abort")
    with pytest.raises(UnseenError, match=f"import os from {os.__file__}"):
        model.classify("photo.png")
    for name in ("sys:exit", "..:x", "a b:c", "a\0b:c", "/etc/x:y"):
        renamed = replace(model.bundle, network=replace(bundle.network, name=name))
        for trusted in (False, True):
            with pytest.raises(UnseenError, match=r"bundle abort names the network .*, but there is no Python module"):
                renamed.load_network(trusted)


def test_by_python(folder, caplog):
    caplog.set_level("INFO")
    with pytest.raises(UnseenError, match="pass trust_code=True"):
        unseen.load("bundle").classify("photo.png")
    photos = make_photos(folder / "photos", a_class=1)
    with pytest.raises(UnseenError, match="pass trust_code=True"):
        Model(Bundle.load("bundle")).calibrate(photos)
    with pytest.raises(UnseenError, match="pass trust_code=True"):
        unseen.load(Bundle.load("bundle").change(seed=1)).finetune(photos)  # a change of it is trusted no more
    assert not (folder / "imported").exists()
    assert len(unseen.load("bundle", trust_code=True).classify("photo.png")) == 5
    assert f"Importing own_network from {folder / 'own_network.py'}." in caplog.text
    assert (folder / "imported").exists()


def test_a_network_that_the_user_names_needs_no_more_trust(folder):
    network = unseen.load_network("own_network:build")
    assert len(unseen.load("bundle", network).classify("photo.png")) == 5
    assert len(unseen.load("bundle").classify("photo.png")) == 5  # the same code ran already, as it was asked to


@pytest.mark.parametrize("name", sorted(LOADING | {"info"}))
def test_every_command_that_loads_a_bundle_has_the_option(name):
    assert name in COMMANDS
    assert any("--trust-code" in parameter.opts for parameter in load_command(name).params)
