"""A bundle on disk: written whole or not at all, read with every check."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unseen.bundle.backbone_info import BackboneInfo
from unseen.bundle.card import card
from unseen.bundle.files import AGAIN, DAMAGE, NETWORK, read_arrays, read_header, verify_files, write_arrays
from unseen.bundle.lessons import lesson_arrays, restore_lessons
from unseen.bundle.places import check_place
from unseen.bundle.records import Records
from unseen.bundle.replacement import read_undisturbed, replacing
from unseen.errors import UnseenError
from unseen.methods import Solution
from unseen.methods.projections import from_saved
from unseen.runtime.files import sha256, write_atomically, writing
from unseen.runtime.seals import sealed
from unseen.semantics import ClassVectors, Coverage
from unseen.taxonomy import Taxonomy

if TYPE_CHECKING:
    from unseen.bundle.core import Bundle

PRECISIONS = {"fp32": np.float32, "fp16": np.float16}


def check_precision(precision: str) -> None:
    if precision not in PRECISIONS:
        raise UnseenError(f"precision is {' or '.join(PRECISIONS)}, not {precision!r}", "precision")


# -- saving --------------------------------------------------------------------------------------------------------


def store_bundle(bundle: Bundle, path: Path, training: bool = False) -> None:
    """Write the bundle beside its place, then move it there: a failure leaves the old one or the new one, whole.

    `training`: it ends the training there, whose checkpoint goes; else an interrupted one is kept and nothing is saved.
    """
    if bundle.solution.classifiers.dtype == np.float16:
        bundle.precision = "fp16"  # more than is known would be a waste of disk
    check_precision(bundle.precision)
    check_place(path, training)
    place = path.resolve()  # of a link, the folder that it leads to
    with writing(path), replacing(place) as fresh:
        _write_files(bundle, fresh)
    bundle.path = path


def _write_files(bundle: Bundle, folder: Path) -> None:
    solution = bundle.solution
    if not _is_mapped(solution.classifiers) and not _is_finite(solution.classifiers, PRECISIONS[bundle.precision]):
        raise UnseenError(f"the classifiers hold numbers that are not finite in {bundle.precision}: nothing is saved")
    arrays = {"classifiers": solution.classifiers, "known": bundle.known}
    arrays |= {f"projection.{key}": value for key, value in solution.projection.arrays().items()}
    arrays |= {key: array for key, array in _answers_and_trust(solution).items() if array is not None}
    arrays |= lesson_arrays(bundle.taught)
    state = {f"state.{key}": value for key, value in solution.state.items()}
    state |= {f"vectors.{i}": part for i, part in enumerate(bundle.vectors.parts)}
    classes = {"taxonomy": bundle.taxonomy.to_json(), "seen": bundle.seen_ids, "added": bundle.added}
    classes["connecting"] = bundle.connecting

    files: dict[str, bytes | dict[str, np.ndarray]] = {
        "classes.json": _encode(json.dumps(classes, ensure_ascii=False)),
        "classifiers.safetensors": arrays,
        "state.safetensors": state,
        "log.jsonl": "".join(json.dumps(record) + "\n" for record in bundle.log).encode(),
    }
    if bundle.network is not None:
        files[NETWORK] = bundle.network
    kinds = {"classifiers": PRECISIONS[bundle.precision]}
    for name, content in files.items():
        if isinstance(content, bytes):
            write_atomically(folder / name, content)
        else:
            write_arrays(folder / name, content, kinds if content is arrays else {})
    header = sealed(bundle.header() | {"files": {name: sha256(folder / name) for name in files}})
    write_atomically(folder / "README.md", _encode(card(bundle)))
    write_atomically(folder / "bundle.json", _encode(json.dumps(header, indent=1, ensure_ascii=False)))


def _is_finite(array: np.ndarray, kind: type = np.float32) -> bool:
    """Whether all numbers are finite as such a kind; NaN is least and greatest. No second array is held."""
    with np.errstate(over="ignore"):
        return bool(np.isfinite(np.array([array.min(initial=0), array.max(initial=0)]).astype(kind)).all())


def _is_mapped(array: np.ndarray) -> bool:
    """Whether most of it is on disk, where it is not searched for numbers that are not finite: what wrote it did that,
    its checksum vouches for it, and scoring looks at each piece again."""
    return isinstance(array, np.memmap)


def _encode(text: str) -> bytes:
    """UTF-8. The name of a file that is not Unicode holds lone surrogates: escaped they are valid JSON too."""
    return text.encode(errors="backslashreplace")


def _answers_and_trust(solution: Solution) -> dict[str, np.ndarray | None]:
    return {"answers": solution.answers, "trust": solution.trust}


# -- loading -------------------------------------------------------------------------------------------------------


def read_fields(path: Path, verify: bool) -> dict[str, Any]:
    """The fields of the bundle in a folder. Another process may replace it meanwhile."""
    return read_undisturbed(path, lambda: _read_files(path, verify))


def _read_files(path: Path, verify: bool) -> dict[str, Any]:
    header = read_header(path, verify)
    try:
        if verify:
            verify_files(path, header["files"])
        classes = json.loads((path / "classes.json").read_text(encoding="utf-8"))
        arrays, state = (read_arrays(path / f"{name}.safetensors") for name in ("classifiers", "state"))
        lines = (path / "log.jsonl").read_text(encoding="utf-8").splitlines()
        taxonomy = Taxonomy.from_dict(classes["taxonomy"])
        parts = tuple(state[f"vectors.{i}"] for i in range(len(header["vectors"]["names"])))
        records = Records.from_details(header["details"])
        return {
            "taxonomy": taxonomy,
            "seen": taxonomy.indices(classes["seen"]),
            "known": arrays["known"],
            "vectors": _vectors(taxonomy, parts, header["vectors"]),
            "solution": _solution(header["projection"], arrays, state, records),
            "method": header["method"],
            "settings": header["settings"],
            "backbone": BackboneInfo(**header["backbone"]),
            "seed": header["seed"],
            "log": [json.loads(line) for line in lines],
            "added": classes["added"],
            "connecting": classes["connecting"],
            "precision": header["precision"],
            "network": read_arrays(path / NETWORK) if NETWORK in header["files"] else None,
            "training": records.training,
            "finetuning": records.finetuning,
            "calibration": records.calibration,
            "guessed": records.guessed,
            "taught": restore_lessons(records.taught, arrays),
            "made": header["made"],
            "path": path,
        }
    except PermissionError as error:
        raise UnseenError(f"{error.filename or path} cannot be read: permission denied") from None
    except MemoryError:
        raise UnseenError(f"{path} needs more memory than is free") from None
    except DAMAGE as error:
        raise UnseenError(f"{path} is damaged ({type(error).__name__}: {error}): {AGAIN}") from None


def _solution(saved: dict, arrays: dict, state: dict, records: Records) -> Solution:
    prefix = "projection."
    projection = {key[len(prefix) :]: value for key, value in arrays.items() if key.startswith(prefix)}
    classifiers = arrays["classifiers"]
    return Solution(
        classifiers=classifiers if _is_mapped(classifiers) else classifiers.astype(np.float32),
        projection=from_saved(saved["kind"], projection, saved["settings"]),
        state={key[len("state.") :]: value for key, value in state.items() if key.startswith("state.")},
        record=records.fit,
        answers=arrays.get("answers"),
        trust=arrays.get("trust"),
    )


def _vectors(taxonomy: Taxonomy, parts: tuple[np.ndarray, ...], saved: dict) -> ClassVectors:
    names = tuple(saved["names"])
    return ClassVectors(parts, names, saved["provenance"], Coverage.of(taxonomy, parts, names))


def check_shapes(bundle: Bundle) -> None:
    """Refuse a bundle whose arrays do not fit each other, its classes or its network."""
    solution, where = bundle.solution, bundle.path
    arrays = {"classifiers": solution.classifiers, **_answers_and_trust(solution)}
    arrays |= {f"vectors.{i}": part for i, part in enumerate(bundle.vectors.parts)}
    rows = {key: len(array) for key, array in arrays.items() if array is not None}
    wrong = [f"{key} has {count}" for key, count in rows.items() if count != len(bundle)]
    if wrong:
        raise UnseenError(f"{where}: {len(bundle)} classes, but {', '.join(wrong)} rows: make the bundle again")
    if len(bundle.known) != len(bundle.seen):
        raise UnseenError(f"{where}: {len(bundle.seen)} seen classes, but {len(bundle.known)} known classifiers")
    _check_widths(bundle)
    bundle.taxonomy.indices([*bundle.added, *bundle.connecting, *bundle.taught])
    for id, lesson in bundle.taught.items():
        if (
            lesson.mean.shape != (bundle.backbone.num_features,)
            or lesson.predicted.shape != solution.classifiers[0].shape
        ):
            raise UnseenError(f"{where}: what {id} was taught does not fit its classifiers: make the bundle again")
    finite = _is_mapped(solution.classifiers) or _is_finite(solution.classifiers)
    if not finite or not _is_finite(bundle.known):
        raise UnseenError(f"{where}: the classifiers hold NaN or infinity: make the bundle again")


def _check_widths(bundle: Bundle) -> None:
    """Whether features of the network can be scored."""
    features = bundle.backbone.num_features
    if bundle.known.shape[1:] != (features + 1,):
        raise UnseenError(
            f"{bundle.path}: {features} features, but known classifiers of shape {bundle.known.shape}: "
            "make the bundle again"
        )
    try:
        scored = bundle.solution.projection(np.zeros((1, features), np.float32)) @ bundle.solution.classifiers[:1].T
        fits = scored.shape == (1, 1)
    except (UnseenError, ValueError, IndexError):
        fits = False
    if not fits:
        raise UnseenError(f"{bundle.path}: the classifiers do not fit {features} features: make the bundle again")
