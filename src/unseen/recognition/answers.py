"""What recognition returns for a photo: an answer with its verdict and labels, or why the photo could not be read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, overload

from unseen.errors import UnseenError
from unseen.probability.sums import NodeProbabilities
from unseen.probability.verdicts import Verdict

SUPPORT = (("well supported", 0.6), ("partly supported", 0.45), ("hardly supported", -1.0))
"""On development photos of unseen classes kin's five best labels held the right one in 70 % of cases from 0.6 on, in
20 % around 0.5 and in 3 % below."""


@dataclass(frozen=True)
class Label:
    """One class that a photo may show.

    >>> from unseen import Label
    >>> okapi = Label("n02439398", "okapi", 3.2, False, 0.5, ("entity", "giraffe", "okapi"), 0.12)
    >>> print(okapi.name, okapi.probability, okapi.support, " > ".join(okapi.path))
    okapi 0.12 partly supported entity > giraffe > okapi
    """

    id: str
    name: str
    score: float  # the method's; it has no fixed scale
    seen: bool
    trust: float | None  # 0..1: how well seen classes support the classifier; None for a seen class, or if nobody knows
    path: tuple[str, ...]  # names from the top of the hierarchy down to this class
    probability: float = 0.0  # that the photo shows this class

    @property
    def support(self) -> str:
        """Trust in words: it belongs to the class, whatever the photo."""
        return support_in_words(self.trust)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def support_in_words(trust: float | None) -> str:
    """How well the classes that the network was trained on support the classifier of another one."""
    if trust is None:
        return ""
    return next(word for word, least in SUPPORT if trust >= least)


@dataclass(frozen=True)
class Guess:
    """A line among the best guesses: a label, with the classes above and below it that are labels too.

    >>> from unseen import Guess
    >>> guess = Guess("n02374451", "horse", 0.5, False, 0.8, ("draft horse",))
    >>> guess.title, guess.also
    ('horse', ('draft horse',))
    """

    id: str
    title: str  # its name, and what tells it apart from others of that name
    probability: float  # of it and of what is folded into it
    seen: bool
    trust: float | None  # as in `Label`
    also: tuple[str, ...]  # titles of the folded ones

    @property
    def support(self) -> str:
        return support_in_words(self.trust)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Answer(Sequence[Label]):
    """What one photo shows. Iterating or indexing an answer gives the labels.

    Args:
        labels: The most probable classes, best first.
        verdict: The most informative node that the photo shows with the sureness asked for.
        guesses: The labels as a person would read them: a line each, without repetitions.
        calibrated: Whether the probabilities were fitted on photos (`unseen calibrate`).
        nodes: The probabilities of all nodes of the hierarchy that are worth mentioning.

    >>> from unseen import Answer, Label, Verdict
    >>> okapi = Label("n02439398", "okapi", 3.2, False, 0.7, ("entity", "giraffe", "okapi"), 0.12)
    >>> answer = Answer((okapi,), Verdict.unknown(candidates=21842))
    >>> answer[0].name, [label.id for label in answer], len(answer), str(answer.verdict)
    ('okapi', ['n02439398'], 1, "don't know")
    """

    labels: tuple[Label, ...]
    verdict: Verdict
    guesses: tuple[Guess, ...] = ()
    calibrated: bool = False
    nodes: NodeProbabilities | None = field(default=None, repr=False, compare=False)

    def __len__(self) -> int:
        return len(self.labels)

    @overload
    def __getitem__(self, place: int) -> Label: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[Label, ...]: ...
    def __getitem__(self, place: int | slice) -> Label | tuple[Label, ...]:
        return self.labels[place]

    def probability(self, node: str) -> float:
        """That the photo shows a node of the hierarchy, by id or name: "bird", say."""
        if self.nodes is None:
            raise UnseenError("this answer was made without the probabilities of nodes: take it from model.classify")
        return self.nodes[node]

    def as_dict(self) -> dict[str, Any]:
        return {
            "verdict": self.verdict.as_dict(),
            "labels": [label.as_dict() for label in self.labels],
            "guesses": [guess.as_dict() for guess in self.guesses],
            "calibrated": self.calibrated,
        }


@dataclass(frozen=True)
class Unreadable:
    """Stands in a list of answers for a photo that could not be read.

    >>> from unseen import Answer, Unreadable, Verdict
    >>> answers = [Answer((), Verdict.unknown(2)), Unreadable("notes.txt", "is not a picture.")]
    >>> [found.photo for found in answers if isinstance(found, Unreadable)]
    ['notes.txt']
    """

    photo: str  # its path; "photo 3" where the third of a list has none
    why: str

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)
