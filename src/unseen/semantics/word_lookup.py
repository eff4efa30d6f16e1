"""Finding class names in a vocabulary: which words make up a class, and with what weight."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:  # whoever opens a bundle comes by here: scipy is imported where words are looked up
    from scipy.sparse import csr_array

MODES = ("lower", "authors")
BLOCK = 1 << 16  # classes at a time
REMEMBERED = 1 << 18  # words whose rows are kept


class WordLookup:
    """Which words of a vocabulary a class is the mean of. The rule is that of `semantics.WordVectors`.

    The rule is linear in the word vectors, so the vectors of n classes are one sparse product: weights @ vectors.
    """

    def __init__(self, words: Iterable[str], mode: str):
        self._rows = {word: row for row, word in reversed(list(enumerate(words)))}  # of equal words the first
        self._joined = any("_" in word for word in self._rows)  # whether a name of several words may be one of them
        self._lower = mode == "lower"
        self._found: dict[str, list[int]] = {}  # of words that were looked up: names share most of theirs

    def row(self, token: str) -> int | None:
        """The vocabulary's row of exactly this token."""
        if self._lower:
            found = self._rows.get(token.lower())
            if found is not None:
                return found
        return self._rows.get(token)

    def weights(self, classes: Sequence[Sequence[str]]) -> tuple[csr_array, np.ndarray]:
        """Weights (n x U sparse float32; a row sums to 1, or 0 if nothing is found) and the U vocabulary rows used."""
        from scipy.sparse import csr_array

        columns: list[int] = []
        values: list[float] = []
        ends = [0]
        for lemmas in classes:
            found = [shares for shares in map(self._lemma, lemmas) if shares]
            for shares in found:
                for row, share in shares:
                    columns.append(row)
                    values.append(share / len(found))
            ends.append(len(columns))
        used, inverse = np.unique(np.array(columns, np.int64), return_inverse=True)
        matrix = csr_array((np.array(values, np.float32), inverse, np.array(ends)), shape=(len(classes), len(used)))
        return matrix, used

    def reach(self, classes: Sequence[Sequence[str]]) -> tuple[np.ndarray, np.ndarray, list[list[int]], Counter]:
        """What is found at all, at a fraction of the price of `weights`: each different word is looked up once.

        Returns (class, word): two int64 arrays, a pair for each word of each class; for each word the vocabulary's rows
        that it is the mean of; and the words of which nothing is found -> in how many classes they occur.
        """
        codes: defaultdict[str, int] = defaultdict()
        codes.default_factory = codes.__len__
        words: list[int] = []
        counts: list[int] = []
        for start in range(0, len(classes), BLOCK):
            tokens = [self._tokens(lemmas) for lemmas in classes[start : start + BLOCK]]
            words.extend(map(codes.__getitem__, chain.from_iterable(tokens)))
            counts.extend(map(len, tokens))
        owner = np.repeat(np.arange(len(classes)), counts)
        word, rows = np.array(words, np.int64), [self._word(token) for token in codes]
        return owner, word, rows, self._count_missing(owner, word, list(codes), rows)

    def missed(self, classes: Sequence[Sequence[str]]) -> Counter:
        """Words of which nothing is found -> in how many classes they occur."""
        return self.reach(classes)[-1]

    def _tokens(self, lemmas: Sequence[str]) -> list[str]:
        """A class's words; names that are found whole, which only a vocabulary with joined words has, as one."""
        if not self._joined:
            return _words(" ".join(lemmas))
        found = ([lemma.replace(" ", "_")] if self._whole(lemma) is not None else _words(lemma) for lemma in lemmas)
        return [token for tokens in found for token in tokens]

    def _count_missing(self, owner: np.ndarray, word: np.ndarray, tokens: list[str], rows: list[list[int]]) -> Counter:
        spelt: dict[str, int] = {}  # capitals may not count, and a class counts once
        number = np.full(len(tokens), -1)
        for code, token in enumerate(tokens):
            if not rows[code]:
                number[code] = spelt.setdefault(token.lower() if self._lower else token, len(spelt))
        lost = number[word] >= 0
        pairs = np.unique(owner[lost] * len(spelt) + number[word[lost]])
        counts = np.bincount(pairs % max(len(spelt), 1), minlength=len(spelt))
        return Counter(dict(zip(spelt, counts.tolist(), strict=True)))

    def _whole(self, lemma: str) -> int | None:
        token = lemma.replace(" ", "_")
        return None if "_" in token and not self._joined else self.row(token)

    def _lemma(self, lemma: str) -> list[tuple[int, float]]:
        """(row, weight) pairs whose weights sum to 1; none if nothing is found."""
        row = self._whole(lemma)
        if row is not None:
            return [(row, 1.0)]
        words = [parts for parts in map(self._word, _words(lemma)) if parts]
        return [(row, 1 / (len(words) * len(parts))) for parts in words for row in parts]

    def _word(self, word: str) -> list[int]:
        """The rows that a word is the mean of: its own, or those of its hyphen parts that are found."""
        found = self._found.get(word)
        if found is None:
            row = self.row(word)
            parts = [word] if row is not None else word.split("-") if "-" in word else []
            found = [row for part in parts if (row := self.row(part)) is not None]
            if len(self._found) < REMEMBERED:
                self._found[word] = found
        return found


def _words(lemma: str) -> list[str]:
    return lemma.replace("_", " ").split()
