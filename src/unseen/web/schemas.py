"""The shapes of the API's JSON: what /openapi.json documents."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from unseen.recognition.recogniser import SURE
from unseen.web.limits import MAX_DEFINITION, MAX_LABELS, MAX_NAME, MAX_PARENTS, MAX_RANKED
from unseen.web.names import SHOWN_ONLY

# No file names and no lists that would have to be downloaded: a client's text never reaches the file system.
_SOME = r"(any|unseen|seen|own|leaves|1[kK]|hops:[1-9][0-9]?|subtree:[^\x00-\x1f+]{1,200})"
CANDIDATES = rf"^{_SOME}(\+{_SOME}){{0,9}}$"
CANDIDATES_HELP = (
    "Which classes a photo may be assigned to: `any`, `unseen`, `seen`, `own` (what was added), `leaves`, `hops:N` "
    "(unseen classes within N edges of a seen one), `subtree:ID` or `subtree:NAME` (a class and all below it); several "
    "joined by `+`, as `own+seen`."
)
SHIFT_HELP = (
    "Subtracted from the scores of seen classes: above 0 it favours unseen ones, below 0 seen ones. Without it the "
    "bundle's calibration balances them, if it has one."
)
SURE_HELP = "How often a verdict must be right: 0.9 is 9 times in 10."
BUNDLE_HELP = "Which of the served bundles, by name; without it the first one."

Name = Annotated[str, Field(min_length=1, max_length=MAX_NAME, pattern=SHOWN_ONLY)]
Candidates = Annotated[str, Field(pattern=CANDIDATES, description=CANDIDATES_HELP, examples=["unseen"])]
Count = Annotated[int, Field(ge=1, le=MAX_LABELS, description="Labels for each photo.")]
Shift = Annotated[float, Field(ge=-1e6, le=1e6, allow_inf_nan=False, description=SHIFT_HELP)]
BundleName = Annotated[str | None, Field(max_length=MAX_NAME, description=BUNDLE_HELP)]
Mark = Literal["seen", "unseen", "guesswork", "link"]
Trust = Annotated[float | None, Field(description="0 to 1: how well seen classes support this one; null if unknown.")]


class Strict(BaseModel):
    """A request: fields that are not known are refused rather than ignored."""

    model_config = ConfigDict(extra="forbid")


class Problem(BaseModel):
    """What went wrong, and what to do."""

    error: str = Field(examples=["There is no bundle named 'x'. There are: default."])
    unreadable: list[Unreadable] | None = None


class Unreadable(BaseModel):
    photo: str
    why: str


class Brief(BaseModel):
    """A class in short. `mark`: seen in training, unseen, unseen and hardly supported (guesswork), or only a link
    between classes that is never an answer."""

    id: str = Field(examples=["n02439033"])
    name: str = Field(examples=["giraffe"])
    mark: Mark
    trust: Trust
    children: int = Field(description="How many classes are directly below it.")


class Label(BaseModel):
    """One answer. Scores rank the classes for one photo; their scale is the method's own."""

    id: str = Field(examples=["n02439033"])
    name: str = Field(examples=["giraffe"])
    score: float
    seen: bool
    mark: Mark
    trust: Trust
    support: str = Field(description="Trust in words: well, partly or hardly supported; empty for a seen class.")
    path: list[str] = Field(description="Names from the top of the hierarchy down to this class.")
    probability: float = Field(description="That the photo shows this class.")


class Verdict(BaseModel):
    """The most informative node that the photo shows with the sureness asked for."""

    id: str | None = Field(description="null where nothing useful is known with that sureness.")
    name: str | None
    probability: float
    level: Literal["sure", "likely", "guess", "unknown"]
    classes: int = Field(description="How many candidates are at or below it.")
    path: list[str] = Field(description="Names from the top of the hierarchy down to it.")


