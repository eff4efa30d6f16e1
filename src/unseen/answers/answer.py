"""What `classify` returns for a photo: an answer with its verdict and labels, or why the photo could not be read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from unseen.answers.choice import ListScorer
from unseen.answers.probability import LIKELY, SURE, NodeProbabilities, Verdict
from unseen.answers.words import training_in_words, words_of
from unseen.hierarchy.core import Hierarchy
from unseen.photos.reading import Unreadable as Unreadable
from unseen.util.errors import UnseenError

if TYPE_CHECKING:
    from unseen.answers.ask import Ask
    from unseen.answers.scores import Scorer
    from unseen.bundle import Bundle

FOLDED = 4  # labels considered for each guess

SUPPORT = (("well supported", 0.6), ("partly supported", 0.45), ("hardly supported", -1.0))
"""On development photos of unseen classes kin's five best labels held the right one in 70 % of cases from 0.6 on, in
20 % around 0.5 and in 3 % below."""


@dataclass(frozen=True)
class Label:
    """One class that a photo may show.

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
    say: str = ""  # what a person calls it
    novel: bool = False  # nothing at or below it was seen
    photos: int = 0  # that it was taught with

    @property
    def support(self) -> str:
        """Trust in words: it belongs to the class, whatever the photo."""
        return support_in_words(self.trust)

    @property
    def training(self) -> str:
        """What was shown of it: "trained on it", "trained on kinds of it", "never shown", "learned from 3 photos"."""
        return training_in_words(self.seen, self.novel, self.photos)

    to_dict = asdict


def support_in_words(trust: float | None) -> str:
    """How well the classes that the network was trained on support the classifier of another one."""
    return "" if trust is None else next(word for word, least in SUPPORT if trust >= least)


@dataclass(frozen=True)
class Guess:
    """A line among the best guesses: a label, with others of its spoken name and those above and below it.

    >>> guess = Guess("n02374451", "horse", "horse", 0.5, False, False, 0.8, ("draft horse",))
    >>> guess.title, guess.also, guess.training
    ('horse', ('draft horse',), 'trained on kinds of it')
    """

    id: str
    title: str  # its spoken name, and what tells it apart from others of that name
    say: str
    probability: float  # that the photo shows what is called so, as in a verdict and in `Answer.probability`
    seen: bool
    novel: bool
    trust: float | None  # as in `Label`
    also: tuple[str, ...]  # titles of the folded ones
    photos: int = 0  # that it was taught with

    support = Label.support
    training = Label.training
    to_dict = asdict


@dataclass(frozen=True)
class Answer(Sequence[Label]):
    """What one photo shows. Iterating or indexing an answer gives the labels.

    >>> okapi = Label("n02439398", "okapi", 3.2, False, 0.7, ("entity", "giraffe", "okapi"), 0.12)
    >>> answer = Answer((okapi,), Verdict.unknown(candidates=21842))
    >>> answer[0].name, [label.id for label in answer], len(answer), str(answer.verdict)
    ('okapi', ['n02439398'], 1, "don't know")
    """

    labels: tuple[Label, ...]  # the most probable classes, best first
    verdict: Verdict  # the most informative node that the photo shows with the confidence asked for
    guesses: tuple[Guess, ...] = ()  # the labels as a person would read them, without repetitions
    calibrated: bool = False  # whether the probabilities were fitted on photos (`unseen calibrate`)
    none: float | None = None  # in a list: that the photo shows none of it, if half of the photos do not
    # The probabilities of all nodes of the hierarchy that are worth mentioning.
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
        """That the photo shows a node of the hierarchy, by id or name, such as "bird"; 0 if it is not in `nodes`."""
        if self.nodes is None:
            raise UnseenError("this answer was made without the probabilities of nodes: take it from model.classify")
        return self.nodes[node]

    def to_dict(self) -> dict[str, Any]:
        return {
            "verdict": self.verdict.to_dict(),
            "labels": [label.to_dict() for label in self.labels],
            "guesses": [guess.to_dict() for guess in self.guesses],
            "calibrated": self.calibrated,
            **({} if self.none is None else {"none": self.none}),
        }


# -- features -> answers ---------------------------------------------------------------------------------------------


def answer_features(bundle: Bundle, scorer: Scorer, features: np.ndarray, ask: Ask) -> Iterator[Answer]:
    """An answer for each row of features (n x D)."""
    sums = scorer.sums
    for some in scorer.blocks(len(features)):
        block = features[some]
        scores = scorer.scores(block)
        probabilities = scorer.to_probabilities(scores)
        masses, cautious = scorer.to_nodes(probabilities)
        nodes = scorer.verdicts(cautious, ask.confidence)
        none = scorer.none(block).tolist() if isinstance(scorer, ListScorer) else [None] * len(block)
        for photo, columns in enumerate(scorer.best(scores, FOLDED * ask.k)):
            rows, values = scorer.columns[columns], scores[photo, columns]
            if scorer.calibrated or scorer.prior.moves:  # labels show the method's scores
                point = scorer.projection(block[photo : photo + 1])[0]
                values = np.asarray(bundle.solution.classifiers[rows], np.float32) @ point
            labels = make_labels(bundle, rows, values, probabilities[photo, columns])
            above = [set(sums.ids[sums.above(column)]) for column in columns.tolist()]
            shares = masses[photo, np.searchsorted(sums.nodes, rows)]
            yield Answer(
                labels=tuple(labels[: ask.k]),
                verdict=make_verdict(scorer, probabilities[photo], masses[photo], int(nodes[photo])),
                guesses=fold(bundle.hierarchy, labels, above, shares, ask.k),
                calibrated=scorer.calibrated,
                none=none[photo],
                nodes=NodeProbabilities(sums, masses[photo]),
            )


