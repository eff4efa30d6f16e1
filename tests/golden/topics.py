"""What the goldens pin, computed through what is public: `unseen`'s names and its command line."""

from __future__ import annotations

import functools
import json
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import unseen

GOLDENS = Path(__file__).resolve().parent / "data"

# -- classifiers of every method ------------------------------------------------------------------------------------

PARENTS = {
    "lonely": [],
    "thing": [],
    "animal": ["thing"],
    "tool": ["thing"],
    "dog": ["animal"],
    "cat": ["animal"],
    "pet": ["animal"],
    "poodle": ["dog", "pet"],
    "beagle": ["dog"],
    "tabby": ["cat", "pet"],
    "tiger": ["cat"],
    "hammer": ["tool"],
    "saw": ["tool"],
    "mallet": ["hammer"],
}
SEEN = ("dog", "beagle", "tabby", "hammer", "animal", "tiger")
WIDTH, PHOTOS = 12, 8
GRAPH = {"epochs": 5, "hidden": 16}
METHODS: dict[str, dict[str, Any]] = {
    "dgp": GRAPH,
    "gat": GRAPH,
    "gcnz": {"epochs": 5, "hidden": [16, 12], "dropped_layers": 1},
    "sgcn": GRAPH,
    "trgcn": GRAPH | {"keys": 8},
    "kin": {},
    "conse": {"top": 3},
    "devise": {"epochs": 3},
    "eszsl": {},
    "exem": {"dims": 4},
    "gaussian-ort": {"steps": 8},
    "network": {},
    "se-gzsl": {"steps": 16, "hidden_units": 16, "latent": 4},
    "structural": {},
    "sync": {"iterations": 4},
}


def rounded(value: float, digits: int = 7) -> float:
    return float(f"{float(value):.{digits}g}")


def summary(matrix: np.ndarray, entries: int, seed: int = 0) -> dict[str, Any]:
    """Shape, sum, norm, and some entries that the seed chooses."""
    flat = np.asarray(matrix, np.float64).reshape(-1)
    places = np.random.default_rng(seed).integers(0, len(flat), entries)
    return {
        "shape": list(matrix.shape),
        "sum": rounded(flat.sum()),
        "norm": rounded(np.linalg.norm(flat)),
        "entries": [rounded(value) for value in flat[places]],
    }


@functools.cache
def method_data() -> tuple[unseen.Hierarchy, np.ndarray, np.ndarray, np.ndarray, str]:
    random = np.random.default_rng(0)
    ids = list(PARENTS)
    hierarchy = unseen.Hierarchy(ids, [(id,) for id in ids], list(PARENTS.values()))
    weight = random.standard_normal((len(SEEN), WIDTH)).astype(np.float32)
    bias = (random.standard_normal(len(SEEN)) / 4).astype(np.float32)
    labels = np.repeat(SEEN, PHOTOS)
    noise = 0.3 * random.standard_normal((len(labels), WIDTH))
    matrix = (np.repeat(weight, PHOTOS, axis=0) + noise).astype(np.float32)
    file = Path(tempfile.mkdtemp(prefix="unseen-golden-")) / "features.npz"
    np.savez(file, features=matrix, labels=labels)
    return hierarchy, weight, bias, matrix, str(file)


def classifiers(method: str) -> dict[str, Any]:
    """Classifiers of a method, and the scores of a few photos."""
    hierarchy, weight, bias, matrix, file = method_data()
    network = unseen.from_linear(weight, bias, SEEN)
    options: dict[str, Any] = dict(METHODS[method], run=unseen.Run(seed=0, device="cpu", show_progress=False))
    try:
        settings = unseen.TrainSettings(features=file)
        model = unseen.train(hierarchy, network, method, "glove", settings, **options)
    except unseen.UnseenError:  # it does not learn from photos
        model = unseen.train(hierarchy, network, method, "glove", **options)
    rows, photos = model.bundle.solution.classifiers, matrix[[0, PHOTOS, 3 * PHOTOS]]
    scores = model.scores(photos)
    return {
        "settings": METHODS[method],
        "classifiers": summary(rows, 20),
        "row_norms": [rounded(norm) for norm in np.linalg.norm(np.asarray(rows, np.float64), axis=1)],
        "classes": model.classes,
        "scores": [[rounded(score) if np.isfinite(score) else None for score in photo] for photo in scores],
    }


# -- the default bundle ------------------------------------------------------------------------------------------------


@functools.cache
def default_model() -> unseen.Model:
    return unseen.load(device="cpu")


