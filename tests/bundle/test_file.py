"""A bundle on disk: what is saved is loaded, any damage is noticed, and nothing of the user's is lost."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file

from support.bundles import DOG, OKAPI, SEEN
from unseen.bundle import Bundle, file
from unseen.bundle.file import bundle_checksum, is_bundle, training_folder
from unseen.hierarchy.core import Hierarchy
from unseen.methods.projections import Linear
from unseen.util.errors import UnseenError


def test_what_is_saved_is_what_is_loaded(bundle, kept):
    again = Bundle.load(kept)
    assert again.ids == bundle.ids and again.seen_ids == list(SEEN)
    for name in ("classifiers", "trust"):
        assert np.array_equal(getattr(again.solution, name), getattr(bundle.solution, name))
    assert again.solution.answers is None
    assert again.solution.state.keys() == bundle.solution.state.keys()
    assert all(np.array_equal(again.solution.state[key], value) for key, value in bundle.solution.state.items())
    assert np.array_equal(again.known, bundle.known) and np.array_equal(again.vectors.matrix, bundle.vectors.matrix)
    assert again.header() == bundle.header()
    assert again.network == bundle.network and again.method == "kin" and again.log == bundle.log
    assert again.hierarchy.definition(OKAPI) == Hierarchy.wordnet().definition(OKAPI)
    assert again.vectors.coverage.zero == bundle.vectors.coverage.zero
    assert again.vectors.coverage.zero_by_part == bundle.vectors.coverage.zero_by_part


def test_a_bundle_of_every_part_survives(bundle, tmp_path):
    full = replace(
        bundle,
        solution=replace(
            bundle.solution,
            answers=np.arange(len(bundle)) % 2 == 0,
            record=replace(bundle.solution.record, extra={"unreadable": ["\udcff.png"]}),  # a name that is not Unicode
        ),
        network_weights={"a": np.ones((2, 3), np.float32), "step": np.array(7)},
        added=[OKAPI],
        connecting=[DOG],
        log=[{"epoch": 1, "loss": 0.5}],
    )
    again = Bundle.load(full.save(tmp_path / "full"))
    assert np.array_equal(again.solution.answers, full.solution.answers)
    assert np.array_equal(again.network_weights["a"], full.network_weights["a"])
    assert again.network_weights["step"].shape == () and again.network_weights["step"] == 7
    assert (again.added, again.connecting, again.log) == ([OKAPI], [DOG], [{"epoch": 1, "loss": 0.5}])
    assert again.solution.record.extra["unreadable"] == ["\udcff.png"]


def test_half_precision_halves_the_classifiers_and_stays_so(bundle, tmp_path):
    half = Bundle.load(bundle.save(tmp_path / "half", "fp16"))
    bundle.precision = "fp32"
    assert load_file(tmp_path / "half")["classifiers"].dtype == np.float16
    assert half.solution.classifiers.dtype == np.float16
    assert np.allclose(half.solution.classifiers, bundle.solution.classifiers, atol=1e-3)
    half.save(tmp_path / "again")
    assert load_file(tmp_path / "again")["classifiers"].dtype == np.float16
    with pytest.raises(UnseenError, match="fp32 or fp16, not 'int8'"):
        bundle.save(tmp_path / "no", "int8")
    bundle.precision = "fp32"


def test_what_overflows_in_half_precision_is_not_saved(bundle, tmp_path):
    large = replace(bundle, solution=replace(bundle.solution, classifiers=bundle.solution.classifiers * 1e6))
    with pytest.raises(UnseenError, match="not finite in fp16"):
        large.save(tmp_path / "large", "fp16")
    assert list(tmp_path.iterdir()) == []


def test_any_reader_of_safetensors_opens_it(bundle, kept):
    arrays = load_file(kept)
    assert np.array_equal(arrays["classifiers"], bundle.solution.classifiers)
    assert json.loads(arrays["classes"].tobytes())["seen"] == list(SEEN)
    with safe_open(kept, "numpy") as opened:
        assert json.loads(opened.metadata()["records"])["method"] == "kin"


# -- damage ----------------------------------------------------------------------------------------------------------


def test_no_changed_byte_goes_unnoticed(saved):
    """Of the start every byte, of the rest some."""
    content, rng = saved.read_bytes(), np.random.default_rng(0)
    for place in [*range(200), *rng.integers(200, len(content), 200), len(content) - 1]:
        changed = bytearray(content)
        changed[place] ^= 1 << int(rng.integers(8))
        saved.write_bytes(changed)
        with pytest.raises(UnseenError, match=r"is damaged"):
            Bundle.load(saved)
    saved.write_bytes(content)
    Bundle.load(saved)


@pytest.mark.parametrize("size", [-1, -100, 5000, 120, 50, 0])
def test_a_truncated_file_is_refused(saved, size):
    saved.write_bytes(saved.read_bytes()[:size])
    for verify in (True, False):
        with pytest.raises(UnseenError, match="is damaged"):
            Bundle.load(saved, verify=verify)


def test_what_is_no_bundle_is_refused(tmp_path, bundle):
    with pytest.raises(UnseenError, match=r"does not exist. `unseen train` makes one"):
        Bundle.load(tmp_path / "none")
    with pytest.raises(UnseenError, match="is not a bundle: it is a folder"):
        Bundle.load(tmp_path)
    training_folder(tmp_path / "none").mkdir()
    with pytest.raises(UnseenError, match="its training was interrupted, resume it"):
        Bundle.load(tmp_path / "none")
    assert not is_bundle(tmp_path) and not is_bundle(tmp_path / "none")


def test_a_bundle_of_another_format_is_refused(bundle, tmp_path, monkeypatch):
    bundle.change().save(tmp_path / "b")
    written = file.FORMAT
    monkeypatch.setattr(file, "FORMAT", 99)
    with pytest.raises(UnseenError, match=rf"made by another version of unseen \(format {written}\): train it again"):
        Bundle.load(tmp_path / "b")


def test_arrays_that_do_not_fit_are_refused(bundle, tmp_path):
    solution = bundle.solution
    wrong = {
        r"projection and classifiers \(43, 8\)": {
            "solution": replace(solution, classifiers=solution.classifiers[:, 1:])
        },
        r"projection and classifiers": {"solution": replace(solution, projection=Linear(np.ones((8, 7), np.float32)))},
        r"trust \(42,\)": {"solution": replace(solution, trust=solution.trust[:-1])},
        r"known \(6, 8\)": {"known": bundle.known[:, 1:]},
        "hold NaN or infinity": {"known": bundle.known * np.nan},
    }
    for number, (message, fields) in enumerate(wrong.items()):
        with pytest.raises(UnseenError, match=message):
            Bundle.load(bundle.change(**fields).save(tmp_path / str(number)))
    with pytest.raises(UnseenError, match="not finite"):
        replace(bundle, solution=replace(solution, classifiers=solution.classifiers * np.nan)).save(tmp_path / "broken")


# -- where it may be written -----------------------------------------------------------------------------------------


def test_another_bundle_is_replaced_only_when_asked_to(bundle, tmp_path):
    first, other = replace(bundle, path=None), replace(bundle, path=None, seed=7)
    first.save(tmp_path / "b")
    before = bundle_checksum(tmp_path / "b")
    for refuse in (other.save, other.check_output):
        with pytest.raises(UnseenError, match="b is another bundle: choose another name, or overwrite it"):
            refuse(tmp_path / "b")
    assert Bundle.load(tmp_path / "b").seed == 0 and bundle_checksum(tmp_path / "b") == before
    other.save(tmp_path / "b", overwrite=True)
    assert Bundle.load(tmp_path / "b").seed == 7 and bundle_checksum(tmp_path / "b") != before
    assert [item.name for item in tmp_path.iterdir()] == ["b"]


def test_a_changed_bundle_replaces_the_one_it_was(bundle, tmp_path):
    saved = Bundle.load(replace(bundle, path=None).save(tmp_path / "b"))
    (tmp_path / "link").symlink_to("b")
    changed = saved.change(seed=5).change(seed=6)
    assert changed.path is None and changed.origin == tmp_path / "b"
    changed.save(tmp_path / "link")
    assert Bundle.load(tmp_path / "b").seed == 6 and (tmp_path / "link").is_symlink()


def test_nothing_but_a_bundle_is_overwritten(bundle, tmp_path):
    (tmp_path / "thesis.tex").write_text("x")
    with pytest.raises(UnseenError, match="exists and is not a bundle"):
        bundle.save(tmp_path / "thesis.tex", overwrite=True)
    with pytest.raises(UnseenError, match="is a folder, and a bundle is a file"):
        bundle.save(tmp_path, overwrite=True)
    assert (tmp_path / "thesis.tex").read_text() == "x"


def test_a_failed_save_keeps_the_old_bundle(bundle, tmp_path, monkeypatch):
    bundle.save(tmp_path / "b")

    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UnseenError, match=r"cannot write to .*: No space left on device"):
        replace(bundle, seed=7).save(tmp_path / "b")
    monkeypatch.undo()
    assert Bundle.load(tmp_path / "b").seed == 0
    assert [item.name for item in tmp_path.iterdir()] == ["b"]


KILLED = """
import os, signal, sys
from unseen.bundle import Bundle

step = getattr(os, sys.argv[2])
def killed(*args):
    if sys.argv[3] == "after":
        step(*args)
    os.kill(os.getpid(), signal.SIGKILL)

bundle = Bundle.load(sys.argv[1])
setattr(os, sys.argv[2], killed)
bundle.change(seed=7).save(sys.argv[1])
"""


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
@pytest.mark.parametrize(
    ("step", "when", "seed"), [("fsync", "before", 0), ("replace", "before", 0), ("replace", "after", 7)]
)
def test_a_killed_save_leaves_the_old_bundle_or_the_new_one(saved, step, when, seed):
    done = subprocess.run([sys.executable, "-c", KILLED, saved, step, when], capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert Bundle.load(saved).seed == seed
