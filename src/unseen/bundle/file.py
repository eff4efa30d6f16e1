"""A bundle on disk: one safetensors file with arrays and JSON records; `util.arrays` has the format.

classifiers, known, answers, trust      the class matrix, the network's own classifiers, what the method says
projection.*, state.*, vectors.*        what predicts and scores classes that are added later
onnx                                    the network photos -> features as an ONNX graph, the file's bytes
network.*, taught.*                     a finetuned network's weights; what photos taught
classes, log                            JSON as uint8: the hierarchy with its seen and added classes; the training
records                                 `Bundle.header()`, in the metadata
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unseen.bundle.records import NetworkInfo, read_details
from unseen.hierarchy.core import Hierarchy
from unseen.methods import Solution
from unseen.methods.base import FitRecord
from unseen.methods.projections import from_saved
from unseen.util.arrays import read_arrays, stored_checksum, write_arrays
from unseen.util.errors import UnseenError
from unseen.vectors.class_vectors import ClassVectors, Coverage

if TYPE_CHECKING:
    from unseen.bundle.bundle import Bundle

FORMAT = 3
PRECISIONS = {"fp32": np.float32, "fp16": np.float16}
KIND = "bundle"


def is_bundle(path: Path) -> bool:
    """Whether there is a file that begins as bundles do."""
    return bundle_checksum(path) is not None


def bundle_checksum(path: Path) -> str | None:
    """The checksum that a bundle says it has; None where there is no bundle."""
    return stored_checksum(path, KIND)


def training_folder(path: Path) -> Path:
    """The folder for checkpoint and log of a training that will write `path`."""
    return path.with_name(f"{path.name}.training")


def check_output(path: Path, source: Path | None, overwrite: bool) -> None:
    """Refuse to replace anything but a bundle, and a bundle other than the one in `source` without `overwrite`."""
    if path.is_dir():
        raise UnseenError(f"{path} is a folder, and a bundle is a file: choose another name")
    if path.exists() and not is_bundle(path):
        raise UnseenError(f"{path} exists and is not a bundle: choose another name, or move it away")
    if path.exists() and not overwrite and (source is None or path.resolve() != source.resolve()):
        raise UnseenError(f"{path} is another bundle: choose another name, or overwrite it")


# -- saving ----------------------------------------------------------------------------------------------------------


def write_bundle(bundle: Bundle, path: Path) -> None:
    """Write the bundle to a file, completely or not at all."""
    solution = bundle.solution
    if solution.classifiers.dtype == np.float16:
        bundle.precision = "fp16"  # fp32 would store no more digits
    check_precision(bundle.precision)
    if not _is_finite(solution.classifiers, PRECISIONS[bundle.precision]):
        raise UnseenError(f"the classifiers hold numbers that are not finite in {bundle.precision}: nothing is saved")
    classes = {"hierarchy": bundle.hierarchy.to_json(), "seen": bundle.seen_ids}
    classes |= {"added": bundle.added, "connecting": bundle.connecting}
    arrays = {"classifiers": solution.classifiers, "known": bundle.known}
    arrays |= {"classes": _from_json(classes), "log": _from_json(bundle.log)}
    arrays |= {key: array for key, array in _optional(solution).items() if array is not None}
    arrays |= {f"projection.{key}": array for key, array in solution.projection.arrays().items()}
    arrays |= {f"state.{key}": array for key, array in solution.state.items()}
    arrays |= {f"vectors.{i}": part for i, part in enumerate(bundle.vectors.parts)}
    arrays |= {f"network.{key}": array for key, array in (bundle.network_weights or {}).items()}
    if bundle.onnx is not None:
        arrays["onnx"] = np.frombuffer(bundle.onnx, np.uint8)
    if bundle.taught:
        for key in ("mean", "predicted"):
            arrays[f"taught.{key}"] = np.stack([getattr(taught, key) for taught in bundle.taught.values()])
    inside = {"inside": {"onnx": bundle.network.onnx, "below": bundle.network.below}}
    write_arrays(path, KIND, arrays, bundle.header() | inside, {"classifiers": PRECISIONS[bundle.precision]})


def check_precision(precision: str) -> None:
    if precision not in PRECISIONS:
        raise UnseenError(f"precision is {' or '.join(PRECISIONS)}, not {precision!r}")


def _from_json(content: Any) -> np.ndarray:
    """JSON text as uint8. Names of files that are not Unicode hold lone surrogates, which are escaped."""
    text = json.dumps(content, ensure_ascii=False).encode(errors="backslashreplace")
    return np.frombuffer(text, np.uint8)


def _optional(solution: Solution) -> dict[str, np.ndarray | None]:
    return {"answers": solution.answers, "trust": solution.trust}


# -- loading ---------------------------------------------------------------------------------------------------------


def read_fields(path: Path, verify: bool = True) -> dict[str, Any]:
    """The fields of the bundle in a file; `verify` compares its checksum."""
    records, arrays = _read(path, verify)
    if records["format"] != FORMAT:
        raise UnseenError(f"{path} was made by another version of unseen (format {records['format']}): train it again")
    classes = json.loads(arrays.pop("classes").tobytes())
    details = read_details(records["details"], _within("taught.", arrays))
    fit = details.pop("fit")
    hierarchy, names = Hierarchy.from_dict(classes["hierarchy"]), tuple(records["vectors"]["names"])
    parts = tuple(arrays[f"vectors.{i}"] for i in range(len(names)))
    return {
        "hierarchy": hierarchy,
        "seen": hierarchy.indices(classes["seen"]),
        "known": arrays["known"],
        "vectors": ClassVectors(parts, names, records["vectors"]["provenance"], Coverage.of(hierarchy, parts, names)),
        "solution": _solution(records["projection"], arrays, fit),
        "method": records["method"],
        "settings": records["settings"],
        "network": NetworkInfo(**records["network"], **records.get("inside", {})),
        "seed": records["seed"],
        "log": json.loads(arrays.pop("log").tobytes()),
        "added": classes["added"],
        "connecting": classes["connecting"],
        "precision": records["precision"],
        "network_weights": _within("network.", arrays) or None,
        "onnx": arrays["onnx"].tobytes() if "onnx" in arrays else None,
        "made": records["made"],
        "path": path,
        **details,
    }


def _read(path: Path, verify: bool) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The records and arrays of a bundle, or an error that says what is there instead."""
    try:
        return read_arrays(path, KIND, verify)
    except FileNotFoundError:
        if training_folder(path).is_dir():
            raise UnseenError(f"{path} is not there yet: its training was interrupted, resume it") from None
        raise UnseenError(f"{path} is not a bundle: it does not exist. `unseen train` makes one.") from None
    except IsADirectoryError:
        raise UnseenError(f"{path} is not a bundle: it is a folder. `unseen train` makes one.") from None
    except OSError as error:
        raise UnseenError(f"{path} cannot be read: {error.strerror or error}") from None
    except MemoryError:
        raise UnseenError(f"{path} needs more memory than is free") from None
    except (ValueError, KeyError) as error:
        what = "is damaged" if is_bundle(path) else "is not a bundle, or is damaged"
        raise UnseenError(f"{path} {what} ({error}): copy it again, or train it again") from None


