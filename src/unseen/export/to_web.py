"""A folder for the browser: the page, the model with its classifiers in 8 bits, and onnxruntime-web, which runs it.

A matrix W (D x C) of classifiers is stored as W8 = round(W / scale), with a scale for each class. What it is multiplied
with is split into two numbers of 8 bits, x = unit * (256 * high + low), so that x W = unit * scale * (256 * high W8 +
low W8): the photo keeps 16 bits, and W never takes 32 bits again, which would be 100 MB of a phone's memory.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tarfile
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from unseen.answers.probability import CONFIDENCE, UNCALIBRATED, exponent
from unseen.answers.words import with_article
from unseen.data import find_asset
from unseen.networks.run import open_session
from unseen.util.errors import UnseenError
from unseen.util.files import cache_folder, verified, write_atomically

# The smallest of the recent releases, by megabytes; MIT.
RUNTIME, SHA256 = "onnxruntime-web@1.22.0", "e293551f9d36d003e293d0f2937fee7b3dfdcef76d71d1449b55e2d4157c7aea"
ARCHIVE = f"{RUNTIME.replace('@', '-')}.tgz"
WASM = ("ort.wasm.min.mjs", "ort-wasm-simd-threaded.mjs", "ort-wasm-simd-threaded.wasm")
PAGE = Path(__file__).parent / "page"
SITE = PAGE.parents[1] / "apps" / "web" / "static"
# What looks, reads and answers as on the page of `unseen serve`.
SHARED = ("page.css", "icon.svg", "answers.js", "ui.js", "words.js", "vendor/htm.js", "vendor/preact.js")
METADATA = ("labels", "transform", "hierarchy", "calibration", "verdict")
TOLERANCE = 0.05  # of a probability: how far 8 bits may be from the rest

PRODUCT = """
<domain: "unseen", opset_import: ["": 18]>
Product (x, weights, scale) => (product) {
  last = Constant <value_ints: ints = [-1]> ()
  least = Constant <value_float: float = 1e-30> ()
  most = Constant <value_float: float = 32512.0> ()
  byte = Constant <value_float: float = 256.0> ()
  half = Constant <value_float: float = 128.0> ()
  zero = Constant <value: tensor = uint8 {128}> ()
  size = Abs (x)
  largest = ReduceMax <keepdims = 1> (size, last)
  some = Max (largest, least)
  unit = Div (some, most)
  units = Div (x, unit)
  whole = Round (units)
  raised = Add (whole, half)
  parts = Div (raised, byte)
  high = Floor (parts)
  bytes = Mul (high, byte)
  low = Sub (whole, bytes)
  both = Concat <axis = 0> (high, low)
  above = Add (both, half)
  stored = Cast <to = 2> (above)
  sums = MatMulInteger (stored, weights, zero, zero)
  real = Cast <to = 1> (sums)
  highs, lows = Split <axis = 0, num_outputs = 2> (real)
  shifted = Mul (highs, byte)
  sum = Add (shifted, lows)
  scaled = Mul (sum, scale)
  product = Mul (scaled, unit)
}
"""


def web_folder(content: bytes, trainings: Sequence[str]) -> tuple[dict[str, bytes], dict[str, Any]]:
    """The content of each file, and facts for the user.

    `content`: an ONNX file of `unseen export --half`, photos -> probabilities. `trainings`: what the network was shown
    of each class, in words.
    """
    import onnx

    runtime = read_runtime()
    graph = onnx.load_from_string(content)
    about = {entry.key: json.loads(entry.value) for entry in graph.metadata_props if entry.key in METADATA}
    del graph.metadata_props[:]  # the page cannot read them there
    store_in_8_bits(graph)
    small = graph.SerializeToString()
    shape = [side.dim_value or 1 for side in graph.graph.input[0].type.tensor_type.shape.dim]
    probe = np.random.default_rng(0).uniform(0, 255, shape).astype(np.float32)
    sessions = (open_session(file, "the exported model") for file in (content, small))
    wide, narrow = (np.asarray(session.run(["probabilities"], {"photo": probe})[0]) for session in sessions)
    difference = float(np.abs(wide - narrow).max())
    if not difference <= TOLERANCE:
        raise UnseenError(f"8 bits change a probability by {difference:.2g}: not written")
    models = {"model.onnx": small, **runtime}
    words = classes_in_words(about, trainings) | {
        "batch": shape[0],
        "sizes": {name: len(file) for name, file in models.items()},
    }
    shared = {name: (SITE / name).read_bytes() for name in SHARED}
    own = {path.name: path.read_bytes() for path in sorted(PAGE.iterdir()) if path.is_file()}
    text = json.dumps(words, ensure_ascii=False, separators=(",", ":")).encode()
    return own | shared | models | {"classes.json": text}, {"precision": "int8", "rounding": difference}


def store_in_8_bits(graph: Any) -> None:
    """Every matrix that something is multiplied with, of those that `unseen export --half` stored in 16 bits."""
    import onnx
    from onnx import helper, numpy_helper

    tensors = {tensor.name: tensor for tensor in graph.graph.initializer}
    casts = {node.output[0]: node for node in graph.graph.node if node.op_type == "Cast" and node.input[0] in tensors}
    uses = Counter(name for node in graph.graph.node for name in node.input)
    for node in list(graph.graph.node):
        if node.op_type != "MatMul" or node.input[1] not in casts or uses[node.input[1]] > 1:
            continue
        cast = casts[node.input[1]]
        tensor, name = tensors[cast.input[0]], node.input[1]
        weights = numpy_helper.to_array(tensor).astype(np.float32)
        scale = np.maximum(np.abs(weights).max(axis=0), np.finfo(np.float32).tiny) / 127
        # As unsigned ones: some processors add pairs of products of signed ones in too few bits.
        stored = (np.rint(weights / scale) + 128).astype(np.uint8)
        tensor.CopyFrom(numpy_helper.from_array(stored, f"{name}.uint8"))
        graph.graph.initializer.append(numpy_helper.from_array(scale.astype(np.float32), f"{name}.scale"))
        graph.graph.node.remove(cast)
        inputs = [node.input[0], f"{name}.uint8", f"{name}.scale"]
        node.CopyFrom(helper.make_node("Product", inputs, [node.output[0]], domain="unseen"))
    graph.functions.append(onnx.parser.parse_function(PRODUCT))
    graph.opset_import.append(helper.make_opsetid("unseen", 1))


def classes_in_words(about: dict[str, Any], trainings: Sequence[str]) -> dict[str, Any]:
    """The classes as the page wants them: `spoken` has what a person says, with its article. `classes` has for each
    class whether it is seen, its training, and the places in `spoken` of itself and of all above it. What nobody says
    is -1 there, and has its name in `names`."""
    nodes, spoken, words, classes, names = about["hierarchy"], {}, {}, [], {}

    def place(say: str | None) -> int:
        return -1 if say is None else spoken.setdefault(say, len(spoken))

    for label, training in zip(about["labels"], trainings, strict=True):
        above, waiting = {}, [label["id"]]
        while waiting:
            node = waiting.pop()
            above[node] = place(nodes[node]["say"])
            waiting += [parent for parent in nodes[node]["parents"] if parent not in above]
        own = above[label["id"]]
        if own < 0:
            names[len(classes)] = label["name"]
        others = sorted({place for place in above.values() if place >= 0} - {own})
        classes.append([int(label["seen"]), words.setdefault(training, len(words)), own, *others])
    rule = about["verdict"]
    careful = exponent(replace(UNCALIBRATED, exponents=tuple(rule["exponents"])), CONFIDENCE)
    return {
        "transform": about["transform"],
        "calibrated": about["calibration"] is not None,
        "rule": {name: rule[name] for name in ("detail", "doubt", "stated_slope", "stated_offset")}
        | {"exponent": careful},
        "spoken": [[with_article(say).removesuffix(say), say] for say in spoken],
        "trainings": list(words),
        "names": names,
        "classes": classes,
    }


# -- onnxruntime-web ---------------------------------------------------------------------------------------------------


def read_runtime() -> dict[str, bytes]:
    """The files of onnxruntime-web that a page needs, from npm's package."""
    path = find_asset(ARCHIVE) or _fetch_runtime()
    verified(path, SHA256, f"Delete it: then it is fetched again. It should be npm's package {RUNTIME}.")
    with tarfile.open(path) as package:
        members = {name: package.extractfile(f"package/dist/{name}") for name in WASM}
        return {name: member.read() for name, member in members.items() if member}


def _fetch_runtime() -> Path:
    """The package, fetched by npm into the user's assets."""
    assets = cache_folder() / "assets"
    advice = f"Where npm works, run: npm pack {RUNTIME}. Put {ARCHIVE} into {assets}, or into a folder that "
    advice += "UNSEEN_ASSETS names."
    npm = shutil.which("npm")
    if npm is None:
        raise UnseenError(f"onnxruntime-web, which runs the model in the browser, is not here, nor is npm. {advice}")
    with tempfile.TemporaryDirectory() as folder:
        command = [npm, "pack", RUNTIME, "--silent", "--pack-destination", folder]
        try:
            done = subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=600)
        except subprocess.TimeoutExpired:
            raise UnseenError(f"npm did not bring {RUNTIME} within ten minutes. {advice}") from None
        fetched = Path(folder, ARCHIVE)
        if done.returncode or not fetched.exists():
            why = " ".join(done.stderr.split())[-300:] or "no reason given"
            raise UnseenError(f"npm could not fetch {RUNTIME} ({why}). {advice}")
        verified(fetched, SHA256, advice)
        write_atomically(assets / ARCHIVE, fetched.read_bytes())
    return assets / ARCHIVE
