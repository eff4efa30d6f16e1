"""The site builds without a warning, loads nothing from elsewhere, and documents every public name and command."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from html import unescape
from pathlib import Path

import pytest

import unseen
from unseen.apps.cli.app import COMMANDS

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    pytest.importorskip("mkdocstrings", reason="the extra `docs` is not installed")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "WARNING" not in done.stdout + done.stderr
    return folder


def pages(site: Path) -> dict[str, str]:
    return {str(path.relative_to(site)): path.read_text(encoding="utf-8") for path in sorted(site.rglob("*.html"))}


def test_every_public_name_has_an_entry(site):
    reference = "".join(text for name, text in pages(site).items() if name.startswith("reference"))
    missing = [name for name in unseen.__all__ if f'id="unseen.{name}"' not in reference]
    assert missing == ["__version__"]


def test_every_command_is_described(site):
    page = (site / "reference" / "commands.html").read_text(encoding="utf-8")
    described = set(re.findall(r'<h2 id="([a-z]+)', page))
    assert described == set(COMMANDS)


def test_nothing_is_loaded_from_elsewhere(site):
    """Links may lead away; scripts, styles, fonts and pictures must be the site's own."""
    for name, text in pages(site).items():
        loaded = re.findall(r'<(?:script|img|source|iframe)[^>]*\ssrc="([^"]+)"', text)
        loaded += re.findall(r'<link[^>]*rel="(?:stylesheet|icon|preconnect|preload)"[^>]*href="([^"]+)"', text)
        loaded += re.findall(r'<link[^>]*href="([^"]+)"[^>]*rel="(?:stylesheet|icon|preconnect|preload)"', text)
        assert [one for one in loaded if re.match(r"(https?:)?//", one)] == [], name


def test_it_works_from_the_file_system(site):
    """Links name files, and what they name is there."""
    for name, text in pages(site).items():
        if name == "404.html":  # its links are absolute: a server shows it anywhere
            continue
        for link in re.findall(r'(?:href|src)="([^"#?]+)[^"]*"', text):
            link = unescape(link)
            if not re.match(r"[a-z]+:", link):
                target = (site / name).parent / link
                assert target.is_file(), f"{name}: {link}"
