"""What exact answers cost beyond the bare product of features and class matrix, at ImageNet's 21,842 classes.

    python benchmarks/score.py --json

Top-5 and exact ranks against `photos @ classifiers.T` written into memory that is already there. The three are timed in
turns and the best time of each counts, as other work on the machine can only add to it.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import torch

from figures import main
from unseen.answers import Scorer


def run(classes: int = 21_842, width: int = 1281, photos: int = 2048, rounds: int = 7) -> dict[str, Any]:
    random = np.random.default_rng(0)
    matrix = random.standard_normal((classes, width), dtype=np.float32)
    points = random.standard_normal((photos, width), dtype=np.float32)
    labels = random.integers(0, classes, photos)
    scorer = Scorer.of_matrix(matrix)
    left, right, product = torch.from_numpy(points), torch.from_numpy(matrix).T, torch.empty(photos, classes)
    jobs = {
        "matmul_s": lambda: torch.mm(left, right, out=product),
        "topk_s": lambda: scorer.best(scorer.scores(points), 5),
        "ranks_s": lambda: scorer.ranks(points, labels),
    }
    best = dict.fromkeys(jobs, float("inf"))
    for _ in range(rounds):
        for name, job in jobs.items():
            started = time.perf_counter()
            job()
            best[name] = min(best[name], time.perf_counter() - started)
    return {
        "classes": classes,
        "photos": photos,
        "width": width,
        **best,
        "over_matmul": max(best["topk_s"], best["ranks_s"]) / best["matmul_s"],
        "threads": torch.get_num_threads(),
    }


if __name__ == "__main__":
    main(run, __doc__)
