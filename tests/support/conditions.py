"""What some tests need of the machine."""

from __future__ import annotations

import os

import pytest

needs_proc = pytest.mark.skipif(
    not os.path.isdir("/proc/self"), reason="no /proc: there is no folder that nobody may write to"
)
