"""How the benchmarks of speed show their figures: as lines to read, or with --json as one object on standard output."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from typing import Any


def main(run: Callable[..., dict[str, Any]], description: str | None, **numbers: int) -> None:
    """The command line of a script whose `run()` returns its figures; `numbers` are options with their defaults."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    for name, default in numbers.items():
        parser.add_argument(f"--{name}", type=int, default=default, help="default: %(default)s")
    chosen = vars(parser.parse_args())
    as_json = chosen.pop("json")
    result = run(**chosen)
    print(json.dumps(result) if as_json else lines(result))


def lines(result: dict[str, Any]) -> str:
    """A line for each figure; those of a group stand on one line."""
    shown = []
    for key, value in result.items():
        figures = value if isinstance(value, dict) else {"": value}
        words = (f"{name} {v:.4g}" if isinstance(v, float) else f"{name} {v}" for name, v in figures.items())
        shown.append(f"{key}: " + "  ".join(word.strip() for word in words))
    return "\n".join(shown)
