"""What recognition returns for a photo: an answer with its labels, or why the photo could not be read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, overload


@dataclass(frozen=True)
class Label:
    """One class that a photo may show. Scores rank the classes for one photo; they are not probabilities.

    >>> from unseen import Label
    >>> okapi = Label("n02439398", "okapi", 3.2, False, 0.7, ("entity", "giraffe", "okapi"))
    >>> print(okapi.name, okapi.score, " > ".join(okapi.path))
    okapi 3.2 entity > giraffe > okapi
    """

    id: str
    name: str
    score: float
    seen: bool
    trust: float | None  # 0..1: how well seen classes support this one; None where the method does not tell
    path: tuple[str, ...]  # names from the top of the hierarchy down to this class

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Answer(Sequence[Label]):
    """What one photo shows: its labels, best first. Iterating or indexing an answer gives the labels.

    >>> from unseen import Answer, Label
    >>> okapi = Label("n02439398", "okapi", 3.2, False, 0.7, ("entity", "giraffe", "okapi"))
    >>> answer = Answer((okapi,))
    >>> answer[0].name, [label.id for label in answer], len(answer)
    ('okapi', ['n02439398'], 1)
    """

    labels: tuple[Label, ...]

    def __len__(self) -> int:
        return len(self.labels)

    @overload
    def __getitem__(self, place: int) -> Label: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[Label, ...]: ...
    def __getitem__(self, place: int | slice) -> Label | tuple[Label, ...]:
        return self.labels[place]

    def as_dict(self) -> dict[str, Any]:
        return {"labels": [label.as_dict() for label in self.labels]}


@dataclass(frozen=True)
class Unreadable:
    """Stands in a list of answers for a photo that could not be read.

    >>> from unseen import Answer, Unreadable
    >>> answers = [Answer(()), Unreadable("notes.txt", "is not a picture in any format that Pillow reads.")]
    >>> [found.photo for found in answers if isinstance(found, Unreadable)]
    ['notes.txt']
    """

    photo: str  # its path; "photo 3" where the third of a list has none
    why: str

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)
