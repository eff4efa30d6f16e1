"""Labels as a person would read them: nothing twice, no name that could mean two of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

from unseen.recognition.answers import Guess, Label
from unseen.taxonomy import Taxonomy


def fold(taxonomy: Taxonomy, labels: Sequence[Label], most: int) -> tuple[Guess, ...]:
    """Up to `most` lines from labels in order of probability; a class and those above it make one line."""
    lines: list[list[Label]] = []
    above = {label.id: taxonomy.ancestors(label.id) for label in labels}
    for label in labels:
        relatives = _find_line(above, lines, label)
        if relatives is not None:
            relatives.append(label)
        elif len(lines) < most:
            lines.append([label])
    titles = tell_apart(taxonomy, [label.id for line in lines for label in line])
    guesses = [
        Guess(
            id=line[0].id,
            title=titles[line[0].id],
            probability=sum(label.probability for label in line),
            seen=line[0].seen,
            trust=line[0].trust,
            also=tuple(titles[label.id] for label in line[1:]),
        )
        for line in lines
    ]
    return tuple(sorted(guesses, key=lambda guess: -guess.probability))


def _find_line(above: Mapping[str, Collection[str]], lines: list[list[Label]], label: Label) -> list[Label] | None:
    """The first line all of which is above or below this class: a line is one way up the hierarchy."""
    return next((line for line in lines if all(_on_one_way(above, label.id, other.id) for other in line)), None)


def _on_one_way(above: Mapping[str, Collection[str]], one: str, other: str) -> bool:
    return one in above[other] or other in above[one]


def tell_apart(taxonomy: Taxonomy, ids: Iterable[str]) -> dict[str, str]:
    """A title for each class: its name, followed by what tells it apart where another one has the same name."""
    ids = list(dict.fromkeys(ids))
    shared = Counter(taxonomy.name(id).lower() for id in ids)
    titles = {id: taxonomy.name(id) for id in ids}
    taken = set(titles.values())
    for id in ids:
        if shared[titles[id].lower()] < 2:
            continue
        for hint in _hints(taxonomy, id):
            title = f"{taxonomy.name(id)}, {hint}"
            if title not in taken:
                titles[id] = title
                taken.add(title)
                break
    return titles


def _hints(taxonomy: Taxonomy, id: str) -> Iterable[str]:
    """What may follow a name: another name, the class above it, the definition, and at last the id."""
    name = taxonomy.name(id)
    yield from (lemma for lemma in taxonomy.lemmas[taxonomy.index(id)] if lemma.lower() != name.lower())
    yield from (f"a kind of {taxonomy.name(parent)}" for parent in taxonomy.parents(id))
    yield taxonomy.definition(id) or id
    yield id
