"""Labels for any number of photos in one file, which a later run completes; by threads, processes or Ray.

    labels.jsonl     a JSON object a photo: "photo", the fields of an answer or "unreadable": why, and "version"
    labels.csv       a row a photo, with the columns of `label_columns`
    labels.parquet   the same columns with their types

While photos are labelled, their rows are collected in a `util.table` beside the file, labels.csv.parts; the file itself
is written at the end. The version of a photo is the size of its file and the time of its last change: a photo that has
another one by now, or that could not be read, is labelled again. Rows are in the order of the inputs, after those of
photos that only earlier runs were given. They are the same to the last digit whichever engine made them.
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import pickle
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

import numpy as np

from unseen.answers.answer import Answer, Unreadable
from unseen.answers.prior import Prior
from unseen.answers.probability import CONFIDENCE
from unseen.bundle.file import bundle_checksum
from unseen.model import Model, load
from unseen.photos.inputs import NAMES, PHOTOS, AtUrl, Item, is_url, version_of
from unseen.photos.reading import Source
from unseen.util.devices import cpu_count
from unseen.util.errors import UnseenError
from unseen.util.files import replacing
from unseen.util.names import how_to_install
from unseen.util.run import progress
from unseen.util.safe_text import to_csv
from unseen.util.table import Row, Table, open_table

if TYPE_CHECKING:
    import pandas

ENGINES = ("local", "ray")
CHUNK = 32  # photos that another process labels at a time
FORMAT = 3  # of the rows


class Photo(NamedTuple):
    """A photo to label, and what its file was when it was listed."""

    name: str
    source: Source
    version: str


class Labeller:
    """Labels a batch of photos: a callable that can be pickled, for Ray Data, Spark, Dask and their like.

    Args:
        model: A model, which is pickled with all its classes; or the file of a bundle (None: the default one), which
            each process loads once, when it labels its first batch.
        column: The batch's column of photos: paths, URLs, bytes, {bytes, path} or arrays; by default one with a
            usual name, such as photo, image, path, url or bytes.
        key: The column that the result calls `photo`; by default one called key, id or name, or the path.
        device: auto, cpu, cuda; where the bundle is named.
        **settings: `k`, `among` and the other settings of `Model.classify`.

    A batch is a DataFrame, a dict of columns, or an iterator of these (as Spark's `mapInPandas` has it). The result is
    a DataFrame with a row for each photo, in their order, and the columns `columns`; `schema` has them in Spark's
    words, `meta` is the empty DataFrame that Dask asks for.

    >>> from unseen.examples import fruits, photo
    >>> photo("crimson").save("1.png")
    >>> labeller = Labeller(fruits(), k=1, candidates=["lemon", "raspberry"])
    >>> labels = labeller({"id": ["first", "second"], "path": ["1.png", "nowhere.png"]})
    >>> labels["photo"].tolist(), labels["id_1"].tolist(), labels["unreadable"][1]
    (['first', 'second'], ['raspberry', None], 'cannot be opened (No such file or directory).')
    """

    def __init__(
        self,
        model: Model | str | Path | None = None,
        column: str | None = None,
        key: str | None = None,
        device: str = "auto",
        **settings: Any,
    ):
        self.given = model if isinstance(model, Model) or model is None else str(model)
        self.column, self.key, self.device = column, key, device
        self.k, self.among, self.settings = settings.pop("k", 5), settings.pop("among", None), settings

    @property
    def model(self) -> Model:
        model = self.given if isinstance(self.given, Model) else _load_once(self.given, self.device)
        return model if self.among is None else model.among(self.among)

    @property
    def columns(self) -> list[str]:
        return label_columns(self.k)[:-1]

    @property
    def schema(self) -> str:
        return ", ".join(f"{name} {'double' if _is_number(name) else 'string'}" for name in self.columns)

    @property
    def meta(self) -> pandas.DataFrame:
        return self._frame([])

    def __call__(self, batch: Any) -> Any:
        if isinstance(batch, Iterator):
            return map(self, batch)
        if hasattr(batch, "to_pydict"):  # a table of Arrow
            batch = batch.to_pydict()
        names = list(batch.columns) if hasattr(batch, "columns") else list(batch)
        column = self.column or next((name for name in PHOTOS if name in names), None)
        key = self.key or next((name for name in NAMES if name in names), column)
        for name in (column, key):
            if name not in names:
                what = f"has no column {name}" if name else "has no column of photos by a usual name: choose one"
                raise UnseenError(f"the batch {what}; there are: {', '.join(map(str, names)) or 'none'}")
        photos = [_as_source(value) for value in batch[column]]
        texts = [str(name) if isinstance(name, (str, int, np.integer)) else "" for name in batch[key]]
        rows = [cells(name, answer, self.k) for name, answer in zip(texts, self.answers(photos), strict=True)]
        return self._frame(rows)

    def answers(self, photos: Iterable[Source]) -> Iterator[Answer | Unreadable]:
        """Answers one by one."""
        return self.model.stream(photos, self.k, **self.settings)

    def _frame(self, rows: list[list[Any]]) -> pandas.DataFrame:
        try:
            import pandas
        except ImportError:
            raise UnseenError(f"a Labeller makes tables of pandas: {how_to_install('bulk')}") from None
        values = {
            name: pandas.Series([row[at] for row in rows], dtype="float64" if _is_number(name) else "object")
            for at, name in enumerate(self.columns)
        }
        return pandas.DataFrame(values)


@lru_cache(maxsize=2)
def _load_once(bundle: str | None, device: str) -> Model:
    return load(bundle, device=device)


def _as_source(value: Any) -> Source:
    """A cell of a batch as `read_photo` takes it."""
    if isinstance(value, dict):  # as Hugging Face keeps photos
        value = value.get("bytes") or value.get("path") or b""
    return AtUrl(value) if isinstance(value, str) and is_url(value) else value


@dataclass(frozen=True)
class Batch:
    """What `label_photos` did."""

    out: str
    labelled: int  # photos that got their labels now
    already: int  # photos that had them
    again: list[str]  # photos with a row that had changed since or could not be read
    unreadable: list[Unreadable]  # of the photos of this run
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        rate = (self.labelled + len(self.unreadable)) / self.seconds if self.seconds else 0.0
        return asdict(self) | {"seconds": round(self.seconds, 2), "photos_per_s": round(rate, 1)}


def label_photos(
    model: Model,
    photos: Iterable[tuple[str, Source] | Item],
    out: str | Path,
    k: int = 5,
    *,
    engine: str = "local",
    workers: int = 1,
    show_progress: bool = False,
    **settings: Any,
) -> Batch:
    """Complete the file `out` with the labels of photos, given by name and source.

    `workers` are processes of this machine, or Ray's actors (0: as many as the cluster has room for); 1 local one is
    this process with its threads. `settings` are those of `Model.stream`: candidates, confidence, prior, seen_share.
    """
    out, started = Path(out), time.monotonic()
    check_format(out)
    if engine not in ENGINES:
        raise UnseenError(f"there is no engine {engine!r}; there are: {', '.join(ENGINES)}")
    model.stream([], k, **settings)  # or an error, before anything is written
    made_by = _made_by(model, k, settings)
    with open_table(parts_of(out), "labels", str(out)) as table:
        _check_same(out, table.made_by, made_by)
        table.start(made_by)
        total = len(photos) if isinstance(photos, Sized) else None
        names: dict[str, bool] = {}  # in the order of the inputs: whether the photo had its labels
        again: list[str] = []
        unreadable: list[Unreadable] = []

        def waiting() -> Iterator[Photo]:
            for name, source, *_ in photos:
                version = version_of(source)
                names[name] = table.is_current(name, version, retry=True)
                if not names[name]:
                    again.extend([name] if name in table.entries else [])
                    yield Photo(name, source, version)
                bar.advance(int(names[name]))

        with progress("Looking at photos", total, enabled=show_progress) as bar:
            for row in _label(Labeller(model, k=k, **settings), waiting(), out.suffix.lower(), engine, workers):
                table.add(row)
                unreadable.extend([Unreadable(row.key, row.why)] if row.why else [])
                bar.advance(1)
        table.flush()
        _write(out, table, names, k)
    already = sum(names.values())
    labelled = len(names) - already - len(unreadable)
    return Batch(str(out), labelled, already, again, unreadable, time.monotonic() - started)


def parts_of(out: Path) -> Path:
    """Where rows are collected before the file is written."""
    return out.with_name(f"{out.name}.parts")


def check_format(out: Path) -> None:
    if out.suffix.lower() not in WRITERS:
        raise UnseenError(f"{out}: labels are written as {', '.join(WRITERS)}: end the name in one of these")
    if out.suffix.lower() == ".parquet":
        _import_parquet()


def _made_by(model: Model, k: int, settings: Mapping[str, Any]) -> dict[str, Any]:
    """What all rows of a file must share, by the name of the option that says it."""
    prior, ids, hierarchy = settings.get("prior"), model.bundle.ids, model.bundle.hierarchy
    chosen: list[Any] = [ids[row] for row in model.candidates(settings.get("candidates", "any")).tolist()]
    if model.listed:  # other probabilities than those of candidates, and perhaps classes that the file does not have
        chosen = [[id, hierarchy.name(id), hierarchy.look(id), hierarchy.parents(id)] for id in chosen]
    place = model.bundle.path or model.bundle.origin  # without one, a bundle cannot be distinguished from another
    return {
        "version of unseen": FORMAT,
        "--bundle": None if place is None else bundle_checksum(place),
        "--among" if model.listed else "--candidates": hashlib.sha256(json.dumps(chosen).encode()).hexdigest(),
        "-k": k,
        "--confidence": settings.get("confidence", CONFIDENCE),
        "--seen-share": settings.get("seen_share", 0.5),
        "--prior": (model.prior if prior is None else Prior.read(prior, hierarchy)).to_json(),
    }


def _check_same(out: Path, before: dict[str, Any] | None, now: dict[str, Any]) -> None:
    """Refuse to continue labels that were made in another way, or to replace a file that is not ours."""
    if before is None:
        if out.exists():
            parts = parts_of(out).name
            raise UnseenError(f"{out}: exists, and {parts}, which labels are made from, does not. Choose another file.")
        return
    changed = [option for option in before | now if before.get(option) != now.get(option)]
    if changed:
        numbers = [option for option in changed if isinstance(before.get(option), (int, float)) and now.get(option)]
        what = [f"{it} {before[it]}, not {now[it]}" if it in numbers else f"another {it}" for it in changed]
        raise UnseenError(
            f"{out}: was made with {', with '.join(what)}. Choose another file, or delete it with its parts."
        )


# -- engines: photos to rows -----------------------------------------------------------------------------------------


def _label(labeller: Labeller, photos: Iterator[Photo], suffix: str, engine: str, workers: int) -> Iterator[Row]:
    """The rows of photos, in their order."""
    if engine == "local" and workers <= 1:
        yield from _rows(labeller, photos, suffix)
        return
    chunks = iter(lambda: list(islice(photos, CHUNK)), [])
    for rows in (_by_ray if engine == "ray" else _by_processes)(labeller, chunks, suffix, workers):
        yield from rows


def _rows(labeller: Labeller, photos: Iterable[Photo], suffix: str) -> Iterator[Row]:
    begun: deque[Photo] = deque()

    def sources() -> Iterator[Source]:
        for photo in photos:
            begun.append(photo)
            yield photo.source

    for answer in labeller.answers(sources()):
        name, _, version = begun.popleft()
        why = answer.why if isinstance(answer, Unreadable) else ""
        record = _as_json(name, answer) if suffix == ".jsonl" else cells(name, answer, labeller.k)
        yield Row(name, version, record, why)


class _Worker:
    """What a process or an actor does: it keeps the model, and labels chunk after chunk."""

    def __init__(self, labeller: bytes, suffix: str, threads: int):
        os.environ["OMP_NUM_THREADS"] = str(threads)
        self.labeller, self.suffix = pickle.loads(labeller), suffix  # from our own parent process

    def label(self, chunk: list[Photo]) -> list[Row]:
        return list(_rows(self.labeller, chunk, self.suffix))


_worker: _Worker  # of this process, if it is one of several


def _start_worker(*given: Any) -> None:
    global _worker
    _worker = _Worker(*given)
    parent = multiprocessing.parent_process()
    if parent is not None:  # it may be killed, and nobody else would end this process
        Thread(target=lambda: (parent.join(), os._exit(1)), daemon=True).start()


def _label_in_worker(chunk: list[Photo]) -> list[Row]:
    return _worker.label(chunk)


def _in_order(chunks: Iterator[list[Photo]], most: int, submit: Callable, result: Callable) -> Iterator[list[Row]]:
    """The rows of chunks, in their order; only `most` chunks are under way."""
    waiting: deque[Any] = deque()
    for chunk in chunks:
        waiting.append(submit(chunk))
        if len(waiting) > most:
            yield result(waiting.popleft())
    while waiting:
        yield result(waiting.popleft())


def _by_processes(labeller: Labeller, chunks: Iterator[list[Photo]], suffix: str, workers: int) -> Iterator[list[Row]]:
    given = pickle.dumps(labeller), suffix, max(1, cpu_count() // workers)
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(workers, context, initializer=_start_worker, initargs=given)
    try:
        yield from _in_order(
            chunks, 2 * workers, lambda chunk: pool.submit(_label_in_worker, chunk), lambda it: it.result()
        )
    except BrokenProcessPool:
        raise UnseenError(
            "a process that labels photos ended unexpectedly, perhaps for lack of memory. What is done is kept: "
            "run it again, with fewer workers."
        ) from None
    finally:
        pool.shutdown(cancel_futures=True)


def _by_ray(labeller: Labeller, chunks: Iterator[list[Photo]], suffix: str, workers: int) -> Iterator[list[Row]]:
    """Each of Ray's actors loads the model once, and labels chunks in turn."""
    try:
        import ray
    except ImportError as error:
        raise UnseenError(f"the engine ray needs Ray: {how_to_install('ray')} ({error})") from None
    if not ray.is_initialized():
        ray.init(log_to_driver=False, include_dashboard=False)  # or the cluster that RAY_ADDRESS names
    resources = ray.cluster_resources()
    on_gpu = labeller.model.device.startswith("cuda") or (labeller.model.device == "auto" and "GPU" in resources)
    room = int(resources.get("GPU" if on_gpu else "CPU", 1)) - (0 if on_gpu else int(not workers))
    needs: Any = {"num_gpus": 1} if on_gpu else {"num_cpus": 1}
    start: Any = ray.remote(max_restarts=-1, max_task_retries=-1, **needs)(_Worker)
    given = ray.put(pickle.dumps(labeller))
    actors = deque(start.remote(given, suffix, 1) for _ in range(max(1, workers or room)))

    def submit(chunk: list[Photo]) -> Any:
        actors.rotate(-1)
        return actors[0].label.remote(chunk)

    yield from _in_order(chunks, 2 * len(actors), submit, ray.get)


# -- rows and files --------------------------------------------------------------------------------------------------


def label_columns(k: int) -> list[str]:
    """What a row of a table holds.

    >>> label_columns(1)[4:]
    ['verdict_level', 'id_1', 'name_1', 'probability_1', 'unreadable', 'version']
    """
    verdict = [f"verdict_{field}" for field in ("id", "name", "probability", "level")]
    labels = [f"{field}_{place}" for place in range(1, k + 1) for field in ("id", "name", "probability")]
    return ["photo", *verdict, *labels, "unreadable", "version"]


def _is_number(column: str) -> bool:
    return column.startswith(("probability_", "verdict_probability"))


def cells(name: str, answer: Answer | Unreadable, k: int) -> list[Any]:
    """The row of a photo, without its version: texts, probabilities to six digits, and None where there is nothing."""
    if isinstance(answer, Unreadable):
        return [name, *[None] * (4 + 3 * k), answer.why]
    verdict = answer.verdict
    row = [name, verdict.id, verdict.name, verdict.probability, verdict.level]
    row += [cell for label in answer for cell in (label.id, label.name, label.probability)]
    row = [round(cell, 6) if isinstance(cell, float) else cell for cell in row]
    return [*row, *[None] * (6 + 3 * k - len(row))]


def _as_json(name: str, answer: Answer | Unreadable) -> dict[str, Any]:
    return {"photo": name} | ({"unreadable": answer.why} if isinstance(answer, Unreadable) else answer.to_dict())


def _write(out: Path, table: Table, names: Iterable[str], k: int) -> None:
    """The file of all rows: first those of photos that only earlier runs had, then these."""
    order = dict.fromkeys(names)
    keys = [key for key in table.entries if key not in order] + list(order)
    versions = (table.entries[key].version for key in keys)
    with replacing(out) as file:
        WRITERS[out.suffix.lower()](file, zip(table.read(keys), versions, strict=True), label_columns(k))


Rows = Iterator[tuple[Any, str]]  # record and version


def _write_csv(file: BinaryIO, rows: Rows, columns: Sequence[str]) -> None:
    file.write(to_csv([columns]).encode())
    for row, version in rows:
        texts = ["" if cell is None else f"{cell:.6f}" if isinstance(cell, float) else cell for cell in [*row, version]]
        file.write(to_csv([texts]).encode("utf-8", "surrogateescape"))


def _write_json(file: BinaryIO, rows: Rows, columns: Sequence[str]) -> None:
    for record, version in rows:
        line = json.dumps(record | {"version": version}, ensure_ascii=False)
        try:
            file.write(line.encode() + b"\n")
        except UnicodeEncodeError:  # the name of a file that is not UTF-8
            file.write(json.dumps(record | {"version": version}).encode() + b"\n")


def _write_parquet(file: BinaryIO, rows: Rows, columns: Sequence[str]) -> None:
    pyarrow, parquet = _import_parquet()
    kinds = [pyarrow.float64() if _is_number(name) else pyarrow.string() for name in columns]
    schema = pyarrow.schema(list(zip(columns, kinds, strict=True)))
    with parquet.ParquetWriter(file, schema) as writer:
        while some := [[*row, version or None] for row, version in islice(rows, 65_536)]:
            values = [list(map(_utf8, column)) for column in zip(*some, strict=True)]
            writer.write_table(pyarrow.table(dict(zip(columns, values, strict=True)), schema))


def _utf8(cell: Any) -> Any:
    """A text for parquet, which has no other: bytes of a file's name that are not UTF-8 are escaped."""
    is_text = isinstance(cell, str)
    return cell.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace") if is_text else cell


def _import_parquet() -> tuple[Any, Any]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise UnseenError(f"labels in a parquet file need pyarrow: {how_to_install('bulk')}") from None
    return pyarrow, pyarrow.parquet


WRITERS = {".csv": _write_csv, ".jsonl": _write_json, ".parquet": _write_parquet}