class Guess(BaseModel):
    """A label as a person would read it, with the classes above and below it that are labels too."""

    id: str
    title: str = Field(description="Its name, and what tells it apart from others of that name.")
    name: str
    probability: float = Field(description="Of it and of what is folded into it.")
    seen: bool
    mark: Mark
    trust: Trust
    support: str = Field(description="Trust in words: well, partly or hardly supported; empty for a seen class.")
    also: list[str] = Field(description="Titles of the classes folded into it.")


class Lit(BaseModel):
    """A node of the hierarchy, and how probable it is that the photo shows something at or below it."""

    id: str
    name: str
    mark: Mark
    parent: str | None
    probability: float


class Watched(BaseModel):
    id: str
    place: int = Field(description="1 is the best.")
    of: int


class Answers(BaseModel):
    photo: str = Field(description="The photo's name as it was sent.")
    token: str = Field(description="Ranks this photo again without sending it again: see /api/rank.")
    verdict: Verdict
    labels: list[Label]
    guesses: list[Guess]
    calibrated: bool = Field(description="Whether the probabilities were fitted on photos.")
    lit: list[Lit] = Field(description="The probable nodes as a tree, each after its parent.")
    watched: list[Watched] = []


class Ranking(BaseModel):
    """Answers for photos, best first."""

    bundle: str
    candidates: str
    classes: int = Field(description="How many candidates there are.")
    seen_shift: float | None
    photos: list[Answers]
    unreadable: list[Unreadable] = []
    forgotten: list[str] = Field([], description="Tokens of photos that are no longer remembered.")
    seconds: float


class RankRequest(Strict):
    """Rank remembered photos again."""

    tokens: list[Annotated[str, Field(max_length=64)]] = Field(
        min_length=1, max_length=MAX_RANKED, description="From /api/classify.", examples=[["Zb2m3n5Xk0aM1yqRzj0X1w"]]
    )
    k: Count = 5
    candidates: Candidates = "any"
    seen_shift: Shift | None = None
    sure: float = Field(SURE, gt=0, lt=1, description=SURE_HELP)
    bundle: BundleName = None
    watch: list[Name] = Field([], max_length=20, description="Ids of classes whose place is always reported.")


class CompareRequest(Strict):
    """One remembered photo, the answers of several bundles."""

    token: str = Field(max_length=64, description="From /api/classify.", examples=["Zb2m3n5Xk0aM1yqRzj0X1w"])
    k: Count = 5
    candidates: Candidates = "any"
    bundles: list[Name] = Field([], max_length=20, description="Names; without any, all bundles that are served.")


class Column(BaseModel):
    bundle: str = Field(description="The bundle's name; `network` for the network alone.")
    title: str = Field(description="The bundle's name, or the network's.")
    method: str
    labels: list[Label]
    verdict: Verdict | None = Field(None, description="Of a bundle; the network alone gives none.")
    guesses: list[Guess] | None = None


class Comparison(BaseModel):
    photo: str
    candidates: str
    columns: list[Column]


class Found(BaseModel):
    """A class that a search found."""

    id: str
    name: str
    mark: Mark
    trust: Trust
    children: int
    lemmas: list[str]
    definition: str


class HeatMap(BaseModel):
    """The score of a class, split over the cells of the network's last feature map."""

    id: str
    name: str
    score: float = Field(description="As in a label.")
    cells: list[list[float]] = Field(description="Rows from the top, each from the left; they sum to the score.")


class HeatMaps(BaseModel):
    bundle: str
    photo: str
    box: list[float] = Field(description="The part of the photo that they cover: left, top, right, bottom, 0 to 1.")
    maps: list[HeatMap]


class Topic(Brief):
    descendants: int = Field(description="How many classes are anywhere below it.")


class Topics(BaseModel):
    topics: list[Topic]


class Proposal(BaseModel):
    """Where a new class may go."""

    name: str
    exists: list[Found] = Field(description="Classes that have this name already.")
    parents: list[Found] = Field(description="What it may be a kind of, best first.")


class Search(BaseModel):
    query: str
    classes: list[Found]


class Near(Brief):
    likeness: float = Field(description="Cosine of the two classifiers.")


