"""`unseen serve` on the command line: what goes wrong is told in one line."""

from __future__ import annotations

import socket

from typer.testing import CliRunner

import unseen.cli.serve  # noqa: F401  registers the command
from unseen.cli.app import app


def run(*arguments: str):
    return CliRunner().invoke(app, ["serve", *arguments])


def test_a_port_in_use_is_told_before_anything_is_loaded():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        number = taken.getsockname()[1]
        result = run("nowhere", "--port", str(number))
    assert result.exit_code == 1 and f"port {number} is in use" in result.stderr


def test_what_is_not_a_bundle(tmp_path):
    result = run(str(tmp_path / "nowhere"))
    assert result.exit_code == 1 and "is not a bundle" in result.stderr and "Traceback" not in result.stderr


def test_help_has_examples():
    result = run("--help")
    assert result.exit_code == 0 and "unseen serve default my-bundle --port 9000" in result.stdout
