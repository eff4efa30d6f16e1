"""What each network costs a photo, as a multiple of EfficientNet-Lite0: forward passes in turn, one thread.

    python benchmarks/network_speed.py

Processor time of random pixels, the median over the rounds; decoding a photo comes on top and is the same for all.
"""

from __future__ import annotations

import time

import numpy as np
import torch

from unseen import load_network

NETWORKS = ("efficientnet-lite0", "efficientnet-lite1", "efficientnet-lite2", "resnet50")
BATCH, ROUNDS = 8, 5


def main() -> None:
    torch.set_num_threads(1)
    networks = {name: load_network(name) for name in NETWORKS}
    seconds: dict[str, list[float]] = {name: [] for name in networks}
    for _ in range(ROUNDS + 1):  # the first is to warm up
        for name, network in networks.items():
            pixels = torch.rand(BATCH, 3, network.transform.size, network.transform.size)
            started = time.process_time()
            network.features(pixels)
            seconds[name].append(time.process_time() - started)
    medians = {name: float(np.median(times[1:])) / BATCH for name, times in seconds.items()}
    least = next(iter(medians.values()))
    print("| network | pixels | features | ms a photo | times the first |\n|:--|--:|--:|--:|--:|")
    for name, median in medians.items():
        size, width = networks[name].transform.size, networks[name].num_features
        print(f"| {name} | {size} | {width:,} | {1000 * median:.0f} | {median / least:.1f} |")


if __name__ == "__main__":
    main()
