"""`unseen serve` on the command line: what goes wrong is told in one line."""

from __future__ import annotations

import socket

from support.command_line import run_command


def test_a_port_in_use_is_told_before_anything_is_loaded():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        number = taken.getsockname()[1]
        result = run_command("serve", "nowhere", "--port", str(number))
    assert result.code == 1 and f"port {number} is in use" in result.err


def test_what_is_not_a_bundle(tmp_path):
    result = run_command("serve", str(tmp_path / "nowhere"))
    assert result.code == 1 and "is not a bundle" in result.err


def test_help_has_examples():
    result = run_command("serve", "--help")
    assert result.code == 0 and "unseen serve default my-bundle --port 9000" in result.out
