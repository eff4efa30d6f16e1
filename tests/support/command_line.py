"""The command line in-process: exit status, both streams, and the one JSON object of `--json`."""

from __future__ import annotations

import json
from dataclasses import dataclass

from typer.testing import CliRunner

from unseen.apps.cli.app import app


@dataclass(frozen=True)
class Done:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict:
        """The object that --json promises: the only line on standard output."""
        (line,) = self.out.splitlines()
        return json.loads(line)


def run_command(*arguments: object, stdin: bytes | None = None) -> Done:
    """`run_command("train", "--out", path)`; a stack trace fails the test."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], input=stdin)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    done = Done(result.exit_code, result.stdout, " ".join(result.stderr.split()))
    assert "Traceback" not in done.err
    return done
