from .app import JsonFlag, command, emit, main, stdout
from .options import Device, Workers

__all__ = [
    "Device",
    "JsonFlag",
    "Workers",
    "command",
    "emit",
    "main",
    "stdout",
]
