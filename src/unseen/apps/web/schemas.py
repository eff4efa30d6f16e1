"""The shapes of the API's JSON, as /openapi.json documents them: requests are checked, answers are described."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import NotRequired, TypedDict  # pydantic needs these below Python 3.12

from unseen.answers.probability import CONFIDENCE
from unseen.apps.web.guards import MAX_DEFINITION, MAX_LABELS, MAX_NAME, MAX_PARENTS, MAX_RANKED, SHOWN_ONLY
from unseen.naming.candidates import SETS_HELP

# No file names and no lists that would have to be downloaded: a client's text never reaches the file system.
_SOME = r"(any|unseen|novel|seen|own|leaves|person|1[kK]|hops:[1-9][0-9]?|subtree:[^\x00-\x1f+&]{1,200})"
CANDIDATES = rf"^{_SOME}([+&-]{_SOME}){{0,9}}$"
CANDIDATES_HELP = (
    f"Which classes a photo may be assigned to: {SETS_HELP}; joined by + (or), & (and), - (without), as `own+seen`."
)
SHIFT_HELP = (
    "Subtracted from the scores of seen classes: above 0 it favours unseen ones, below 0 seen ones. Without it the "
    "bundle's calibration balances them, if it has one."
)
CONFIDENCE_HELP = "How often a verdict must be right: 0.9 is 9 times in 10."
AMONG_HELP = (
    "Only these: names or ids between commas or on lines of their own, such as `okapi, crane (machine), wheelie bin`. "
    "Names that nobody knows become classes of this answer. Instead of `candidates`."
)
BUNDLE_HELP = "Which of the served bundles, by name; without it the first one."

MAX_AMONG = 20_000  # characters of a list
Name = Annotated[str, Field(min_length=1, max_length=MAX_NAME, pattern=SHOWN_ONLY)]
Token = Annotated[str, Field(max_length=64, description="From /api/classify.", examples=["Zb2m3n5Xk0aM1yqRzj0X1w"])]
Candidates = Annotated[str, Field(pattern=CANDIDATES, max_length=500, description=CANDIDATES_HELP, examples=["unseen"])]
Count = Annotated[int, Field(ge=1, le=MAX_LABELS, description="Labels for each photo.")]
Confidence = Annotated[float, Field(gt=0, lt=1, description=CONFIDENCE_HELP)]
Shift = Annotated[float, Field(ge=-1e6, le=1e6, allow_inf_nan=False, description=SHIFT_HELP)]
BundleName = Annotated[str | None, Field(max_length=MAX_NAME, description=BUNDLE_HELP)]
Among = Annotated[str, Field(max_length=MAX_AMONG, pattern=SHOWN_ONLY, description=AMONG_HELP)]
Mark = Literal["seen", "unseen", "guesswork", "link"]
Trust = Annotated[float | None, Field(description="0 to 1: how well seen classes support this one; null if unknown.")]


class Strict(BaseModel):
    """A request: fields that are not known are refused rather than ignored."""

    model_config = ConfigDict(extra="forbid")


class RankOptions(BaseModel):
    """How to rank photos."""

    k: Count = 5
    candidates: Candidates = "any"
    seen_shift: Shift | None = None
    sure: Confidence = CONFIDENCE
    among: Among = ""
    bundle: BundleName = None


class RankRequest(RankOptions, Strict):
    """Rank remembered photos again."""

    tokens: list[Annotated[str, Field(max_length=64)]] = Field(
        min_length=1, max_length=MAX_RANKED, description="From /api/classify.", examples=[["Zb2m3n5Xk0aM1yqRzj0X1w"]]
    )
    watch: list[Name] = Field([], max_length=20, description="Ids of classes whose place is always reported.")


class CompareRequest(Strict):
    """One remembered photo, the answers of several bundles."""

    token: Token
    k: Count = 5
    candidates: Candidates = "any"
    sure: Confidence = CONFIDENCE
    balance: float = Field(
        0.0, ge=-1, le=1, description="Favour seen (-1) or unseen (1) classes, as far as it matters."
    )
    among: Among = ""
    bundles: list[Name] = Field([], max_length=20, description="Names; without any, all bundles that are served.")


class ExplainRequest(Strict):
    """Why a class answers as it does."""

    id: str = Field(min_length=1, max_length=MAX_NAME, examples=["n02439033"])
    n: int = Field(5, ge=1, le=20, description="Seen classes that it borrows from.")
    among: Among = ""
    bundle: BundleName = None


class AddRequest(Strict):
    """A new class for a bundle."""

    name: Name = Field(examples=["labradoodle"])
    parents: list[Name] = Field(
        min_length=1,
        max_length=MAX_PARENTS,
        description="Ids, or names that mean one class only.",
        examples=[["n02099712", "n02113335"]],
    )
    definition: str = Field(
        "", max_length=MAX_DEFINITION, pattern=SHOWN_ONLY, description="Helps if the bundle uses text encodings."
    )
    looks: str = Field(
        "", max_length=MAX_DEFINITION, pattern=SHOWN_ONLY, description="What it looks like in photos.",
        examples=["tall green plastic bin on two wheels with a hinged lid"],
    )  # fmt: skip
    names: list[Name] = Field([], max_length=20, description="Further names.")
    bundle: BundleName = None


class TryRequest(AddRequest):
    """A class that is not added yet: where would it stand on remembered photos?"""

    tokens: list[Token] = Field(min_length=1, max_length=MAX_RANKED, description="From /api/classify.")
    candidates: Candidates = "any"


class SuggestRequest(Strict):
    """A name for a new class."""

    name: Name = Field(description="The name of the new class.", examples=["electric bicycle"])
    bundle: BundleName = None


class TeachRequest(Strict):
    """A remembered photo as an example of a class: a known one by `id`, or a new one by `name` and `parents`."""

    token: Token
    id: Name | None = Field(None, description="Of a known class.", examples=["n02439398"])
    name: str = Field("", max_length=MAX_NAME, pattern=SHOWN_ONLY, description="Of a new class.")
    parents: list[Name] = Field([], max_length=MAX_PARENTS, description="Of a new class: what it is a kind of.")
    bundle: BundleName = None


class SaveRequest(Strict):
    """Save a bundle with its added classes."""

    name: Name = Field(description="The folder's name is made from it.", examples=["my zoo"])
    bundle: BundleName = None


# fmt: off
# -- answers: what the fields mean is in docs/web.md ----------------------------------------------------------------

Unreadable = TypedDict("Unreadable", {"photo": str, "why": str})
Problem = TypedDict("Problem", {"error": str, "unreadable": NotRequired[list[Unreadable]]})
Brief = TypedDict("Brief", {
    "id": str, "name": str, "mark": Mark, "training": str, "trust": Trust, "support": str, "children": int,
})
Stretch = Annotated[list[int], Field(description="Its place on the map: the first of the row, and how many.")]
Verdict = TypedDict("Verdict", {
    "id": str | None, "name": str | None, "say": str | None, "text": str, "hedge": str,
    "probability": float | None,
    "level": Literal["sure", "likely", "guess", "unknown"], "classes": int, "path": list[str],
})
Label = TypedDict("Label", {
    "id": str, "name": str, "say": str, "score": float, "seen": bool, "novel": bool, "photos": int, "mark": Mark,
    "trust": Trust, "support": str, "training": str, "path": list[str], "probability": float,
})
Guess = TypedDict("Guess", {
    "id": str, "title": str, "name": str, "say": str, "probability": float, "seen": bool, "novel": bool,
    "photos": int, "mark": Mark, "trust": Trust, "support": str, "training": str, "also": list[str],
})
ProbableNode = TypedDict("ProbableNode", {
    "id": str, "name": str, "mark": Mark, "training": str, "parent": str | None, "probability": float, "here": bool,
    "at": Stretch,
})
Place = TypedDict("Place", {
    "id": str, "say": str, "place": int, "of": int, "probability": float, "within": str | None,
})
Listed = TypedDict("Listed", {
    "name": str, "id": str, "new": bool, "parents": list[dict[str, str]], "others": list[dict[str, str]],
})
Answers = TypedDict("Answers", {
    "photo": str, "token": str, "verdict": Verdict, "labels": list[Label], "guesses": list[Guess],
    "calibrated": bool, "lit": list[ProbableNode], "watched": list[Place],
})
Ranking = TypedDict("Ranking", {
    "bundle": str, "candidates": str, "classes": int, "seen_shift": float | None, "photos": list[Answers],
    "unreadable": list[Unreadable], "forgotten": list[str], "listed": list[Listed], "seconds": float,
})
Column = TypedDict("Column", {
    "bundle": str, "title": str, "method": str, "labels": list[Label], "verdict": Verdict | None,
    "guesses": list[Guess] | None,
})
Comparison = TypedDict("Comparison", {"photo": str, "candidates": str, "columns": list[Column]})
HeatMap = TypedDict("HeatMap", {"id": str, "name": str, "score": float, "cells": list[list[float]]})
HeatMaps = TypedDict("HeatMaps", {"bundle": str, "photo": str, "box": list[float], "maps": list[HeatMap]})


class Found(Brief):
    lemmas: list[str]
    definition: str


class Topic(Brief):
    descendants: int


class Near(Brief):
    likeness: float


class TaughtClass(Brief):
    photos: int


class Details(Found):
    say: str
    looks: str
    at: Stretch
    added: bool
    path: list[Brief]
    parents: list[Brief]
    below: list[Brief]
    descendants: int
    nearest: list[Near]


Search = TypedDict("Search", {"query": str, "classes": list[Found]})
Topics = TypedDict("Topics", {"topics": list[Topic]})
Proposal = TypedDict("Proposal", {"name": str, "exists": list[Found], "parents": list[Found]})
Neighbour = TypedDict("Neighbour", {
    "id": str, "name": str, "share": float, "similarity": float | None, "path": list[str],
})
Branch = TypedDict("Branch", {"id": str, "parent": str | None})
Why = TypedDict("Why", {
    "id": str, "name": str, "definition": str, "seen": bool, "mark": Mark, "training": str, "trust": Trust,
    "support": str, "looks": str, "photos": int, "path": list[str], "neighbours": list[Neighbour], "tree": list[Branch],
    "nodes": dict[str, Brief],
})
TriedPlace = TypedDict("TriedPlace", {"token": str, "place": int, "of": int})
Tried = TypedDict("Tried", {"places": list[TriedPlace]})
Added = TypedDict("Added", {"id": str, "bundle": str, "added": list[Brief]})
Removed = TypedDict("Removed", {"removed": str, "bundle": str, "added": list[Brief]})
Taught = TypedDict("Taught", {"id": str, "bundle": str, "taught": list[TaughtClass]})
Saved = TypedDict("Saved", {"name": str, "path": str, "command": str})
Map = TypedDict("Map", {
    "bundle": str, "marks": str, "regions": list[list[int | str]],
})
MapPlaces = TypedDict("MapPlaces", {"start": int, "places": list[list[str]]})
BundleInfo = TypedDict("BundleInfo", {
    "name": str, "calibrated": bool, "method": str, "classes": int, "nodes": int, "seen": int, "network": str,
    "vectors": list[str],
    "hierarchy": str, "trust": bool, "reach": float, "calibrated_shift": float | None, "added": list[Brief],
    "taught": list[TaughtClass],
})
Bundles = TypedDict("Bundles", {"bundles": list[BundleInfo], "read_only": bool, "run": str})
Words = TypedDict("Words", {
    "marks": dict[str, str], "support": dict[str, str], "levels": dict[str, str], "hidden": str,
})
Health = TypedDict("Health", {
    "status": Literal["ok"], "bundles": list[str], "seconds": float, "photos": int, "batches": int,
    "remembered": int, "memory_mb": float | None,
})
Start = TypedDict("Start", {
    "unseen": str, "limits": dict[str, int], "local": bool, "words": Words, "samples": list[dict[str, str]],
    "bundles": list[BundleInfo], "read_only": bool, "run": str,
})
Version = TypedDict("Version", {"unseen": str, "python": str, "torch": str, "limits": dict[str, int]})
