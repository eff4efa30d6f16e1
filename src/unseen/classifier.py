"""`unseen.load()` and what it returns: a classifier for photos that can also explain, measure, grow and save itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unseen.bundle import Bundle
from unseen.bundle.growth import add
from unseen.errors import UnseenError
from unseen.evaluation.protocol import Evaluation, evaluate
from unseen.recognition import Explanation, Recogniser, explain
from unseen.runtime.text import slug
from unseen.taxonomy import Node
from unseen.training.default import default_bundle

if TYPE_CHECKING:
    from unseen.backbones import Backbone


class ZeroShotClassifier(Recogniser):
    """The classifier that `unseen.load` returns.

        model = unseen.load("my-bundle")
        model.classify("photo.jpg", k=5)                             # an Answer: its labels, best first
        model.classify(["a.jpg", "b.jpg"], candidates="unseen")      # a list with an entry for each photo
        model.add("labradoodle", parents=["poodle"])

    `recognition.recogniser` has the steps from photos to answers.
    """

    def explain(self, id: str, n: int = 5) -> Explanation:
        """The seen classes that a class borrows its classifier from, and the way to them in the hierarchy."""
        return explain(self.bundle, id, n)

    def evaluate(self, images: str | Path, candidates: str | Sequence[str] = "unseen", **options: Any) -> Evaluation:
        """Hit@k on a folder of photos by class; see `unseen.evaluate`."""
        return evaluate(self, images, candidates, **options)

    def add(
        self,
        name: str | Sequence[str] = (),
        parents: str | Sequence[str] = (),
        definition: str = "",
        id: str | None = None,
        vectors: str | Path | Callable | None = None,
    ) -> str:
        """Add a class by name (or names) and parents; it takes part in the answers at once. Returns its id.

        For a WordNet id the rest may be left out: `model.add(id="n02456645")`. `vectors`: see `unseen.add`.
        """
        names = (name,) if isinstance(name, str) else tuple(name)
        if not names and id is None:
            raise UnseenError("a new class needs a name, or the id of a WordNet noun")
        new = Node(id or slug(names[0]), names, parents, definition)
        self.replace_bundle(add(self.bundle, [new], vectors))
        return new.id

    def save(self, path: str | Path, precision: str = "fp32", overwrite: bool = False) -> Path:
        """Write the bundle with all its classes into a folder; see `unseen.Bundle.save`."""
        return self.bundle.save(path, precision, overwrite)


def load(
    bundle: str | Path | Bundle | None = None, backbone: Backbone | None = None, device: str = "auto"
) -> ZeroShotClassifier:
    """A classifier from a bundle; from the default one, made on first use and kept in the cache, if none is named."""
    if bundle is None:
        bundle = default_bundle()
    if not isinstance(bundle, Bundle):
        bundle = Bundle.load(bundle)
    return ZeroShotClassifier(bundle, backbone, device)
