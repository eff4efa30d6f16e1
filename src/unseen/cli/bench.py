"""`unseen bench`: the benchmarks, each of which measures its ratios in one run."""

from __future__ import annotations

from difflib import get_close_matches
from importlib import import_module
from typing import Annotated, Any

import typer

from unseen.cli.app import JsonFlag, command, emit, stdout
from unseen.errors import UnseenError

# Name -> module with run() -> dict.
BENCHMARKS = {
    "stage1": "unseen.bench.stage1",
    "score": "unseen.bench.score",
    "finetune": "unseen.bench.finetune",
    "serve": "unseen.bench.serve",
}


@command(
    "bench",
    examples="""
    unseen bench
    unseen bench stage1 --json
    """,
)
def bench(
    name: Annotated[str | None, typer.Argument(help=f"{', '.join(BENCHMARKS)}; without a name, all of them.")] = None,
    json_: JsonFlag = False,
) -> None:
    """Measure how fast this machine does the heavy work, and against what."""
    if name is not None and name not in BENCHMARKS:
        close = get_close_matches(name, BENCHMARKS, n=1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        raise UnseenError(f"no benchmark named {name!r}.{hint} There are: {', '.join(BENCHMARKS)}")
    names = [name] if name else list(BENCHMARKS)
    results = {each: import_module(BENCHMARKS[each]).run() for each in names}
    emit(results[name] if name else results, json_, lambda: _show(results))


def _show(results: dict[str, dict[str, Any]]) -> None:
    for name, result in results.items():
        stdout.print(f"[bold]{name}[/bold]")
        for key, value in result.items():
            figures = value if isinstance(value, dict) else {"": value}
            shown = "  ".join(f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}" for k, v in figures.items())
            stdout.print(f"  {key}: {shown}", highlight=False, soft_wrap=True)
