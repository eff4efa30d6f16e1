from .app import JsonFlag, command, main
from .options import Device, Workers
from .output import emit, print_table, stdout

__all__ = [
    "Device",
    "JsonFlag",
    "Workers",
    "command",
    "emit",
    "main",
    "print_table",
    "stdout",
]
