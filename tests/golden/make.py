"""Make every golden anew: `python tests/golden/make.py [TOPIC...]`, by hand only; no test runs it.

A golden may be changed only in a commit of its own, which says what changed on purpose. Each topic is a file in data/,
so that removing a command or a field is a small diff. A TOPIC is the beginning of its name: `commands/evaluate`.

The answers and tables of real photos need a folder with unseen/, seen-train/ and seen-val/ (UNSEEN_PHOTOS, or
../shared/data/photos beside the repository) and the authors' class lists (UNSEEN_ASSETS). Without them these stay.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"
TESTS = Path(__file__).resolve().parents[1]
SHARED = TESTS.parents[1] / "shared" / "data"
os.environ.setdefault("UNSEEN_ASSETS", str(SHARED))
os.environ["UNSEEN_CACHE"] = tempfile.mkdtemp(prefix="unseen-golden-")  # the default bundle is of today's code
sys.path.insert(0, str(TESTS))

from golden import commands, topics  # noqa: E402


def compute() -> Iterator[tuple[str, Any]]:
    """Each topic with its result."""
    for method in topics.METHODS:
        yield f"classifiers/{method}", topics.classifiers(method)
    yield "classifiers/kin-default", topics.kin_default()
    yield "answers/samples", topics.sample_answers()
    folder = Path(os.environ.get("UNSEEN_PHOTOS", SHARED / "photos"))
    if (folder / "seen-val").is_dir():
        names = topics.choose_photos(folder)
        yield "photos", {"photos": names}
        features = topics.photo_features(folder, tuple(names))
        yield "answers/features", topics.summary(features, 100)
        for setting in topics.SETTINGS:
            yield f"answers/{setting}", topics.answers(setting, features[: topics.ANSWERED])
        yield "answers/probabilities", topics.probabilities(features[: topics.ANSWERED])
        for name in topics.TABLES:
            yield f"tables/{name}", topics.table(name, features, names)
    with tempfile.TemporaryDirectory() as work:
        for group in commands.GROUPS:
            for topic, results in commands.run_group(Path(work), group).items():
                yield f"commands/{topic}", results


def main(wanted: list[str]) -> None:
    for topic, result in compute():
        if not wanted or topic.startswith(tuple(wanted)):
            topics.write(topic, result)
            print(topic, topics.file_of(topic).stat().st_size)


if __name__ == "__main__":
    main(sys.argv[1:])