class Details(Found):
    """A class, and what is around it in the hierarchy."""

    added: bool = Field(description="Whether it was added to the bundle; only such classes can be removed.")
    path: list[Brief] = Field(description="From the top of the hierarchy down to this class.")
    parents: list[Brief]
    below: list[Brief] = Field(description="The classes directly below it, by name.")
    descendants: int = Field(description="How many classes are anywhere below it.")
    nearest: list[Near] = Field(description="The classes whose classifiers are most like this one's.")


class Neighbour(BaseModel):
    id: str
    name: str
    share: float = Field(description="How much of the classifier comes from this seen class, 0 to 1.")
    similarity: float | None = Field(description="Cosine of its known classifier with the predicted one.")
    path: list[str] = Field(description="Ids from the explained class over the lowest common ancestor to this one.")


class Twig(BaseModel):
    id: str
    parent: str | None


class Why(BaseModel):
    """What a class's classifier is made of."""

    id: str
    name: str
    definition: str
    seen: bool
    mark: Mark
    trust: Trust
    path: list[str] = Field(description="Ids from the top of the hierarchy down to this class.")
    neighbours: list[Neighbour]
    tree: list[Twig] = Field(description="The classes on the paths as a tree: each with one parent.")
    nodes: dict[str, Brief] = Field(description="Every class of the tree, by id.")


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
    names: list[Name] = Field([], max_length=20, description="Further names.")
    bundle: BundleName = None


class Added(BaseModel):
    id: str
    bundle: str
    added: list[Brief] = Field(description="All classes that were added to this bundle.")


class TeachRequest(Strict):
    """A remembered photo as an example of a class: a known one by `id`, or a new one by `name` and `parents`."""

    token: str = Field(max_length=64, description="From /api/classify.", examples=["Zb2m3n5Xk0aM1yqRzj0X1w"])
    id: Name | None = Field(None, description="Of a known class.", examples=["n02439398"])
    name: str = Field("", max_length=MAX_NAME, pattern=SHOWN_ONLY, description="Of a new class.")
    parents: list[Name] = Field([], max_length=MAX_PARENTS, description="Of a new class: what it is a kind of.")
    bundle: BundleName = None


class TaughtClass(Brief):
    photos: int = Field(description="How many photos it was taught with.")


class Taught(BaseModel):
    id: str
    bundle: str
    taught: list[TaughtClass] = Field(description="All classes that were taught.")


class Removed(BaseModel):
    removed: str
    bundle: str
    added: list[Brief]


class SaveRequest(Strict):
    """Save a bundle with its added classes."""

    name: Name = Field(description="The folder's name is made from it.", examples=["my zoo"])
    bundle: BundleName = None


class Saved(BaseModel):
    name: str
    path: str
    command: str = Field(description="Serves the saved bundle.")


class BundleInfo(BaseModel):
    name: str
    method: str
    classes: int
    nodes: int
    seen: int
    network: str
    vectors: list[str]
    hierarchy: str
    trust: bool = Field(description="Whether its labels have a trust.")
    reach: float = Field(description="A seen_shift beyond which the answers hardly change.")
    calibrated_shift: float | None = Field(description="The seen_shift that `unseen calibrate` chose, if it did.")
    added: list[Brief]
    taught: list[TaughtClass]


class Bundles(BaseModel):
    bundles: list[BundleInfo]
    read_only: bool


class Health(BaseModel):
    status: Literal["ok"]
    bundles: list[str]
    seconds: float = Field(description="Since the start.")
    photos: int = Field(description="Photos that went through the networks.")
    batches: int = Field(description="Runs of the networks; fewer than photos where requests were batched.")
    remembered: int
    memory_mb: float | None = Field(description="Memory of the server; null where the system does not report it.")


class Limits(BaseModel):
    file_bytes: int
    files: int
    pixels: int


class Version(BaseModel):
    unseen: str
    python: str
    torch: str
    limits: Limits


Problem.model_rebuild()