def _within(prefix: str, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The arrays whose names start with the prefix, by the rest of their names."""
    return {key[len(prefix) :]: array for key, array in arrays.items() if key.startswith(prefix)}


def _solution(saved: dict, arrays: dict[str, np.ndarray], fit: FitRecord) -> Solution:
    return Solution(
        classifiers=arrays["classifiers"],  # in 16 bits, if they are stored so
        projection=from_saved(saved["kind"], _within("projection.", arrays), saved["settings"]),
        state=_within("state.", arrays),
        record=fit,
        answers=arrays.get("answers"),
        trust=arrays.get("trust"),
    )


def _is_finite(array: np.ndarray, kind: type = np.float32) -> bool:
    """Whether all numbers are finite in that precision, without a second array of that size."""
    if array.dtype == np.float16:  # NumPy compares them in software: their exponents are ten times as fast
        bits = array.reshape(-1).view(np.uint16)
        return all((bits[at : at + 2**18] & 0x7C00).max() < 0x7C00 for at in range(0, len(bits), 2**18))
    with np.errstate(over="ignore"):
        return bool(np.isfinite(np.array([array.min(initial=0), array.max(initial=0)]).astype(kind)).all())


def check_facts(bundle: Bundle) -> None:
    """ValueError for facts of another type than any that is written: somebody forged the bundle."""
    info, trust = bundle.network, bundle.solution.trust
    lists = (info.class_ids, bundle.added, bundle.connecting, bundle.guessed)
    texts = [bundle.method, info.name, info.checksum, *(id for ids in lists for id in ids)]
    sources = bundle.vectors.provenance
    texts += [source.get(key, "") for source in sources for key in ("kind", "name", "source", "mode")]
    if not all(isinstance(text, str) for text in texts) or not all(isinstance(ids, list) for ids in lists):
        raise ValueError("a name is not a text")
    if not all(isinstance(facts, dict) for facts in (bundle.settings, bundle.made, info.transform or {}, *bundle.log)):
        raise ValueError("settings or a log without names")
    if type(bundle.seed) is not int or not isinstance(bundle.hierarchy.source.get("added", 0), int):
        raise ValueError("a number is not an integer")
    if len(sources) != len(bundle.vectors.parts) or not all(id in bundle.hierarchy for id in bundle.taught):
        raise ValueError("vectors or classes are missing")
    degrees = [taught.trust for taught in bundle.taught.values() if taught.trust is not None]
    if not _is_finite(np.array(degrees, float)) or (trust is not None and not _is_finite(trust)):
        raise ValueError("trust is not a number")


def check_shapes(bundle: Bundle) -> None:
    """Refuse a bundle whose arrays do not fit each other, its classes or its network."""
    solution, features = bundle.solution, bundle.network.num_features
    rows = {"classifiers": solution.classifiers, **_optional(solution)}
    rows |= {f"vectors.{i}": part for i, part in enumerate(bundle.vectors.parts)}
    wrong = [f"{key} {array.shape}" for key, array in rows.items() if array is not None and len(array) != len(bundle)]
    if bundle.known.shape != (len(bundle.seen), features + 1):
        wrong.append(f"known {bundle.known.shape}")
    for id, taught in bundle.taught.items():
        if taught.mean.shape != (features,) or taught.predicted.shape != solution.classifiers.shape[1:]:
            wrong.append(f"what {id} was taught")
    if solution.projection(np.zeros((1, features), np.float32)).shape[1:] != solution.classifiers.shape[1:]:
        wrong.append(f"projection and classifiers {solution.classifiers.shape}")
    if wrong:
        raise UnseenError(
            f"{bundle.path}: {', '.join(wrong)} do not fit {len(bundle)} classes, {len(bundle.seen)} of them seen, "
            f"and {features} features: train it again"
        )
    if not _is_finite(bundle.known) or not _is_finite(solution.classifiers):
        raise UnseenError(f"{bundle.path}: the classifiers hold NaN or infinity: train it again")
