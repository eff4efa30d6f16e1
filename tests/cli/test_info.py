"""`unseen info`, and what all commands have in common."""

from __future__ import annotations

from pathlib import Path

import pytest

from unseen.cli.app import COMMANDS


def test_the_installation(unseen):
    found = unseen("info", "--json").json
    assert found["versions"]["torch"] and "cpu" in found["devices"]
    assert found["data"] and all(entry["intact"] and entry["licence"] for entry in found["data"])
    assert "Optional parts" in unseen("info").out


def test_a_bundle(here, unseen):
    found = unseen("info", "bundle", "--json").json
    assert (found["method"], found["nodes"], found["classes"], found["seen"]) == ("kin", 43, 43, 6)
    assert found["backbone"]["name"] == "cli_networks:build" and found["added"] == []
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
    for name in ("train", "classify", "add", "remove", "rename", "export", "info"):
        assert name in done.out
        help_text = unseen(name, "--help")
        assert help_text.code == 0 and "Examples" in help_text.out
    assert unseen("taxonomy", "check", "--help").code == 0


@pytest.mark.parametrize("arguments", [(), ("frobnicate",), ("train", "--frobnicate")])
def test_wrong_usage_is_exit_2(unseen, arguments):
    assert unseen(*arguments).code == 2