def kin_default() -> dict[str, Any]:
    """kin on the embedded hierarchy: rows, entries, and where some classes borrow from."""
    model = default_model()
    bundle = model.bundle
    matrix = bundle.solution.classifiers
    random = np.random.default_rng(0)
    rows = np.sort(random.choice(len(matrix), 50, replace=False))
    columns = random.integers(0, matrix.shape[1], 50)
    some = np.asarray(matrix[rows], np.float64)
    explained = {}
    for row in rows[::5]:
        why = model.explain(bundle.ids[row])
        explained[bundle.ids[row]] = [[near.id, near.name] for near in why.neighbours]
    return {
        "shape": list(matrix.shape),
        "classes": len(model.classes),
        "unseen": len(model.candidates("unseen")),
        "rows": [bundle.ids[row] for row in rows],
        "norms": [rounded(norm) for norm in np.linalg.norm(some, axis=1)],
        "entries": [rounded(value) for value in some[np.arange(50), columns]],
        "explained": explained,
    }


# -- answers -----------------------------------------------------------------------------------------------------------

ANSWERED = 200  # of the chosen photos
LIST = ["okapi", "zebra", "cat", "wheelie bin", "coffee cup", "rocket"]
SETTINGS: dict[str, dict[str, Any]] = {
    "any": {},
    "any-confidence-0.8": {"confidence": 0.8},
    "unseen": {"candidates": "unseen"},
    "subtree-feline": {"candidates": "subtree:feline"},
    "prior-uniform": {"prior": "uniform"},
    "among": {"among": LIST},
}
GUESSES = {"any", "unseen"}


def samples() -> list[Path]:
    """The photos in the package."""
    return sorted(Path(unseen.__file__).parent.rglob("samples/*.jpg"), key=lambda path: path.name)


def choose_photos(folder: Path) -> list[str]:
    """100 photos of unseen classes, 60 of seen-val, 40 of seen-train; and 100 more, for the tables alone."""
    random, first, more = np.random.default_rng(0), [], []
    for part, count, others in (("unseen", 100, 60), ("seen-val", 60, 40), ("seen-train", 40, 0)):
        names = sorted(path.relative_to(folder).as_posix() for path in folder.glob(f"{part}/*/*") if path.is_file())
        chosen = [names[place] for place in random.choice(len(names), count + others, replace=False)]
        first += sorted(chosen[:count])
        more += sorted(chosen[count:])
    return first + more


def answer_row(answer: unseen.Answer, guesses: bool) -> dict[str, Any]:
    verdict = answer.verdict
    row: dict[str, Any] = {
        "verdict": [verdict.id, None if verdict.probability is None else round(verdict.probability, 6)],
        "labels": [[label.id, round(label.probability, 6)] for label in answer],
    }
    if guesses:
        row["guesses"] = [[guess.title, round(guess.probability, 6)] for guess in answer.guesses]
    if answer.none is not None:
        row["none"] = round(answer.none, 6)
    return row


def answers(setting: str, features: np.ndarray, **others: Any) -> list[dict[str, Any]]:
    """The answer for each row of features in one of SETTINGS."""
    options = SETTINGS[setting] | others
    model = default_model()
    if names := options.pop("among", None):
        model = model.among(names)
    found = model.answers(features, **options)
    return [answer_row(answer, setting in GUESSES) for answer in found]


@functools.cache
def sample_features() -> np.ndarray:
    return default_model().features(samples())


@functools.cache
def photo_features(folder: Path, names: tuple[str, ...]) -> np.ndarray:
    return default_model().features([folder / name for name in names])


def probabilities(features: np.ndarray) -> dict[str, Any]:
    """Columns of `predict_proba`, and the best of each row."""
    model = default_model()
    found, classes = model.predict_proba(features=features), model.classes
    columns = np.random.default_rng(0).choice(found.shape[1], 50, replace=False)
    sums, best = found.sum(axis=0, dtype=np.float64), found.argmax(axis=1)
    return {
        "shape": list(found.shape),
        "largest": [[classes[column], rounded(sums[column])] for column in np.argsort(-sums, kind="stable")[:50]],
        "columns": [[classes[column], rounded(sums[column])] for column in columns],
        "row_sums": [round(float(total), 5) for total in found.sum(axis=1, dtype=np.float64)],
        "best": [[classes[column], round(float(row[column]), 6)] for row, column in zip(found, best, strict=True)],
    }


def sample_answers() -> dict[str, Any]:
    """One by one, as a user asks; and in the other settings."""
    model = default_model()
    rows = [answer_row(model.classify(path), True) for path in samples()]
    feature = sample_features()
    heat = model.heatmap(next(path for path in samples() if path.stem == "cat"), "tabby cat")
    return {
        "photos": [path.name for path in samples()],
        "features": summary(feature, 50),
        "classify": rows,
        "listed": [[item.id, item.note] for item in model.among(LIST).listed],
        "settings": {setting: answers(setting, feature) for setting in SETTINGS},
        "heatmap": summary(np.asarray(heat.cells), 30),
    }


# -- tables ------------------------------------------------------------------------------------------------------------

