"""The command line: one module for each command, which parses, calls the library and prints."""

from unseen.apps.cli.app import JsonFlag, command, emit, main, stdout
from unseen.apps.cli.options import Device, Workers

__all__ = ["Device", "JsonFlag", "Workers", "command", "emit", "main", "stdout"]
