"""`unseen info`, and what all commands have in common."""

from __future__ import annotations

from pathlib import Path

import pytest

import unseen as import_unseen
from unseen.apps.cli.app import COMMANDS


def test_the_installation(unseen):
    found = unseen("info", "--json").json
    assert found["versions"]["torch"] and "cpu" in found["devices"]
    assert found["data"] and all(entry["intact"] and entry["licence"] for entry in found["data"])
    assert "Optional parts" in unseen("info").out


def test_a_bundle(here, unseen):
    found = unseen("info", "bundle", "--json").json
    assert (found["method"], found["nodes"], found["classes"], found["seen"]) == ("kin", 43, 43, 6)
    assert found["network"]["name"] == "cli_networks:build" and found["added"] == []
    assert "43 of 43 nodes; 6 seen" in unseen("info", "bundle").out
    done = unseen("info", "none")
    assert done.code == 1 and "none is not a bundle" in done.err


def test_a_damaged_bundle_is_refused(here, unseen):
    content = Path("bundle").read_bytes()
    Path("bundle").write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    done = unseen("info", "bundle")
    assert done.code == 1 and "bundle is damaged (its checksum differs)" in done.err


def test_every_command_has_help_with_examples(unseen):
    done = unseen("--help")
    assert done.code == 0 and len(COMMANDS) > 8
    for name in ("train", "classify", "add", "export", "info"):
        assert name in done.out
        help_text = unseen(name, "--help")
        assert help_text.code == 0 and "Examples" in help_text.out
    assert unseen("hierarchy", "check", "--help").code == 0


@pytest.mark.parametrize("arguments", [(), ("frobnicate",), ("train", "--frobnicate")])
def test_wrong_usage_is_exit_2(unseen, arguments):
    assert unseen(*arguments).code == 2


def test_the_cache_is_listed_and_cleared(unseen, tmp_path, monkeypatch):
    monkeypatch.setenv("UNSEEN_CACHE", str(tmp_path / "cache"))
    for part in ("assets", "bundles", "features"):
        (tmp_path / "cache" / part).mkdir(parents=True)
        (tmp_path / "cache" / part / "file").write_bytes(bytes(1000))
    found = unseen("info", "--cache", "--json").json
    assert found["parts"] == [{"name": name, "bytes": 1000} for name in ("assets", "bundles", "features")]
    assert unseen("info", "--clear", "features", "--json").json["cleared"] == 1000
    again = unseen("info", "--clear", "features", "--json")
    assert "has no features; there are: assets, bundles" in again.json["error"]
    assert unseen("info", "--clear", "../cache").code == 1
    done = unseen("info", "--clear", "all", "--json").json
    assert [part["name"] for part in done["parts"]] == ["assets"] and done["cleared"] == 1000
    assert "assets" in unseen("info", "--cache").out


def test_what_a_report_of_a_fault_needs(unseen, monkeypatch):
    monkeypatch.setenv("UNSEEN_THING", "x")
    monkeypatch.setenv("UNSEEN_TOKEN", "hush")
    about = unseen("info", "--json").json["environment"]
    assert about["variables"]["UNSEEN_THING"] == "x" and about["variables"]["UNSEEN_TOKEN"] == "(set)"
    assert "hush" not in unseen("info").out
    assert about["cpus"] >= 1 and about["torch_build"]


@pytest.mark.slow
def test_the_default_bundle_has_a_name_everywhere(unseen, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert unseen("info", "default", "--json").json["seen"] == 1000
    done = unseen("teach", "default", "--features", "none.npz", "--out", "mine")
    assert done.code == 1 and "none.npz" in done.err
    assert len(import_unseen.load("default").classes) == len(import_unseen.load().classes)