TABLES: dict[str, dict[str, Any]] = {
    "2-hops": {"candidates": "2-hops"},
    "2-hops+1K": {"candidates": "2-hops", "with_seen": True},
    "3-hops": {"candidates": "3-hops"},
    "all": {"candidates": "all"},
    "any": {"candidates": "any", "photos_of": "both"},
    "unseen-leaves": {"candidates": "unseen&leaves"},
    "any-common": {"candidates": "any", "photos_of": "both", "prior": "common", "confidence": 0.8},
}


def table(name: str, features: np.ndarray, names: Sequence[str]) -> dict[str, Any]:
    """`evaluate`'s figures; the curves are left out, which say the same at many places."""
    labels = [photo.split("/")[1] for photo in names]
    options = dict(TABLES[name])
    result = default_model().evaluate((features, labels), options.pop("candidates"), **options).to_dict()
    return round_all({key: value for key, value in result.items() if key not in ("curve", "verdict_curve")})


def round_all(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): round_all(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [round_all(one) for one in value]
    if isinstance(value, (float, np.floating)):
        return rounded(value, 8)
    return value.item() if isinstance(value, np.generic) else value


# -- comparison --------------------------------------------------------------------------------------------------------


# Figures that jump where two nodes of the hierarchy tie, as "mammal" and "placental" often do.
LOOSE = {"hierarchical": 1e-2, "reliability": 1e-2}


def differences(old: Any, new: Any, tolerance: float, place: str = "") -> Iterator[str]:
    """Where two results differ by more than `tolerance`, relative above 1 and absolute below."""
    numbers = (int, float)
    if isinstance(old, dict) and isinstance(new, dict):
        for key in old.keys() | new.keys():
            if key not in new or key not in old:
                yield f"{place}.{key}: only in the {'golden' if key in old else 'new result'}"
            else:
                loose = max(tolerance, LOOSE.get(key, 0))
                yield from differences(old[key], new[key], loose, f"{place}.{key}")
    elif is_ranking(old) and is_ranking(new):
        yield from ranking_differences(old, new, tolerance, place)
    elif isinstance(old, list) and isinstance(new, list):
        if len(old) != len(new):
            yield f"{place}: {len(old)} items, now {len(new)}"
        for number, (one, other) in enumerate(zip(old, new, strict=False)):
            yield from differences(one, other, tolerance, f"{place}[{number}]")
    elif isinstance(old, bool) or isinstance(new, bool) or not (isinstance(old, numbers) and isinstance(new, numbers)):
        if old != new:
            yield f"{place}: {old!r}, now {new!r}"
    elif isinstance(old, float) or isinstance(new, float):
        if not abs(old - new) <= tolerance * max(1, abs(old), abs(new)):
            yield f"{place}: {old}, now {new}"
    elif old != new and not (tolerance >= min(LOOSE.values()) and abs(old - new) <= max(2, tolerance * old)):
        yield f"{place}: {old}, now {new}"


def is_ranking(value: Any) -> bool:
    """[[id, number], ...] from the largest number down."""
    if not isinstance(value, list) or not value:
        return False
    if not all(isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], str) for pair in value):
        return False
    numbers = [pair[1] for pair in value]
    return all(isinstance(number, float) for number in numbers) and numbers == sorted(numbers, reverse=True)


def ranking_differences(old: list, new: list, tolerance: float, place: str) -> Iterator[str]:
    """Ids may change places only where their numbers tie."""
    if len(old) != len(new):
        yield f"{place}: {len(old)} items, now {len(new)}"
        return
    then, now = dict(old), dict(new)
    last = old[-1][1] + 2 * tolerance
    for (id, number), (other, value) in zip(old, new, strict=True):
        if abs(number - value) > tolerance * max(1, abs(number)):
            yield f"{place}: {id} {number}, now {other} {value}"
        elif id != other:
            stays = abs(now[id] - number) <= 2 * tolerance if id in now else number <= last
            came = abs(then[other] - value) <= 2 * tolerance if other in then else value <= last
            if not (stays and came):
                yield f"{place}: {id} {number}, now {other} {value}"


# -- files -------------------------------------------------------------------------------------------------------------


def file_of(topic: str) -> Path:
    return GOLDENS / f"{topic}.json"


def read(topic: str) -> Any:
    return json.loads(file_of(topic).read_text(encoding="utf-8"))


def write(topic: str, result: Any) -> None:
    """A line for each photo, command and the like, so that a change is a small diff."""
    file_of(topic).parent.mkdir(parents=True, exist_ok=True)
    file_of(topic).write_text(lines(result) + "\n", encoding="utf-8")


def lines(value: Any) -> str:
    if isinstance(value, dict):
        parts = [f"{json.dumps(key)}:{lines(one)}" for key, one in value.items()]
        return "{\n" + ",\n".join(parts) + "\n}"
    if isinstance(value, list) and any(isinstance(one, dict) for one in value):
        return "[\n" + ",\n".join(compact(one) for one in value) + "\n]"
    return compact(value)


def compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
