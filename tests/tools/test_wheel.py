"""The wheel, built and run outside the repository, in an environment that has its dependencies but not the sources."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

from support.bundles import small_photo

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[2]


def run(*command: object, cwd: Path) -> str:
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run([str(part) for part in command], cwd=cwd, env=clean, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def python(tmp_path_factory) -> Path:
    """An environment with the wheel installed; all else it borrows from this one, but for unseen's sources."""
    pytest.importorskip("hatchling", reason="the wheel is built without a network")
    folder, pip = tmp_path_factory.mktemp("wheel"), (sys.executable, "-m", "pip")
    run(*pip, "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", folder, ROOT, cwd=folder)
    (wheel,) = folder.glob("unseen-*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert "unseen/py.typed" in names and not [name for name in names if name.startswith(("tests", "tools", "src"))]
    venv.create(folder / "env", with_pip=False)
    python = folder / "env" / ("Scripts" if os.name == "nt" else "bin") / "python"
    site = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=folder).strip())
    borrowed = folder / "borrowed"
    borrowed.mkdir()
    for item in Path(sysconfig.get_path("purelib")).iterdir():
        if not item.name.startswith(("unseen", "_unseen", "__editable__")) and item.suffix != ".pth":
            (borrowed / item.name).symlink_to(item)
    (site / "borrowed.pth").write_text(f"{borrowed}\n")
    run(*pip, "--python", python, "install", "--quiet", "--no-deps", wheel, cwd=folder)
    return python


def test_it_works_outside_the_repository(python, tmp_path):
    place = run(python, "-c", "import unseen; print(unseen.__file__)", cwd=tmp_path).strip()
    assert not Path(place).is_relative_to(ROOT) and "env" in Path(place).parts
    small_photo().save(tmp_path / "photo.png")
    command = python.with_name("unseen.exe" if os.name == "nt" else "unseen")
    assert '"labels"' in run(command, "classify", "photo.png", "--json", cwd=tmp_path)
    run(command, "info", "--json", cwd=tmp_path)
    assert "unseen 0." in run(command, "--version", cwd=tmp_path)
