"""Export to ONNX or the browser: what runs without `unseen`.

onnx     photos B x 3 x H x W (RGB, 0..255) -> scores and probabilities, both B x C; labels, hierarchy, calibration and
         photo transform in the file's metadata
web      a folder with a page that runs the model in the browser, behind any web server; see `unseen.export.to_web`
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto, TensorProto, helper, numpy_helper

from unseen.answers.algebra import concatenate
from unseen.answers.ask import Ask, make_scorer
from unseen.answers.probability import (
    DOUBT,
    SHARPNESS,
    UNCALIBRATED,
    measure_spread,
)
from unseen.answers.scores import Scorer
from unseen.answers.words import training_in_words, words_of
from unseen.bundle import Bundle
from unseen.bundle.records import CONFIDENCES, ProbabilityNumbers
from unseen.export.graph import OPSET, Graph, Symbol
from unseen.export.to_web import read_runtime, web_folder
from unseen.hierarchy.core import Hierarchy
from unseen.methods.projections import ConvexCombination, Linear
from unseen.networks.run import open_session
from unseen.util.errors import UnseenError
from unseen.util.files import replacing_folder, write_atomically

KINDS = ("onnx", "web")
ANSWERS = ["scores", "probabilities"]
TOLERANCE = {
    False: 1e-4,
    True: 0.05,
}  # fp32, fp16: how far the file may be from `unseen`, of the largest number


def export(
    bundle: Bundle, kind: str, out: str | Path, candidates: str | Sequence[str] = "any",
    half: bool = False,
) -> dict[str, Any]:  # fmt: skip
    """Write one file (for web a folder) for C chosen classes; returns what was written, and how far it was checked.

    Args:
        bundle: Of `unseen.load(...)`; `Model.export` passes it.
        kind: onnx or web.
        out: The file or folder to write, which must not exist.
        candidates: Ids, or the name of a list such as any, unseen or hops:2; see `unseen.naming.candidates`.
        half: Store the weights in 16 bits; they are computed with in 32 bits again, wherever the file is read.
    """
    if kind not in KINDS:
        raise UnseenError(f"no export to {kind!r}; there are: {', '.join(KINDS)}")
    out = Path(out)
    if out.exists():
        raise UnseenError(f"{out} exists: choose another name")
    scorer = make_scorer(bundle, Ask(candidates=candidates))
    rows = scorer.given[np.isin(scorer.given, scorer.columns)]
    if not len(rows):
        raise UnseenError(f"{bundle.method} has an answer for none of these classes: choose other candidates")
    if kind == "web":
        read_runtime()  # before the long work: it may be missing
        files, checked = _to_web(bundle, scorer, rows)
        with replacing_folder(out) as folder:
            for name, content in files.items():
                (folder / name).parent.mkdir(exist_ok=True)
                (folder / name).write_bytes(content)
        size = sum(map(len, files.values()))
    else:
        content, checked = _to_onnx(bundle, scorer, rows, half)
        write_atomically(out, content)
        size = len(content)
    about = {"out": str(out), "to": kind, "classes": len(rows), "precision": "fp16" if half else "fp32", "bytes": size}
    return about | checked


def labels_of(bundle: Bundle, rows: np.ndarray) -> list[dict[str, Any]]:
    hierarchy, seen = bundle.hierarchy, bundle.is_seen
    ids = [hierarchy.ids[row] for row in rows]
    return [{"id": i, "name": hierarchy.name(i), "seen": bool(seen[row])} for i, row in zip(ids, rows, strict=True)]


def _metadata(bundle: Bundle, scorer: Scorer, rows: np.ndarray) -> dict[str, str]:
    """What a consumer needs beside the weights."""
    numbers = scorer.numbers
    return {
        "labels": json.dumps(labels_of(bundle, rows), ensure_ascii=False),
        "transform": json.dumps(bundle.network.transform),
        "hierarchy": json.dumps(_hierarchy(bundle.hierarchy, rows), ensure_ascii=False),
        "calibration": json.dumps(None if numbers is None else numbers.to_json()),
        "verdict": json.dumps(_verdict_rule(numbers)),
        "network": bundle.network.name,
        "method": bundle.method,
    }


def _verdict_rule(numbers: ProbabilityNumbers | None) -> dict[str, Any]:
    """How a verdict is chosen, and how probable it is; see `unseen.answers.probability`."""
    used = numbers or UNCALIBRATED
    rule = {name: getattr(used, name) for name in ("detail", "stated_slope", "stated_offset")}
    return {"confidences": CONFIDENCES, "exponents": list(used.exponents), "doubt": DOUBT if numbers else 0.0, **rule}


def _hierarchy(hierarchy: Hierarchy, rows: np.ndarray) -> dict[str, Any]:
    """Names and parents of the chosen classes and of all above them, for those who sum probabilities up."""
    ids = {hierarchy.ids[row] for row in rows}
    ids |= {above for id in ids for above in hierarchy.ancestors(id)}
    words, nodes = words_of(hierarchy), {}
    for id in sorted(ids):
        row = hierarchy.index(id)
        say = words.says[row] if words.sayable[row] else None
        nodes[id] = {"name": hierarchy.name(id), "say": say, "parents": hierarchy.parents(id)}
    return nodes


# -- ONNX ----------------------------------------------------------------------------------------------------------


def head_graph(bundle: Bundle, scorer: Scorer, rows: np.ndarray) -> ModelProto:
    """Features (B x D) -> scores and probabilities (both B x C) of the classes in these rows, in their order, by the
    formulas of `answers`."""
    graph, width = Graph(), bundle.network.num_features
    features = graph.input("features", width)
    points = PROJECTIONS[bundle.solution.projection.kind](bundle.solution.projection, features)
    scores = points @ scorer.classifiers(scorer.columns).T
    logits = None if scorer.numbers is None else features @ scorer.head[:, :-1].T + scorer.head[:, -1]
    values = scorer.weigh(points, scores, logits)
    probabilities = values.exp() if scorer.calibrated else (values * (SHARPNESS / measure_spread(values))).softmax()
    column = {row: at for at, row in enumerate(scorer.columns.tolist())}
    order = np.array([column[row] for row in rows.tolist()])
    answers = {"scores": scores[:, order], "probabilities": probabilities[:, order]}
    return graph.model({"features": ["batch", width]}, answers)


def _unit(points: Symbol) -> Symbol:
    return points / points.length().clip(1e-12)


def _with_one(points: Symbol) -> Symbol:
    return concatenate([points, 0 * points[:, :1] + 1.0])


def _linear(projection: Linear, features: Symbol) -> Symbol:
    points = features @ projection.matrix + projection.bias
    return _unit(points) if projection.normalise else points


def _convex(projection: ConvexCombination, features: Symbol) -> Symbol:
    """The softmax over the T largest logits is the softmax over all with the others at minus infinity."""
    logits = features @ projection.weight.T + projection.bias
    return _unit(logits.largest(projection.top).softmax() @ projection.vectors)


PROJECTIONS: dict[str, Callable[[Any, Symbol], Symbol]] = {
    "append1": lambda projection, features: _with_one(features),
    "linear": _linear,
    "convex": _convex,
    "unit": lambda projection, features: _with_one(_unit(features - projection.mean)),
}


def _to_onnx(bundle: Bundle, scorer: Scorer, rows: np.ndarray, half: bool) -> tuple[bytes, dict[str, Any]]:
    runner = bundle.open_network()
    if runner is None:
        raise UnseenError(f"{bundle.network.name} has no ONNX graph in this bundle: it cannot be exported")
    transform = runner.transform
    mean, std = (255 * np.asarray(values, np.float32).reshape(1, 3, 1, 1) for values in (transform.mean, transform.std))
    pixels, shape = Graph(), ["batch", 3, transform.size, transform.size]
    before = pixels.model({"photo": shape}, {"photos": (pixels.input("photo", transform.size) - mean) / std}, shape)
    network, head = _same_opset(onnx.load_from_string(runner.onnx)), head_graph(bundle, scorer, rows)
    for ours in (before, head):
        ours.opset_import[0].version = _opset(network)
    graph = join(join(before, network, "photos"), head, "features")
    if half:
        _halve(graph)
    onnx.helper.set_model_props(graph, _metadata(bundle, scorer, rows))
    content = graph.SerializeToString()
    probe = (255 * np.random.default_rng(0).random((2, 3, transform.size, transform.size))).astype(np.float32)
    outputs = open_session(content, "the exported graph").run(ANSWERS, {"photo": probe})
    features = runner.features_of((probe - mean) / std)
    expected = [scorer.method_scores(features), scorer.probabilities(features)]
    expected = [scorer.in_given_order(values, 0.0)[:, np.isin(scorer.given, rows)] for values in expected]
    pairs = zip(outputs, expected, strict=True)
    difference = max(float(np.abs(ours - theirs).max() / np.abs(theirs).max()) for ours, theirs in pairs)
    if not difference <= TOLERANCE[half]:
        raise UnseenError(f"the ONNX file disagrees with unseen by {difference:.2g} of the largest number: not written")
    return content, {"max_difference": difference}


def _opset(graph: ModelProto) -> int:
    return next(one.version for one in graph.opset_import if one.domain in ("", "ai.onnx"))


def _same_opset(graph: ModelProto) -> ModelProto:
    """The graph with operators that are at least as new as ours, so that both can be joined."""
    return graph if _opset(graph) >= OPSET else onnx.version_converter.convert_version(graph, OPSET)


def join(first: ModelProto, then: ModelProto, name: str) -> ModelProto:
    """One graph of two: the output of the first with this name is the input of the second."""
    first, then = (onnx.compose.add_prefix(one, f"{prefix}/", rename_inputs=False, rename_outputs=False)
                   for one, prefix in ((first, f"before-{name}"), (then, f"after-{name}")))  # fmt: skip
    then.ir_version = first.ir_version
    return onnx.compose.merge_models(first, then, io_map=[(name, name)])


def _halve(graph: ModelProto) -> None:
    """Weights as fp16, cast back to fp32 where they are used: half the file, the same arithmetic everywhere."""
    casts = []
    for tensor in graph.graph.initializer:
        if tensor.data_type != TensorProto.FLOAT or len(tensor.dims) < 2:
            continue
        name, array = tensor.name, numpy_helper.to_array(tensor).astype(np.float16)
        tensor.CopyFrom(numpy_helper.from_array(array, f"{name}.fp16"))
        casts.append(helper.make_node("Cast", [f"{name}.fp16"], [name], to=TensorProto.FLOAT))
    for index, node in enumerate(casts):
        graph.graph.node.insert(index, node)


# -- the browser ---------------------------------------------------------------------------------------------------


def _to_web(bundle: Bundle, scorer: Scorer, rows: np.ndarray) -> tuple[dict[str, bytes], dict[str, Any]]:
    """The content of each file. The network is stored in 16 bits, and its classifiers in 8."""
    taught = [bundle.taught[bundle.ids[row]].photos if bundle.ids[row] in bundle.taught else 0 for row in rows]
    trainings = map(training_in_words, bundle.is_seen[rows], bundle.is_novel[rows], taught)
    return web_folder(_to_onnx(bundle, scorer, rows, half=True)[0], list(trainings))
