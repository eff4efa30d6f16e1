"""Labels for any number of photos, in a file that a later run completes; by threads, processes, shards or Ray.

    labels.jsonl     a JSON object a photo: "photo", the fields of an answer or "unreadable": why, and "version"
    labels.csv       a row a photo, with the columns of `label_columns`
    labels.parquet   the same columns with their types

Rows are in the order of the inputs. The version of a photo is the size of its file and the time of its last change. A
photo that has another one by now, or that could not be read, is labelled again. Beside the labels, `.labels.csv.json`
keeps which bundle and settings they come from: others would not fit into one file. A parquet file is written last:
until then its rows are in `.labels.parquet.part`.

Photos are labelled in chunks, and an engine is a way to map chunks to rows, in their order: only this process writes.
A shard is a consecutive part of the inputs with a file of its own, labels-00003-of-00008.csv; a run without shards
joins what it finds of them. The rows are the same to the last digit whichever way.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import multiprocessing
import os
import pickle
import re
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import lru_cache
from itertools import islice, pairwise
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

import numpy as np

from unseen.answers.answer import Answer, Unreadable
from unseen.answers.prior import Prior
from unseen.answers.probability import CONFIDENCE
from unseen.bundle.file import bundle_checksum
from unseen.model import Model, load
from unseen.photos.inputs import NAMES, PHOTOS, AtUrl, is_url, version_of
from unseen.photos.reading import Source
from unseen.util.errors import UnseenError
from unseen.util.files import locked, replacing, write_atomically, writing
from unseen.util.names import how_to_install
from unseen.util.run import progress
from unseen.util.safe_text import csv_text, to_csv

if TYPE_CHECKING:
    import pandas

FORMATS = (".csv", ".jsonl", ".parquet")
ENGINES = ("local", "ray")
TOGETHER = 32  # photos whose labels are written at once, and reach the disk before the next ones
CHUNK = 128  # photos, at most, that another process labels at a time
FORMAT = 2  # of the rows
LONGEST = 1 << 20  # bytes of a row: more is damage, such as a quotation mark too many
SHARD = re.compile(r"-\d{5}-of-\d{5}$")


class Photo(NamedTuple):
    """A photo to label, and what its file was when the run began."""

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

    def answers(self, photos: Sequence[Source]) -> Iterator[Answer | Unreadable]:
        """Answers one by one; always by the same arithmetic, however many photos there are."""
        return self.model.stream(photos, self.k, **self.settings, even=True)

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
    already: int  # that were in the file
    again: list[str]  # photos that were in the file, but had changed since or could not be read
    unreadable: list[Unreadable]  # of the photos of this run
    seconds: float

    def as_dict(self) -> dict[str, Any]:
        rate = (self.labelled + len(self.unreadable)) / self.seconds if self.seconds else 0.0
        return asdict(self) | {"seconds": round(self.seconds, 2), "photos_per_s": round(rate, 1)}


def label_photos(
    model: Model,
    photos: Sequence[tuple[str, Source]],
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
    this process with its threads. `settings` are those of `Model.stream`: candidates, seen_shift, confidence, prior.
    """
    out, started = Path(out), time.monotonic()
    check_format(out)
    if engine not in ENGINES:
        raise UnseenError(f"there is no engine {engine!r}; there are: {', '.join(ENGINES)}")
    model.stream([], k, **settings)  # or an error, before the file is touched
    made_by = _made_by(model, k, settings)
    versions = {name: _version(source) for name, source in photos}  # now: a later change is noticed the next time
    joined = _find_joined(out, made_by, k, versions)
    with open_labels(out, made_by, k, versions) as (file, done, again):
        done |= joined
        waiting = [Photo(name, source, versions[name]) for name, source in photos if name not in done]
        labeller, labelled, unreadable = Labeller(model, k=k, **settings), 0, []
        with progress("Looking at photos", len(waiting), enabled=show_progress and len(waiting) > TOGETHER) as bar:
            for count, failed, lines in _map(labeller, waiting, out.suffix.lower() == ".jsonl", engine, workers):
                labelled, unreadable = labelled + count - len(failed), unreadable + failed
                with writing(out):
                    file.write(lines)
                    file.flush()
                    os.fsync(file.fileno())
                rate = (labelled + len(unreadable)) / (time.monotonic() - started)
                bar.advance(count, rate=f"{rate:.0f}/s")
    already = sum(name in done for name, _ in photos)
    return Batch(str(out), labelled, already, again, unreadable, time.monotonic() - started)


