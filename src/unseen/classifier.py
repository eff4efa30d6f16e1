"""`unseen.load()` and what it returns: a classifier for photos that can also explain, measure, grow and save itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unseen.bundle import Bundle
from unseen.bundle.growth import add
from unseen.bundle.teaching import forget, teach
from unseen.errors import UnseenError
from unseen.recognition import Explanation, HeatMap, Recogniser, explain
from unseen.recognition.heatmap import map_heat
from unseen.recognition.studies import study_photos
from unseen.runtime.text import slug
from unseen.taxonomy import Node
from unseen.training.default import default_bundle

if TYPE_CHECKING:
    from unseen.backbones import Backbone
    from unseen.evaluation.protocol import Evaluation
    from unseen.photos.reading import Source


class ZeroShotClassifier(Recogniser):
    r"""The classifier that `unseen.load` returns.

        model = unseen.load("my-bundle")
        model.classify("photo.jpg", k=5)                             # an Answer: its labels, best first
        model.classify(["a.jpg", "b.jpg"], candidates="unseen")      # a list with an entry for each photo
        model.add("labradoodle", parents=["poodle"])
        model.teach("labradoodle", ["a.jpg", "b.jpg", "c.jpg"])      # what a few photos say counts at once

    The score of class u for a photo with features f (D numbers) is

    .. math:: s_u = w_u \cdot p(f)

    with the class's classifier :math:`w_u` and the method's projection p (both E numbers); most methods only append a 1
    for the bias. `recognition.recogniser` has the steps from photos to answers.

    Args:
        bundle: The classes and their classifiers.
        backbone: The network, if the bundle cannot load it by name.
        device: cpu, cuda and the like; auto takes a GPU if there is one.

    Here with a network that knows two fruits by their colour:

    >>> import unseen
    >>> from torch import nn
    >>> kinds = [("strawberry", "berry"), ("raspberry", "berry"), ("lime", "citrus"), ("lemon", "citrus")]
    >>> fruits = unseen.Taxonomy.from_edges([*kinds, ("berry", "fruit"), ("citrus", "fruit")])
    >>> network = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(3, 2, bias=False))
    >>> _ = nn.init.eye_(network[2].weight)  # red: a strawberry, green: a lime
    >>> backbone = unseen.from_module(network, ["strawberry", "lime"])
    >>> model = unseen.ZeroShotClassifier(unseen.train("kin", fruits, "glove", backbone), backbone)
    >>> from PIL import Image
    >>> red = Image.new("RGB", (320, 240), "crimson")
    >>> [label.name for label in model.classify(red, candidates=["lemon", "raspberry"])]
    ['raspberry', 'lemon']
    >>> model.add("cranberry", parents="berry")
    'cranberry'
    >>> model.classify(red, k=1, candidates=["lemon", "lime", "cranberry"])[0].path
    ('fruit', 'berry', 'cranberry')
    """

    def explain(self, id: str, n: int = 5) -> Explanation:
        """The seen classes that a class borrows its classifier from, and the way to them in the hierarchy."""
        return explain(self.bundle, id, n)

    def heatmap(self, photo: Source, id: str, instead_of: str | None = None) -> HeatMap:
        """Where in the photo the score of a class comes from; with `instead_of`, why that class and not this other one.

        Classes are given by id or by a name that means one class only.
        """
        ids = [self.bundle.taxonomy.resolve(one) for one in (id, instead_of) if one is not None]
        found, *other = map_heat(self.bundle, self.backbone, photo, ids)
        return found.minus(other[0]) if other else found

    def evaluate(self, images: str | Path, candidates: str | Sequence[str] = "unseen", **options: Any) -> Evaluation:
        """Hit@k on a folder of photos by class; see `unseen.evaluate`."""
        from unseen.evaluation.protocol import evaluate

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

    def teach(self, name: str, photos: Source | Sequence[Source]) -> int:
        """Teach a class, by id or name, with a photo, several, or a folder of them. It counts at once, together with
        all that the class was taught before. Returns the number of its photos so far.

        A photo that cannot be read raises UnseenError, and nothing is taught.
        """
        id = self.bundle.taxonomy.resolve(name)
        self.replace_bundle(teach(self.bundle, {id: study_photos(self, photos)}))
        return self.bundle.taught[id].photos

    def forget(self, name: str) -> None:
        """Make a class what it was before it was taught any photo."""
        self.replace_bundle(forget(self.bundle, [self.bundle.taxonomy.resolve(name)]))

    def save(self, path: str | Path, precision: str = "fp32", overwrite: bool = False) -> Path:
        """Write the bundle with all its classes into a folder; see `unseen.Bundle.save`."""
        return self.bundle.save(path, precision, overwrite)


def load(
    bundle: str | Path | Bundle | None = None,
    backbone: Backbone | None = None,
    device: str = "auto",
    trust_code: bool = False,
) -> ZeroShotClassifier:
    """A classifier from a bundle.

    Args:
        bundle: Its folder, or the bundle; None: the default one, made on first use and kept in the cache.
        backbone: The network, if the bundle cannot load it by name.
        device: cpu, cuda and the like; auto takes a GPU if there is one.
        trust_code: Let the bundle import the module of your own that it names as its network or method. Which file that
            is goes to standard error. Without it such a bundle raises an error when its network is needed.

    >>> import unseen
    >>> from torch import nn
    >>> network = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(3, 2))
    >>> backbone = unseen.from_module(network, ["dog", "cat"])
    >>> animals = unseen.Taxonomy.from_edges([("dog", "mammal"), ("cat", "mammal"), ("fox", "mammal")])
    >>> bundle = unseen.train("structural", animals, "glove", backbone, out="my-bundle")
    >>> model = unseen.load("my-bundle", backbone)  # a network in memory is passed again
    >>> model.bundle.ids
    ('dog', 'mammal', 'cat', 'fox')
    """
    if bundle is None:
        bundle = default_bundle()
    if not isinstance(bundle, Bundle):
        bundle = Bundle.load(bundle, trust_code=trust_code)
    elif trust_code:
        bundle.trust_code = True
    return ZeroShotClassifier(bundle, backbone, device)
