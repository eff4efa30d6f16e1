"""The requests of the API, as /openapi.json documents them. Answers are plain dicts; docs/web.md describes them."""

from __future__ import annotations

import unicodedata
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from unseen.answers.ask import Ask
from unseen.apps.web.guards import MAX_DEFINITION, MAX_LABELS, MAX_NAME, MAX_PARENTS, MAX_RANKED, SHOWN_ONLY
from unseen.naming.candidates import SETS_HELP
from unseen.util.settings import list_settings

# No file names and no lists that would have to be downloaded.
_SOME = r"(any|unseen|novel|seen|own|leaves|person|1K|hops:[1-9][0-9]?|subtree:[^\x00-\x1f+&]{1,200})"
CANDIDATES = rf"^{_SOME}([+&-]{_SOME}){{0,9}}$"
MAX_AMONG = 20_000  # characters of a list


def _stays_short(text: str) -> str:
    """Names are compared after NFKC, which may turn one character into eighteen."""
    if len(unicodedata.normalize("NFKC", text)) > 2 * len(text) + 20:
        raise ValueError("its characters stand for too many others: write them out")
    return text


Name = Annotated[str, Field(min_length=1, max_length=MAX_NAME, pattern=SHOWN_ONLY), AfterValidator(_stays_short)]
Id = Annotated[str, Field(min_length=1, max_length=MAX_NAME, examples=["n02439033"])]
Text = Annotated[str, Field(max_length=MAX_DEFINITION, pattern=SHOWN_ONLY), AfterValidator(_stays_short)]
Token = Annotated[str, Field(max_length=64, description="From /api/classify.", examples=["Zb2m3n5Xk0aM1yqRzj0X1w"])]
Tokens = Annotated[list[Token], Field(min_length=1, max_length=MAX_RANKED)]
Candidates = Annotated[
    str,
    Field(
        pattern=CANDIDATES,
        max_length=500,
        description=f"Which classes compete: {SETS_HELP}; joined by + (or), & (and), - (without), as `own+seen`.",
        examples=["unseen"],
    ),
]
Among = Annotated[
    str,
    Field(
        max_length=MAX_AMONG,
        pattern=SHOWN_ONLY,
        description="Only these, instead of `candidates`: names or ids, one per line or between commas. Names that "
        "nobody knows become classes of this answer.",
        examples=["okapi, crane (machine), wheelie bin"],
    ),
    AfterValidator(_stays_short),
]


class Strict(BaseModel):
    """A request: fields that are not known are refused rather than ignored."""

    model_config = ConfigDict(extra="forbid")


ASK = {setting.name: setting for setting in list_settings(Ask)}


def _of_ask(name: str, **limits: Any) -> Any:
    """A field with the default and the help that it has everywhere."""
    return Field(ASK[name].default, description=ASK[name].help, **limits)


class RankOptions(BaseModel):
    """How to rank photos: what of `Ask` a client may say. A prior may be a file, so it is not here."""

    k: int = _of_ask("k", ge=1, le=MAX_LABELS)
    candidates: Candidates = "any"
    confidence: float = _of_ask("confidence", gt=0, lt=1)
    among: Among = ""

    def for_ask(self) -> dict[str, Any]:
        """Arguments of `Ask`, but for the list, which another model answers."""
        return {name: value for name, value in self if name in ASK and name != "among"}


class RankRequest(RankOptions, Strict):
    """Rank remembered photos again."""

    tokens: Tokens
    watch: list[Name] = Field([], max_length=20, description="Ids of classes whose rank is always reported.")


class ExplainRequest(Strict):
    """Why a class answers as it does."""

    id: Id
    n: int = Field(5, ge=1, le=20, description="Seen classes that it borrows from.")
    among: Among = ""


class AddRequest(Strict):
    """A new class."""

    name: Name = Field(examples=["labradoodle"])
    parents: list[Name] = Field(
        min_length=1,
        max_length=MAX_PARENTS,
        description="Ids, or names that mean one class only.",
        examples=[["n02099712", "n02113335"]],
    )
    definition: Text = Field("", description="Helps if the bundle uses text encodings.")
    looks: Text = Field("", description="What it looks like in photos.", examples=["tall green bin on two wheels"])
    names: list[Name] = Field([], max_length=20, description="Further names.")


class TryRequest(AddRequest):
    """A class that is not added yet: where would it stand on remembered photos?"""

    tokens: Tokens
    candidates: Candidates = "any"


class SuggestRequest(Strict):
    """A name for a new class."""

    name: Name = Field(examples=["electric bicycle"])


class TeachRequest(Strict):
    """A remembered photo as an example of a class: a known one by `id`, or a new one by `name` and `parents`."""

    token: Token
    id: Name | None = Field(None, description="Of a known class.", examples=["n02439398"])
    name: Text = Field("", max_length=MAX_NAME, description="Of a new class.")
    parents: list[Name] = Field([], max_length=MAX_PARENTS, description="Of a new class: what it is a kind of.")


class SaveRequest(Strict):
    """Save the bundle with its added classes."""

    name: Name = Field(description="The folder's name is made from it.", examples=["my zoo"])