def _made_by(model: Model, k: int, settings: Mapping[str, Any]) -> dict[str, Any]:
    prior, ids, hierarchy = settings.get("prior"), model.bundle.ids, model.bundle.hierarchy
    chosen: list[Any] = [ids[row] for row in model.candidates(settings.get("candidates", "any")).tolist()]
    if model.listed:  # other probabilities than those of candidates, and perhaps classes that the file does not have
        chosen = [[id, hierarchy.name(id), hierarchy.look(id), hierarchy.parents(id)] for id in chosen]
    place = model.bundle.path or model.bundle.origin  # without one, a bundle cannot be distinguished from another
    return {
        "format": FORMAT,
        "bundle": None if place is None else bundle_checksum(place),
        "candidates": hashlib.sha256(json.dumps(chosen).encode()).hexdigest(),
        "k": k,
        "sure": settings.get("confidence", CONFIDENCE),
        "seen_shift": settings.get("seen_shift"),
        "prior": (model.prior if prior is None else Prior.read(prior, hierarchy)).to_json(),
    }


def _version(source: Source) -> str:
    """Of a file, or the checksum of bytes; "" where there is neither: the name must do."""
    if isinstance(source, (bytes, bytearray, memoryview)):
        return hashlib.sha256(source).hexdigest()[:16]
    return version_of(source)


def check_format(out: Path) -> None:
    if out.suffix.lower() not in FORMATS:
        raise UnseenError(f"{out}: labels are written as {', '.join(FORMATS)}: end the name in one of these")
    if out.suffix.lower() == ".parquet":
        _parquet()


