"""Damaged and made-up inputs, a thousand a second, for the readers of `torture_readers.py`."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from torture_points import Child, time_limit
from unseen.errors import UnseenError

PER_BATCH = 4000  # inputs for one process; fewer where a look takes long
PATIENCE = 20  # seconds for one input
TOKENS = [
    b'"', b"'", b",", b"\t", b"\n", b"\r", b"\r\n", b";", b"|", b"#", b"{", b"}", b"[", b"]", b":", b"\\", b"\x00",
    b"\xff", b"\xfe\xff", b"\xef\xbb\xbf", b"\xed\xa0\x80", b"\\ud800", b"\xe2\x80\xae", b"NaN", b"Infinity", b"-1",
    b"1e999", b"9" * 30, b"9" * 5000, b"null", b"true", b"[" * 20000, b'{"a":' * 3000, b"\xff\xff\xff\xff",
    b"\x7f\xff\xff\xff", b"\x00\x00\x00\x01", b" " * 3000, b"id,name,parent\n", "é".encode(), b"animal",
]  # fmt: skip


@dataclass(frozen=True)
class Reader:
    """Some whole inputs, and a function that reads an input's bytes.

    `sealed`: it promises that nothing but the original passes, and returns what tells it, or None where it told of
    damage and does without.
    """

    name: str
    seeds: list[bytes]
    read: Callable[[bytes], object]
    sealed: bool = False
    batch: int = PER_BATCH


def fuzz(reader: Reader, seed: int, told: Path) -> dict:
    """A batch of inputs in a process of its own: how many, how many were refused, and the first problem, if any.

    `told` is a file for the answer.
    """
    told.unlink(missing_ok=True)
    ended = Child(lambda: told.write_text(json.dumps(_fuzz_here(reader, seed)))).wait()
    if ended.status or not told.exists():
        problem = f"the process ended with {ended.status} (seed {seed}): {ended.said[-500:]}"
        return {"inputs": 0, "refused": 0, "slowest": ended.seconds, "problem": problem}
    return json.loads(told.read_text())


def _fuzz_here(reader: Reader, seed: int) -> dict:
    chance = random.Random(seed)
    whole = [reader.read(content) for content in reader.seeds]  # now, so that no input waits for what is only made once
    refused, slowest, problem, number = 0, 0.0, None, 0
    for number in range(reader.batch):
        which = chance.randrange(len(reader.seeds))
        content = mutate(reader.seeds[which], chance, reader.seeds)
        begun = time.perf_counter()
        try:
            with time_limit(PATIENCE, "one input"):
                found = reader.read(content)
            if reader.sealed and found not in (whole[which], None):
                problem = "damage passed unnoticed"
        except UnseenError:
            refused += 1
        except Exception as error:
            problem = f"{type(error).__name__}: {str(error)[:300]}"
        slowest = max(slowest, time.perf_counter() - begun)
        if problem:
            problem += f" (seed {seed}, input {number}, {len(content)} bytes: {content[:80]!r})"
            break
    return {"inputs": number + 1, "refused": refused, "slowest": slowest, "problem": problem}


def mutate(content: bytes, chance: random.Random, others: list[bytes]) -> bytes:
    """One to four changes: bits, bytes, cuts, repeats, splices, and tokens that formats care about."""
    changed = bytearray(content)
    for _ in range(chance.choice([1, 1, 2, 4])):
        at = chance.randrange(len(changed) + 1)
        length = min(chance.choice([1, 2, 4, 16, 64]), len(changed) - at)
        how = chance.randrange(8)
        if how <= 1 and length:
            changed[at] ^= 1 << chance.randrange(8)
        elif how == 2 and length:
            changed[at : at + length] = chance.randbytes(length)
        elif how == 3:
            del changed[at : at + length]
        elif how == 4:
            changed[at:at] = changed[at : at + length] * chance.choice([1, 2, 50])
        elif how == 5:
            changed[at:at] = chance.choice(TOKENS)
        elif how == 6:
            token = chance.choice(TOKENS)
            changed[at : at + len(token)] = token
        elif chance.random() < 0.3:
            del changed[at:]
        else:
            other = chance.choice(others)
            changed[at:] = other[chance.randrange(len(other) + 1) :]
    return bytes(changed)
