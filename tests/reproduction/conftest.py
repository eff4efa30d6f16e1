from __future__ import annotations

import csv
from dataclasses import replace

import pytest

from support.problems import PARENTS, SEEN
from support.tables import LISTS, write_photos
from unseen.reproduction.levels import Level, find_level


@pytest.fixture(scope="session")
def level(tmp_path_factory) -> Level:
    """The photos level on twelve classes, five of them seen."""
    folder = tmp_path_factory.mktemp("data")
    with open(folder / "classes.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "name", "parents"])
        writer.writerows([id, id, "|".join(parents)] for id, parents in PARENTS.items())
    write_photos(folder / "unseen", LISTS["2-hops"])
    write_photos(folder / "seen-train", SEEN)
    write_photos(folder / "seen-val", SEEN, 1)
    level = find_level(folder)
    return replace(level, graph=str(folder / "classes.csv"), backbone="support.tiny_network:build", has_lists=True)


@pytest.fixture(scope="module")
def small_lists():
    """Lists of these classes instead of the authors'."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("unseen.scoring.candidates.paper_list", lambda name: LISTS[name])
        yield
