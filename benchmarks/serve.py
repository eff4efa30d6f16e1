"""The web server under load: how long one photo takes, many requests at once, and whether memory stays flat.

    python benchmarks/serve.py --json
    python benchmarks/serve.py --requests 10000    # memory after a tenth of them, half, and all

The server is started as a user starts it, in a process of its own, and asked over HTTP: the time of one photo is what a
client waits, from the first byte sent to the answer read: upload, decoding, network and ranking of all classes.
"""

from __future__ import annotations

import http.client
import io
import json
import signal
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from figures import main
from unseen import UnseenError
from unseen.apps.web import sample_photos


def run(
    single: int = 40, parallel: int = 20, requests: int = 2000, crowd: int = 200, bundle: Path | None = None,
    trust_code: bool = False,
) -> dict[str, Any]:  # fmt: skip
    """Times of one photo alone, of several at once and of a crowd, errors, and the server's memory; for the default
    bundle."""
    command = [sys.executable, "-m", "unseen", "serve", *([str(bundle)] if bundle else []), "--json", "--port", "0"]
    command += ["--trust-code"] if trust_code else []
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        answer = process.stdout.readline()
        if not answer:
            raise UnseenError("the server did not start: its message is above")
        started = json.loads(answer)
        place = urlsplit(started["address"])
        samples = [path.read_bytes() for path in sample_photos()]
        phone = _phone_photo(samples[0])
        ask = partial(_classify, place.hostname, place.port)
        for photo in samples:
            ask(photo)
        alone = [ask(samples[i % len(samples)]) for i in range(single)]
        large = [ask(phone) for _ in range(10)]
        with ThreadPoolExecutor(parallel) as pool:
            began = time.perf_counter()
            together = list(pool.map(ask, (samples[i % len(samples)] for i in range(parallel))))
            span = time.perf_counter() - began
            before = _health(place)  # after the first rush: all threads and buffers are there
            many, health, done = [], [], 0
            for until in (requests // 10, requests // 2, requests):
                many += pool.map(ask, (samples[i % len(samples)] for i in range(done, until)))
                health.append(_health(place))
                done = until
            tenth, middle, after = health
        with ThreadPoolExecutor(crowd) as pool:  # each client asks three times, one after the other
            crowded = list(pool.map(ask, (samples[i % len(samples)] for i in range(3 * crowd))))
        failed = [status for status, _ in alone + large + together + many if status != 200]
        times = [seconds for _, seconds in alone]
        return {
            "classes": started["bundle"]["classes"],
            "single_ms": round(1000 * statistics.median(times), 1),
            "single_p95_ms": round(1000 * float(np.quantile(times, 0.95)), 1),
            "phone_photo_ms": round(1000 * statistics.median(seconds for _, seconds in large), 1),
            "parallel": parallel,
            "parallel_s": round(span, 3),
            "requests": requests,
            "errors": len(failed),
            "crowd": crowd,
            "crowd_refused": sum(status != 200 for status, _ in crowded),
            "crowd_median_s": round(statistics.median(seconds for _, seconds in crowded), 1),
            "crowd_slowest_s": round(max(seconds for _, seconds in crowded), 1),
            "memory_before_mb": before["memory_mb"],
            "memory_tenth_mb": tenth["memory_mb"],
            "memory_half_mb": middle["memory_mb"],
            "memory_after_mb": after["memory_mb"],
        }
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(30)


def _classify(host: str, port: int, photo: bytes) -> tuple[int, float]:
    """(status, seconds) of one request on a connection of its own."""
    edge = "edge-of-a-part"
    head = f'--{edge}\r\nContent-Disposition: form-data; name="files"; filename="photo.jpg"\r\n\r\n'
    body = head.encode() + photo + f"\r\n--{edge}--\r\n".encode()
    began = time.perf_counter()
    connection = http.client.HTTPConnection(host, port, timeout=120)
    try:
        connection.request("POST", "/api/classify", body, {"Content-Type": f"multipart/form-data; boundary={edge}"})
        response = connection.getresponse()
        response.read()
        return response.status, time.perf_counter() - began
    finally:
        connection.close()


def _health(place) -> dict[str, Any]:
    connection = http.client.HTTPConnection(place.hostname, place.port, timeout=60)
    try:
        connection.request("GET", "/api/health")
        return json.loads(connection.getresponse().read())
    finally:
        connection.close()


def _phone_photo(sample: bytes) -> bytes:
    """A sample blown up to the 12 megapixels of a telephone's camera."""
    from PIL import Image

    buffer = io.BytesIO()
    with Image.open(io.BytesIO(sample)) as image:
        image.resize((4000, 3000), Image.Resampling.BICUBIC).save(buffer, "JPEG", quality=85)
    return buffer.getvalue()


if __name__ == "__main__":
    main(run, __doc__, requests=2000, crowd=200)
