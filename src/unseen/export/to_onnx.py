"""Export to ONNX or the browser: what runs without `unseen`.

onnx     photos B x 3 x H x W (RGB, 0..255) -> scores and probabilities, both B x C; labels, hierarchy, calibration and
         photo transform in the file's metadata
web      a folder with a page that runs the model in the browser, behind any web server; see `unseen.export.to_web`
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from unseen.answers.ask import Ask, make_scorer, usual_prior
from unseen.answers.prior import ColumnPrior
from unseen.answers.probability import (
    DOUBT,
    SHARPNESS,
    UNCALIBRATED,
    ancestor_weights,
    log_probabilities,
    measure_spread,
)
from unseen.answers.words import training_in_words, words_of
from unseen.bundle.records import CONFIDENCES, ProbabilityNumbers
from unseen.export.to_web import read_runtime, web_folder
from unseen.hierarchy.core import Hierarchy
from unseen.networks.run import OnnxNetwork, open_session
from unseen.networks.translate import export_program, quiet
from unseen.photos.transforms import PhotoTransform
from unseen.util.errors import UnseenError
from unseen.util.files import replacing_folder, write_atomically
from unseen.util.names import how_to_install

if TYPE_CHECKING:
    from unseen.bundle import Bundle

KINDS = ("onnx", "web")
OPSET = 18
ANSWERS = ["scores", "probabilities"]
TOLERANCE = {False: 1e-4, True: 0.05}  # fp32, fp16: how far ONNX may be from torch, as a share of the largest score


class Normalise(nn.Module):
    """Photos (B x 3 x H x W, RGB 0..255) -> normalised as a network wants them."""

    mean: Tensor
    std: Tensor

    def __init__(self, transform: PhotoTransform):
        super().__init__()
        self.register_buffer("mean", 255 * torch.tensor(transform.mean).view(1, 3, 1, 1))
        self.register_buffer("std", 255 * torch.tensor(transform.std).view(1, 3, 1, 1))

    def forward(self, photo: Tensor) -> Tensor:
        return (photo - self.mean) / self.std


class FeatureScorer(nn.Module):
    """Features (B x D) -> scores and probabilities (both B x C): all from the projection to the gate."""

    classes: Tensor
    head: Tensor
    offset: Tensor

    def __init__(self, bundle: Bundle, rows: np.ndarray):
        super().__init__()
        self.projection = bundle.solution.projection.to_torch()
        self.numbers = numbers_of(bundle)
        seen = bundle.is_seen[rows]
        self.prior = ColumnPrior(usual_prior(bundle), bundle.hierarchy, rows[seen], rows[~seen])
        for name in ("common", "log_weights"):
            values = getattr(self.prior, name)
            setattr(self.prior, name, None if values is None else torch.from_numpy(values))
        place = {row: at for at, row in enumerate(bundle.seen.tolist())}
        self.heads = torch.tensor([place[row] for row in rows[seen].tolist()], dtype=torch.int64)
        self.seen = torch.from_numpy(np.flatnonzero(seen))
        self.unseen = torch.from_numpy(np.flatnonzero(~seen))
        above, way = ancestor_weights(bundle.hierarchy, rows[seen], rows[~seen])
        self.climb = torch.from_numpy(above), torch.from_numpy(way)
        self.order = torch.from_numpy(np.argsort(np.concatenate([np.flatnonzero(seen), np.flatnonzero(~seen)])))
        self.register_buffer("classes", torch.tensor(bundle.solution.classifiers[rows].T, dtype=torch.float32))
        self.register_buffer("head", torch.tensor(bundle.head[:, :-1].T, dtype=torch.float32))
        self.register_buffer("offset", torch.tensor(bundle.head[:, -1], dtype=torch.float32))

    def forward(self, features: Tensor) -> tuple[Tensor, Tensor]:
        features = features.float()
        scores = self.projection(features) @ self.classes
        return scores, self._probabilities(features, scores)

    def _probabilities(self, features: Tensor, scores: Tensor) -> Tensor:
        """As `answers.probability` has it, on classes in their own order."""
        seen, unseen = scores[:, self.seen], scores[:, self.unseen]
        if self.numbers is None:
            shifted = self.prior.shift(torch.cat([seen, unseen], dim=1), len(self.seen))[:, self.order]
            return torch.softmax(shifted * (SHARPNESS / measure_spread(shifted)), dim=1)
        logits = features @ self.head + self.offset
        logs = log_probabilities(self.numbers, logits, seen, unseen, self.heads, self.climb, self.prior.common)
        return self.prior.weigh(torch.cat(logs, dim=1))[:, self.order].exp()


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
        files, checked = _to_web(bundle, rows)
        with replacing_folder(out) as folder:
            for name, content in files.items():
                (folder / name).parent.mkdir(exist_ok=True)
                (folder / name).write_bytes(content)
        size = sum(map(len, files.values()))
    else:
        content, checked = _to_onnx(bundle, rows, half)
        write_atomically(out, content)
        size = len(content)
    about = {"out": str(out), "to": kind, "classes": len(rows), "precision": "fp16" if half else "fp32", "bytes": size}
    return about | checked


def numbers_of(bundle: Bundle) -> ProbabilityNumbers | None:
    return None if bundle.listed or bundle.calibration is None else bundle.calibration.probability


def labels_of(bundle: Bundle, rows: np.ndarray) -> list[dict[str, Any]]:
    hierarchy, seen = bundle.hierarchy, bundle.is_seen
    ids = [hierarchy.ids[row] for row in rows]
    return [{"id": i, "name": hierarchy.name(i), "seen": bool(seen[row])} for i, row in zip(ids, rows, strict=True)]


def _metadata(bundle: Bundle, transform: PhotoTransform, rows: np.ndarray) -> dict[str, str]:
    """What a consumer needs beside the weights."""
    numbers = numbers_of(bundle)
    return {
        "labels": json.dumps(labels_of(bundle, rows), ensure_ascii=False),
        "transform": json.dumps(transform.to_dict()),
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


def _to_onnx(bundle: Bundle, rows: np.ndarray, half: bool) -> tuple[bytes, dict[str, Any]]:
    """What prepares photos, the network as the bundle holds it, and what scores its features, joined into one graph."""
    import onnx

    network = bundle.open_network()
    if network is None:
        raise UnseenError(f"{bundle.network.name} is not in the bundle as a graph: it cannot be exported")
    size = network.transform.size
    normalise, scorer = Normalise(network.transform), FeatureScorer(bundle, rows).eval()
    probe = torch.rand(2, 3, size, size, generator=torch.Generator().manual_seed(0)) * 255
    features = torch.from_numpy(network.features_of(normalise(probe).numpy()))
    with torch.no_grad():
        expected = [output.numpy() for output in scorer(features)]
    first = _translate(normalise, "photo", ["pixels"], probe)
    graph = _join(first, network, _translate(scorer, "features", ANSWERS, features))
    if half:
        _halve(graph)
    onnx.helper.set_model_props(graph, _metadata(bundle, network.transform, rows))
    content = graph.SerializeToString()
    session = open_session(content, "the exported model")
    outputs = session.run(ANSWERS, {"photo": probe.numpy()})
    pairs = zip(outputs, expected, strict=True)
    difference = max(float(np.abs(ours - theirs).max() / np.abs(theirs).max()) for ours, theirs in pairs)
    if not difference <= TOLERANCE[half]:
        raise UnseenError(f"the ONNX file disagrees with torch by {difference:.2g} of the largest number: not written")
    return content, {"max_difference": difference}


def _join(first: Any, network: OnnxNetwork, rest: Any) -> Any:
    """An ONNX model: `first` on photos, then the network, then `rest` on its features."""
    import onnx
    from onnx import compose, version_converter

    version = next(one.version for one in rest.opset_import if not one.domain)
    below = onnx.load_from_string(network.onnx)
    if version != next(one.version for one in below.opset_import if not one.domain):
        below = version_converter.convert_version(below, version)
    below = compose.add_prefix(below, "network/")
    first = compose.add_prefix(first, "photo/", rename_inputs=False)
    below.ir_version = first.ir_version = rest.ir_version
    below = compose.merge_models(first, below, io_map=[(first.graph.output[0].name, "network/photos")])
    return compose.merge_models(below, rest, io_map=[("network/features", rest.graph.input[0].name)])


def _translate(module: nn.Module, name: str, outputs: list[str], probe: Tensor) -> Any:
    """A module with one input as an ONNX model, for any number of photos."""
    try:
        with quiet(), torch.no_grad():
            return export_program(module, probe, name, outputs)
    except ImportError as error:
        raise UnseenError(f"export to ONNX needs more: {how_to_install('onnx')} ({error})") from None
    except torch.onnx.errors.OnnxExporterError as error:
        why = str(error.__cause__ or error).strip().splitlines()[0]
        raise UnseenError(f"torch cannot turn the method into ONNX: {why}") from None


def _halve(graph) -> None:
    """Weights as fp16, cast back to fp32 where they are used: half the file, the same arithmetic everywhere."""
    from onnx import TensorProto, helper, numpy_helper

    casts = []
    for tensor in graph.graph.initializer:
        if tensor.data_type != TensorProto.FLOAT or len(tensor.dims) < 2:
            continue
        name, array = tensor.name, numpy_helper.to_array(tensor).astype(np.float16)
        tensor.CopyFrom(numpy_helper.from_array(array, f"{name}.fp16"))
        casts.append(helper.make_node("Cast", [f"{name}.fp16"], [name], to=TensorProto.FLOAT))
    for place, node in enumerate(casts):
        graph.graph.node.insert(place, node)


# -- the browser ---------------------------------------------------------------------------------------------------


def _to_web(bundle: Bundle, rows: np.ndarray) -> tuple[dict[str, bytes], dict[str, Any]]:
    """The content of each file. The network is stored in 16 bits, and its classifiers in 8."""
    taught = [bundle.taught[bundle.ids[row]].photos if bundle.ids[row] in bundle.taught else 0 for row in rows]
    trainings = map(training_in_words, bundle.is_seen[rows], bundle.is_novel[rows], taught)
    return web_folder(_to_onnx(bundle, rows, half=True)[0], list(trainings))
