"""The package imports on systems that lack what only Unix has."""

from __future__ import annotations

import subprocess
import sys

import pytest

IMPORT_ALL = """
import os, pkgutil, sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name in ("resource", "fcntl"):
            raise ModuleNotFoundError(f"no {name} here", name=name)

sys.meta_path.insert(0, Missing())
for name in ("sched_getaffinity", "fork", "getuid", "geteuid", "mkfifo"):
    delattr(os, name)
import unseen
for module in pkgutil.walk_packages(unseen.__path__, "unseen."):
    if module.name != "unseen.__main__":
        __import__(module.name)
from unseen.util.devices import cpu_count, peak_memory_mb
assert peak_memory_mb() is None and cpu_count() >= 1
print(len([name for name in sys.modules if name.startswith("unseen.")]))
"""


@pytest.mark.slow
def test_every_module_imports_without_unix():
    done = subprocess.run([sys.executable, "-c", IMPORT_ALL], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 100