def make_labels(bundle: Bundle, rows: np.ndarray, scores: np.ndarray, probabilities: np.ndarray) -> list[Label]:
    """Labels of these classes, given by their rows."""
    hierarchy, trust, says = bundle.hierarchy, bundle.solution.trust, words_of(bundle.hierarchy).says
    is_seen, is_novel, taught = bundle.is_seen, bundle.is_novel, bundle.taught
    paths = hierarchy.name_paths(rows.tolist())
    return [
        Label(
            id=hierarchy.ids[row],
            name=path[-1],
            score=float(score),
            seen=bool(is_seen[row]),
            trust=None if trust is None or is_seen[row] else float(trust[row]),
            path=path,
            probability=float(probability),
            say=says[row],
            novel=bool(is_novel[row]),
            photos=taught[hierarchy.ids[row]].photos if hierarchy.ids[row] in taught else 0,
        )
        for row, path, score, probability in zip(rows.tolist(), paths, scores, probabilities, strict=True)
    ]


def make_verdict(scorer: Scorer, probabilities: np.ndarray, masses: np.ndarray, node: int) -> Verdict:
    """From a place among `scorer.sums.nodes`, or -1, with the probabilities of classes and of nodes."""
    if node < 0:
        return Verdict.unknown(len(scorer.rows))
    sums, words = scorer.sums, words_of(scorer.hierarchy)
    node = sums.most_probable(node, probabilities)
    row, probability = int(sums.nodes[node]), min(1.0, float(masses[node]))
    return Verdict(
        id=sums.ids[node],
        name=sums.names[node],
        say=words.says[row],
        probability=probability,
        level="sure" if probability >= SURE else "likely" if probability >= LIKELY else "guess",
        classes=int(sums.sizes[node]),
        path=words.path(row),
    )


# -- guesses: labels as a person would read them, nothing twice, no name that could mean two of them ----------------


def fold(
    hierarchy: Hierarchy,
    labels: Sequence[Label],
    above: Sequence[Collection[str]],
    shares: Sequence[float] | np.ndarray,
    most: int,
) -> tuple[Guess, ...]:
    """Up to `most` lines from labels in order of probability, in that order, those that nobody would say left out.

    A class, those `above` it (ids) and those of its spoken name make one line. `shares`: how probable each name is.
    """
    words, rows = words_of(hierarchy), hierarchy.indices(label.id for label in labels)
    sayable, groups = words.sayable[rows], words.groups[rows]
    kept = np.flatnonzero(sayable) if sayable.any() else np.arange(len(labels))
    lines: list[list[int]] = []
    for new in kept.tolist():
        for line in lines:  # a line is one way up the hierarchy
            one_way = all(labels[new].id in above[old] or labels[old].id in above[new] for old in line)
            if one_way or groups[new] in groups[line]:
                line.append(new)
                break
        else:
            if len(lines) < most:
                lines.append([new])
    titles = tell_apart(hierarchy, [[(labels[at].id, labels[at].say) for at in line] for line in lines])
    guesses = [
        Guess(
            id=first.id,
            title=titles[first.id],
            say=first.say,
            probability=min(1.0, float(share)),
            seen=first.seen,
            novel=first.novel,
            trust=first.trust,
            also=tuple(dict.fromkeys(title for at in line if (title := titles[labels[at].id]) != titles[first.id])),
            photos=first.photos,
        )
        for line in lines
        for first, share in [(labels[line[0]], shares[line[0]])]
    ]
    return tuple(guesses)


def tell_apart(hierarchy: Hierarchy, lines: Iterable[Iterable[tuple[str, str]]]) -> dict[str, str]:
    """A title for each class, given by id and name: its name, followed by what tells it apart where another line has
    the same name."""
    names = [dict(line) for line in lines]
    titles = {id: name for line in names for id, name in line.items()}
    shared = Counter(name for line in names for name in {name.lower() for name in line.values()})
    taken = set(titles.values())
    for id, name in list(titles.items()):
        if shared[name.lower()] < 2:
            continue
        title = next((title for hint in _hints(hierarchy, id) if (title := f"{name}, {hint}") not in taken), name)
        titles[id] = title
        taken.add(title)
    return titles


def _hints(hierarchy: Hierarchy, id: str) -> Iterable[str]:
    """What may follow a name: another name, the class above it, the definition, and at last the id."""
    name = hierarchy.name(id)
    yield from (lemma for lemma in hierarchy.lemmas[hierarchy.index(id)] if lemma.lower() != name.lower())
    yield from (f"a kind of {hierarchy.name(parent)}" for parent in hierarchy.parents(id))
    yield hierarchy.definition(id) or id
    yield id
