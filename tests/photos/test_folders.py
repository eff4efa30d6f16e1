"""Folders of photos, as users have them."""

from __future__ import annotations

from pathlib import Path

import pytest

from unseen.photos import find_photos, list_classes, list_photos
from unseen.util.errors import UnseenError


def test_list_photos_is_sorted_and_streams(tmp_path):
    for name in (
        "n02/b.jpg",
        "n02/a.PNG",
        "n02/no-extension",
        "n01/z.jpg",
        ".git/x.jpg",
        "n02/.hidden.jpg",
        "stray.jpg",
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "n00").mkdir()
    (tmp_path / "n02" / "folder").mkdir()
    (tmp_path / "n02" / "loop.jpg").symlink_to("loop.jpg")
    (tmp_path / "n02" / "gone.jpg").symlink_to("nowhere")
    (tmp_path / "circle").symlink_to("circle")
    (tmp_path / "n03").symlink_to(tmp_path / "n01")
    assert list_classes(tmp_path) == ["n00", "n01", "n02", "n03"]
    photos = [f"{photo.class_id} {photo.path.relative_to(tmp_path)}" for photo in list_photos(tmp_path)]
    n02 = [f"n02 n02/{name}" for name in ("a.PNG", "b.jpg", "gone.jpg", "loop.jpg", "no-extension")]
    assert photos == ["n01 n01/z.jpg", *n02, "n03 n03/z.jpg"]
    assert [photo.class_id for photo in list_photos(tmp_path, {"n01", "n99"})] == ["n01"]


def test_a_wrong_folder_is_refused_where_it_is_named(tmp_path):
    (tmp_path / "photo.jpg").touch()
    for folder, reason in (
        (tmp_path / "none", "No such"),
        (tmp_path / "photo.jpg", "Not a dir"),
        (tmp_path, "<class id>"),
    ):
        with pytest.raises(UnseenError, match=reason):
            list_photos(folder)


def test_find_photos(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("many/deep/b.png", "many/a.png", "many/.hidden", "odd[1].png"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert find_photos("many") == [Path("many/a.png"), Path("many/deep/b.png")]
    assert find_photos(tmp_path / "many") == [tmp_path / "many/a.png", tmp_path / "many/deep/b.png"]
    assert find_photos("many/**/*.png") == [Path("many/a.png"), Path("many/deep/b.png")]
    assert find_photos("many/*") == [Path("many/a.png")]  # only files
    assert find_photos("odd[1].png") == [Path("odd[1].png")]  # a file of that very name
    assert find_photos("none.png") == [Path("none.png")]  # for the reader to report
    (tmp_path / "empty").mkdir(), (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "readme.txt").touch()
    for place, reason in (
        ("empty", "the folder contains no files"),
        ("notes", "the folder contains no photos"),
        ("*.bmp", r"\*\.bmp: no file matches"),
    ):
        with pytest.raises(UnseenError, match=reason):
            find_photos(place)
