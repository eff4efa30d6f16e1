"""The user's assets are found, fetched and checked."""

from __future__ import annotations

import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest

from unseen import data as assets
from unseen.util.errors import UnseenError
from unseen.util.files import cache_folder, sha256


@pytest.fixture
def folders(tmp_path, monkeypatch):
    """An empty UNSEEN_ASSETS folder and an empty cache; one small known asset, served by nobody."""
    monkeypatch.setenv("UNSEEN_ASSETS", str(tmp_path / "mine"))
    monkeypatch.setenv("UNSEEN_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    (tmp_path / "mine").mkdir()
    (tmp_path / "origin").mkdir()
    (tmp_path / "origin" / "list.json").write_text("[1]")
    asset = assets.Asset("http://127.0.0.1:9/list.json", sha256(tmp_path / "origin" / "list.json"), 3, "a list")
    monkeypatch.setitem(assets.ASSETS, "list.json", asset)
    return tmp_path


@pytest.fixture
def server(folders, monkeypatch):
    """Serve the folder `origin` as the asset's home."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=folders / "origin")) as http:
        thread = threading.Thread(target=http.serve_forever)
        thread.start()
        known = assets.ASSETS["list.json"]
        url = f"http://127.0.0.1:{http.server_port}/list.json"
        monkeypatch.setitem(assets.ASSETS, "list.json", assets.Asset(url, known.sha256, known.bytes, known.what))
        yield folders
        http.shutdown()
        thread.join()


def test_named_folder_comes_first(folders):
    (folders / "cache" / "assets").mkdir(parents=True)
    (folders / "cache" / "assets" / "list.json").write_text("[1]")
    assert assets.fetch_asset("list.json") == folders / "cache" / "assets" / "list.json"
    (folders / "mine" / "list.json").write_text("[1]")
    assert assets.fetch_asset("list.json") == folders / "mine" / "list.json"


def test_missing_asset_says_where_to_get_it_and_where_to_put_it(folders):
    assert assets.find_asset("list.json") is None
    for download in (False, True):  # True: nothing listens at that address
        with pytest.raises(UnseenError, match=r"list.json.*http://127.0.0.1:9/list.json.*UNSEEN_ASSETS"):
            assets.fetch_asset("list.json", download=download)


def test_download_is_kept(server):
    path = assets.fetch_asset("list.json")
    assert path == server / "cache" / "assets" / "list.json" and path.read_text() == "[1]"
    (server / "origin" / "list.json").unlink()
    assert assets.fetch_asset("list.json") == path


def test_download_of_other_content_is_refused(server):
    (server / "origin" / "list.json").write_text("[2]")
    with pytest.raises(UnseenError, match=r"could not be downloaded.*UNSEEN_ASSETS"):
        assets.fetch_asset("list.json")
    assert assets.find_asset("list.json") is None


def test_wrong_checksum_on_disk(folders):
    (folders / "mine" / "list.json").write_text("[1, 2]")
    with pytest.raises(UnseenError, match=r"mine.list.json: not the expected file: sha256"):
        assets.fetch_asset("list.json")
    (folders / "mine" / "list.json").write_text("[1]")  # mended: the check is not remembered for the old content
    assert assets.fetch_asset("list.json") == folders / "mine" / "list.json"


def test_authors_lists_match_their_checksums(authors_lists, monkeypatch):
    monkeypatch.setenv("UNSEEN_ASSETS", str(authors_lists))
    for name in assets.ASSETS:
        if name.endswith(".json"):
            path = assets.fetch_asset(name, download=False)
            assert path.stat().st_size == assets.ASSETS[name].bytes


def test_cache_folder_that_cannot_be_made(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("UNSEEN_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(UnseenError, match="UNSEEN_CACHE"):
        cache_folder()