def take_shard(photos: Sequence[Any], out: Path, shard: int, shards: int) -> tuple[Sequence[Any], Path]:
    """The photos of a shard, 0 to shards - 1, and the file of their labels. Shards are consecutive.

    >>> take_shard(list("abcde"), Path("labels.csv"), 1, 2)
    (['c', 'd', 'e'], PosixPath('labels-00001-of-00002.csv'))
    """
    first, end = (len(photos) * at // shards for at in (shard, shard + 1))
    return photos[first:end], out.with_name(f"{out.stem}-{shard:05d}-of-{shards:05d}{out.suffix}")


# -- engines: chunks of photos to rows -------------------------------------------------------------------------------

Rows = tuple[int, list[Unreadable], bytes]  # how many photos, those that could not be read, and the rows of all


def _map(labeller: Labeller, photos: list[Photo], as_json: bool, engine: str, workers: int) -> Iterator[Rows]:
    """The rows of photos, chunk by chunk in their order."""
    if not photos:
        return
    if engine == "local" and workers <= 1:
        answers = labeller.answers([photo.source for photo in photos])
        for start in range(0, len(photos), TOGETHER):
            yield _rows(photos[start : start + TOGETHER], answers, labeller.k, as_json)
        return
    size = max(1, min(CHUNK, -(-len(photos) // (4 * max(workers, 4)))))
    chunks = [photos[start : start + size] for start in range(0, len(photos), size)]
    yield from (_by_ray if engine == "ray" else _by_processes)(labeller, chunks, as_json, workers)


def _rows(photos: Sequence[Photo], answers: Iterator[Answer | Unreadable], k: int, as_json: bool) -> Rows:
    failed, lines = [], []
    for photo, answer in zip(photos, answers, strict=False):  # photos first: no answer is lost
        if isinstance(answer, Unreadable):
            failed.append(Unreadable(photo.name, answer.why))
        lines.append(_line(photo.name, answer, k, photo.version, as_json))
    return len(lines), failed, b"".join(lines)


class ChunkLabeller:
    """What a process or an actor does: it keeps the model, and labels chunk after chunk."""

    def __init__(self, labeller: bytes, as_json: bool, threads: int):
        import torch

        torch.set_num_threads(threads)
        self.labeller, self.as_json = pickle.loads(labeller), as_json  # from our own parent process

    def label(self, chunk: list[Photo]) -> Rows:
        return _rows(chunk, self.labeller.answers([photo.source for photo in chunk]), self.labeller.k, self.as_json)

    def __call__(self, batch: dict[str, Any]) -> dict[str, list[bytes]]:  # Ray Data's
        return {"rows": [pickle.dumps(self.label(pickle.loads(chunk))) for chunk in batch["chunk"]]}


_of_process: list[ChunkLabeller] = []  # in a worker process, its own


def _start_process(*given: Any) -> None:
    _of_process[:] = [ChunkLabeller(*given)]
    parent = multiprocessing.parent_process()
    if parent is not None:  # it may be killed, and nobody else would end this process
        Thread(target=lambda: (parent.join(), os._exit(1)), daemon=True).start()


def _label_in_process(chunk: list[Photo]) -> Rows:
    return _of_process[0].label(chunk)


def _by_processes(labeller: Labeller, chunks: list[list[Photo]], as_json: bool, workers: int) -> Iterator[Rows]:
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    given = pickle.dumps(labeller), as_json, max(1, cpus // workers)
    context, waiting = multiprocessing.get_context("spawn"), deque[Future[Rows]]()
    with ProcessPoolExecutor(workers, context, initializer=_start_process, initargs=given) as pool:
        try:
            for chunk in chunks:
                waiting.append(pool.submit(_label_in_process, chunk))
                if len(waiting) > 2 * workers:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        except BrokenProcessPool:
            raise UnseenError(
                "a process that labels photos ended unexpectedly, perhaps for lack of memory. What is done is kept: "
                "run it again, with fewer workers."
            ) from None
        finally:
            for future in waiting:
                future.cancel()


def _by_ray(labeller: Labeller, chunks: list[list[Photo]], as_json: bool, workers: int) -> Iterator[Rows]:
    """Ray Data: an actor loads the model once, and labels chunks as they come."""
    try:
        import ray
        import ray.data
    except ImportError as error:
        raise UnseenError(f"the engine ray needs Ray Data: {how_to_install('ray')} ({error})") from None
    if not ray.is_initialized():
        ray.init(log_to_driver=False, include_dashboard=False)  # or the cluster that RAY_ADDRESS names
    resources = ray.cluster_resources()
    on_gpu = labeller.model.device.startswith("cuda") or (labeller.model.device == "auto" and "GPU" in resources)
    room = int(resources.get("GPU" if on_gpu else "CPU", 1)) - (0 if on_gpu else int(not workers))
    actors = max(1, min(workers or room, len(chunks)))
    context = ray.data.DataContext.get_current()
    context.execution_options.preserve_order = True
    context.enable_progress_bars = False
    rows = [{"chunk": pickle.dumps(chunk)} for chunk in chunks]
    labels = ray.data.from_items(rows, override_num_blocks=len(rows)).map_batches(
        _RayLabeller,
        fn_constructor_args=(ray.put(pickle.dumps(labeller)), as_json),
        compute=ray.data.ActorPoolStrategy(size=actors),
        batch_size=1,
        num_gpus=1 if on_gpu else None,
        num_cpus=None if on_gpu else 1,
    )
    for row in labels.iter_rows():
        yield pickle.loads(row["rows"])


class _RayLabeller(ChunkLabeller):
    def __init__(self, labeller: Any, as_json: bool):
        import ray

        super().__init__(ray.get(labeller), as_json, 1)


# -- the file --------------------------------------------------------------------------------------------------------


class Row(NamedTuple):
    """What a run needs to know of a row in the file."""

    photo: str
    version: str
    is_unreadable: bool
    start: int  # bytes
    end: int


@contextmanager
def open_labels(
    out: Path, made_by: Mapping[str, Any], k: int, versions: Mapping[str, str]
) -> Iterator[tuple[BinaryIO, set[str], list[str]]]:
    """The file, ready to append to; the photos in it; and those to label again, whose rows are taken out, as is what
    a kill or a loss of power left torn. In the end rows are put in the order of the photos, after those of others."""
    with locked(out.with_name(f".{out.name}.lock"), f"{out}: another process is writing to this file."):
        columns = None if out.suffix.lower() == ".jsonl" else label_columns(k)
        header = to_csv([columns]).encode() if columns else b""
        journal, shards = _open_journal(out, k), _find_shards(out)
        with writing(out), open(journal, "rb") if journal.exists() else io.BytesIO() as file:
            rows = list(_read(file, out, columns))
            size = file.seek(0, io.SEEK_END)
            _check_same(out, made_by, fresh=not rows, empty=not size)
            done = {row.photo for row in rows if not _is_stale(row, versions)}
            again = [row.photo for row in rows if row.photo not in done]
            kept = sum(row.end - row.start for row in rows if row.photo in done)
            if not journal.exists() or len(header) + kept != size or shards:
                with replacing(journal) as fresh:
                    fresh.write(header)
                    for row in rows:
                        file.seek(row.start)
                        fresh.write(file.read(row.end - row.start) if row.photo in done else b"")
                    for shard in shards:
                        done |= _join(fresh, shard, made_by, k, versions, done)
        with writing(out), open(journal, "ab") as file:
            yield file, done, [name for name in again if name not in done]
        _sort(journal, out, columns, header, versions)
        if journal != out:
            _write_parquet(out, journal, k)
            journal.unlink()
        for shard in shards:
            for path in (shard, *(shard.with_name(f".{shard.name}{end}") for end in (".json", ".lock"))):
                path.unlink(missing_ok=True)


def _find_shards(out: Path) -> list[Path]:
    """Files of labels that shards of this one have written, and that nobody writes to."""
    if SHARD.search(out.stem) or not out.parent.is_dir():
        return []
    beside = [path for path in out.parent.iterdir() if path.suffix == out.suffix and path.stem.startswith(out.stem)]
    return sorted(path for path in beside if SHARD.fullmatch(path.stem[len(out.stem) :]))


def _find_joined(out: Path, made_by: Mapping[str, Any], k: int, versions: Mapping[str, str]) -> set[str]:
    """The photos that a shard need not label: they are in the file that shards were joined into."""
    joined = out.with_stem(SHARD.sub("", out.stem))
    if joined == out or not joined.exists():
        return set()
    _check_same(joined, made_by, fresh=False, empty=False)
    if joined.suffix.lower() == ".parquet":
        named = _parquet()[1].read_table(joined, columns=["photo", "version", "unreadable"]).to_pylist()
        rows = [Row(row["photo"], row["version"] or "", bool(row["unreadable"]), 0, 0) for row in named]
    else:
        with open(joined, "rb") as file:
            rows = list(_read(file, joined, None if joined.suffix.lower() == ".jsonl" else label_columns(k)))
    return {row.photo for row in rows if row.photo in versions and not _is_stale(row, versions)}


def _join(
    fresh: BinaryIO, shard: Path, made_by: Mapping[str, Any], k: int, versions: Mapping[str, str], done: set[str]
) -> set[str]:
    """Append the rows of a shard that are not there; returns their photos."""
    with locked(shard.with_name(f".{shard.name}.lock"), f"{shard}: another process is writing to this file."):
        columns = None if shard.suffix.lower() == ".jsonl" else label_columns(k)
        journal = _open_journal(shard, k)
        with open(journal, "rb") as file:
            rows = [row for row in _read(file, shard, columns) if row.photo not in done]
            rows = [row for row in rows if not _is_stale(row, versions)]
            _check_same(shard, made_by, fresh=False, empty=False)
            for row in rows:
                file.seek(row.start)
                fresh.write(file.read(row.end - row.start))
        if journal != shard:
            journal.unlink()
    return {row.photo for row in rows}


def _sort(journal: Path, out: Path, columns: list[str] | None, header: bytes, versions: Mapping[str, str]) -> None:
    """Rows in the order of `versions`, after those of other photos; a file that has it already is left alone."""
    order = {name: place for place, name in enumerate(versions)}
    with writing(out), open(journal, "rb") as file:
        places = [(order.get(row.photo, -1), row.start, row.end) for row in _read(file, out, columns)]
        if any(later[0] < earlier[0] for earlier, later in pairwise(places)):
            with replacing(journal) as fresh:
                fresh.write(header)
                for _, start, end in sorted(places):
                    file.seek(start)
                    fresh.write(file.read(end - start))


def _is_stale(row: Row, versions: Mapping[str, str]) -> bool:
    """Whether the photo, if this run has it, could not be read or has changed. One that is gone keeps its label."""
    if row.photo not in versions:
        return False
    now = versions[row.photo]
    return row.is_unreadable or (now != "" and now != row.version)


def _check_same(out: Path, made_by: Mapping[str, Any], fresh: bool, empty: bool) -> None:
    """Refuse to continue labels from another bundle or with other settings, and what may be no labels at all."""
    beside = out.with_name(f".{out.name}.json")
    try:
        before = json.loads(beside.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        before = None
    before = before if isinstance(before, dict) else {}
    if not before and not empty:
        raise UnseenError(f"{out}: is not a file of labels, or {beside.name} beside it is gone. Choose another file.")
    if fresh:
        write_atomically(beside, json.dumps(made_by).encode())
        return
    other = [key.replace("_", "-") for key, value in made_by.items() if before.get(key) != value]
    if other:
        what = " and another ".join(other)
        raise UnseenError(f"{out}: holds labels made with another {what}. Choose another file, or delete it.")


def _read(file: BinaryIO, out: Path, columns: list[str] | None) -> Iterator[Row]:
    """The rows, up to one that is torn. A quoted name may hold a line break: a row ends where its quotes are closed."""
    start, row = 0, b""
    for line in file:
        row += line
        if columns and row.count(b'"') % 2 and len(row) < LONGEST:
            continue
        end = start + len(row)
        try:
            fields = _fields(row, columns)
        except (ValueError, KeyError, TypeError, RecursionError, csv.Error):
            return
        if columns and not start:
            if list(fields) != list(fields.values()):
                raise UnseenError(f"{out}: is not a file of labels: its columns are not {','.join(columns[:3])}, ...")
        else:
            yield Row(fields["photo"], fields["version"], bool(fields.get("unreadable")), start, end)
        start, row = end, b""


def _fields(row: bytes, columns: list[str] | None) -> dict[str, str]:
    if not row.endswith(b"\n") or b"\0" in row:  # a page that never reached the disk is all zeros
        raise ValueError("torn")
    if columns is None:
        fields = json.loads(row)
        if not isinstance(fields["photo"], str) or not isinstance(fields["version"], str):
            raise ValueError("not of labels")
        return fields
    cells = next(csv.reader(io.StringIO(row.decode("utf-8", "surrogateescape"), newline="")))
    return dict(zip(columns, map(csv_text, cells), strict=True))


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


def _line(name: str, answer: Answer | Unreadable, k: int, version: str, as_json: bool) -> bytes:
    if not as_json:
        return _row([*cells(name, answer, k), version])
    record = {"unreadable": answer.why} if isinstance(answer, Unreadable) else answer.as_dict()
    record["version"] = version
    text = json.dumps({"photo": name} | record, ensure_ascii=False)
    try:
        return text.encode() + b"\n"
    except UnicodeEncodeError:  # the name of a file that is not UTF-8
        return json.dumps({"photo": name} | record).encode() + b"\n"


def _row(cells: Sequence[Any]) -> bytes:
    texts = ["" if cell is None else f"{cell:.6f}" if isinstance(cell, float) else cell for cell in cells]
    return to_csv([texts]).encode("utf-8", "surrogateescape")


# -- parquet ---------------------------------------------------------------------------------------------------------


def _parquet() -> tuple[Any, Any]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise UnseenError(f"labels in a parquet file need pyarrow: {how_to_install('bulk')}") from None
    return pyarrow, pyarrow.parquet


def _open_journal(out: Path, k: int) -> Path:
    """The file that rows are appended to: the labels themselves, or rows for a parquet file yet to be written."""
    if out.suffix.lower() != ".parquet":
        return out
    journal = out.with_name(f".{out.name}.part")
    if out.exists() and not journal.exists():
        _, parquet = _parquet()
        columns = label_columns(k)
        try:
            file = parquet.ParquetFile(out)
            if file.schema_arrow.names != columns:
                raise ValueError(f"its columns are not {','.join(columns[:3])}, ...")
        except (OSError, ValueError) as error:
            raise UnseenError(f"{out}: is not a file of labels: {error}. Choose another file.") from None
        with replacing(journal) as fresh:
            fresh.write(to_csv([columns]).encode())
            for batch in file.iter_batches():
                for row in zip(*(batch.column(name).to_pylist() for name in columns), strict=True):
                    fresh.write(_row(row))
    return journal


def _write_parquet(out: Path, journal: Path, k: int) -> None:
    pyarrow, parquet = _parquet()
    columns = label_columns(k)
    kinds = [pyarrow.float64() if _is_number(name) else pyarrow.string() for name in columns]
    schema = pyarrow.schema(list(zip(columns, kinds, strict=True)))
    with replacing(out) as fresh, parquet.ParquetWriter(fresh, schema) as writer:
        for table in _read_tables(journal, columns):
            values = [
                [(float(cell) if _is_number(name) else _utf8(cell)) if cell else None for cell in table[name]]
                for name in columns
            ]
            writer.write_table(pyarrow.table(dict(zip(columns, values, strict=True)), schema))


def _read_tables(journal: Path, columns: list[str], size: int = 65_536) -> Iterator[dict[str, list[str]]]:
    with open(journal, newline="", encoding="utf-8", errors="surrogateescape") as file:
        rows = csv.reader(file)
        next(rows, None)
        while some := list(islice(rows, size)):
            yield {name: [csv_text(row[at]) for row in some] for at, name in enumerate(columns)}


def _utf8(text: str) -> str:
    """A text for parquet, which has no other: bytes of a file's name that are not UTF-8 are escaped."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
