"""The paper's tables and figures as recipes: what to run, and the published numbers to set beside ours.

One TOML file each. A row with `method` is run; one without is published only; `ours` marks what the paper lacks.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from unseen.errors import UnseenError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FOLDER = Path(__file__).parent / "recipes"
KINDS = ("hits", "seeds", "awa2", "hop-weights", "scalability", "qualitative")
ORDER = (
    "unseen-classes",
    "generalised",
    "ablation",
    "seen-classes",
    "layers",
    "two-phase",
    "robustness",
    "gcnz-steps",
    "awa2",
    "gat",
    "hop-weights",
    "scalability",
    "qualitative",
)


@dataclass(frozen=True)
class Row:
    """One line of a table: a method with settings, and what the paper reports for it, by candidates."""

    label: str
    method: str | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    vectors: str | None = None  # others than the level's
    finetune: bool = False
    epochs_share: float = 1.0  # of the recipe's epochs
    as_long_as: str | None = None  # trained for that method's epochs, which it is compared with
    study: bool = False  # in a table that compares variants: see Lengths
    ours: bool = False
    needs: str | None = None  # a package that is not among ours; the row is left out where it is missing
    norm: str | None = None
    published_as: str | None = None
    published: dict[str, list[float]] = field(default_factory=dict)
    published_deviation: dict[str, list[float]] = field(default_factory=dict)

    @property
    def runs(self) -> str:
        """Its method. A row without one is published only: nobody should ask."""
        assert self.method is not None, f"{self.label}: published only"
        return self.method


@dataclass(frozen=True)
class Recipe:
    name: str
    title: str
    paper: str
    shows: str
    kind: str
    cost: str
    rows: tuple[Row, ...] = ()
    candidates: tuple[str, ...] = ()
    hits: tuple[int, ...] = ()
    photos: str | None = None  # "unseen", "seen-val" or "awa2": which photos it is measured on
    seeds: tuple[int, ...] = (0,)
    examples: int = 0
    notes: tuple[str, ...] = ()
    published: dict[str, float] = field(default_factory=dict)


def load_recipe(name: str) -> Recipe:
    if name not in ORDER:
        close = get_close_matches(name, ORDER, n=1)
        hint = f" Did you mean {close[0]}?" if close else ""
        raise UnseenError(f"no table named {name!r}.{hint} There are: {', '.join(ORDER)}, and all")
    raw: dict[str, Any] = tomllib.loads((FOLDER / f"{name}.toml").read_text(encoding="utf-8"))
    study = raw.pop("study", False)
    rows = tuple(Row(**row, study=study) for row in raw.pop("rows", []))
    frozen: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in raw.items()}
    return Recipe(name=name, rows=rows, **frozen)
