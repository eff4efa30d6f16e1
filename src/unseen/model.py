"""`Model`: a bundle with its network, ready to use. `unseen.train()` and `unseen.load()` return one.

One photo's way, from top to bottom:

    features = model.features([photo])                  # read, transform, network       (`answers.photos`)
    scorer = model.scorer(candidates)                   # which classes compete          (`answers.candidates`)
                                                        # ... and how common they are    (`answers.prior`)
    scores = scorer.scores(features)                    # projection . classifiers       (`answers.scores`)
    masses, cautious = scorer.to_nodes(np.exp(scores))  # probabilities up the hierarchy (`answers.probability`)
    nodes = scorer.verdicts(cautious, confidence)       # how much detail is known       (`answers.probability`)
    model.answers(features, k, candidates)              # all of it in words             (`answers.answer`)
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, overload

import numpy as np

from unseen.answers.answer import Answer, Unreadable, answer_features
from unseen.answers.choice import ListScorer
from unseen.answers.explain import Explanation, HeatMap, explain, map_heat
from unseen.answers.photos import (
    BATCH,
    PhotoFeatures,
    look_at,
    read_batch,
    read_one_class,
    read_rows,
    several_photos,
    work_through,
)
from unseen.answers.prior import COMMON, UNIFORM, Prior, PriorLike
from unseen.answers.probability import CONFIDENCE, check_confidence
from unseen.answers.scores import Scorer, check_shift
from unseen.bundle import Bundle, grow, teach
from unseen.hierarchy.core import Hierarchy, Node
from unseen.naming.candidates import default_candidates, resolve_candidates
from unseen.naming.meaning import find_class, with_parent_ids
from unseen.networks.features import check_matrix
from unseen.networks.light import LightNetwork, find_light, keep_light
from unseen.photos.reading import Source, UnreadablePhoto
from unseen.photos.transforms import PhotoTransform
from unseen.training.default import DEFAULT_HIERARCHY, DEFAULT_METHOD, DEFAULT_NETWORK, default_bundle
from unseen.util.devices import choose_device
from unseen.util.errors import UnseenError
from unseen.util.names import slug
from unseen.util.run import progress

if TYPE_CHECKING:
    from unseen.bundle.records import CalibrationRecord, FinetuneRecord
    from unseen.evaluation.protocol import Evaluation
    from unseen.methods import Method
    from unseen.naming.listing import Listed
    from unseen.naming.reading import Entry
    from unseen.networks.base import Network
    from unseen.training.settings import CalibrateSettings, FinetuneSettings, TrainSettings

EVEN_ON_CPU, EVEN_ON_GPU = 16, 128  # photos a batch where answers must not depend on the photos around them
FEW = 8  # photos, for which torch is not imported if it can be avoided
KEPT_LISTS = 4  # candidate lists whose classifiers and sums stay gathered
Names: TypeAlias = str | Sequence[str]


class Model:
    r"""A classifier for photos that can also explain, measure, change and save itself.

    The score of class u for a photo with features f (D numbers) is

    .. math:: s_u = w_u \cdot p(f)

    with the class's classifier :math:`w_u` and the method's projection p (both E numbers); most methods only append a 1
    for the bias. Methods that change the model change it in place.

    Here with a network that knows two fruits by their colour:

    >>> from unseen.examples import fruits, photo
    >>> model = fruits()
    >>> [label.name for label in model.classify(photo("crimson"), candidates=["lemon", "raspberry"])]
    ['raspberry', 'lemon']
    >>> model.add("cranberry", parents="berry")
    'cranberry'
    >>> model.classify(photo("crimson"), k=1, candidates=["lemon", "lime", "cranberry"])[0].path
    ('fruit', 'berry', 'cranberry')
    """

    def __init__(self, bundle: Bundle, network: Network | None = None, device: str = "auto"):
        if network is not None:
            bundle.take_network(network)
        self.bundle, self.device = bundle, device
        self.listed: tuple[Listed, ...] = ()  # the classes of `among`, which are then all that there are
        self._network, self._found_light = network, None
        self._scorers: dict[tuple[Any, ...], Scorer] = {}
        self._lists: dict[tuple[Entry, ...], Model] = {}

    def __repr__(self) -> str:
        """
        >>> from unseen.examples import fruits
        >>> fruits()
        Model: kin, 7 classes (2 seen), module/Sequential, not calibrated
        """
        bundle, calibrated = self.bundle, "calibrated" if self.bundle.calibration else "not calibrated"
        classes = f"{len(self):,} classes ({len(bundle.seen):,} seen)"
        return f"Model: {bundle.method}, {classes}, {bundle.network.name}, {calibrated}"

    def __len__(self) -> int:
        return len(self.candidates())

    def __getstate__(self) -> dict[str, Any]:
        kept = {name: getattr(self, name) for name in ("bundle", "device", "listed", "_network")}
        return kept | {"_scorers": {}, "_lists": {}, "_found_light": None}

    @property
    def classes(self) -> list[str]:
        """The ids of all classes that a photo may be called."""
        return [self.bundle.ids[row] for row in self.candidates()]

    # -- photos to answers -----------------------------------------------------------------------------------------

    @overload
    def classify(
        self, photos: Source, k: int = 5, candidates: Names = "any",
        seen_shift: float | None = None, confidence: float = CONFIDENCE, prior: PriorLike | None = None,
        *, among: str | Iterable[Entry] | None = None, show_progress: bool = False,
    ) -> Answer: ...  # fmt: skip
    @overload
    def classify(
        self, photos: Iterable[Source], k: int = 5, candidates: Names = "any",
        seen_shift: float | None = None, confidence: float = CONFIDENCE, prior: PriorLike | None = None,
        *, among: str | Iterable[Entry] | None = None, show_progress: bool = False,
    ) -> list[Answer | Unreadable]: ...  # fmt: skip
    def classify(
        self, photos: Source | Iterable[Source], k: int = 5, candidates: Names = "any",
        seen_shift: float | None = None, confidence: float = CONFIDENCE, prior: PriorLike | None = None,
        *, among: str | Iterable[Entry] | None = None, show_progress: bool = False,
    ) -> Answer | list[Answer | Unreadable]:  # fmt: skip
        """The answer for a photo: verdict and k best labels; for several photos, a list with an entry for each.

        Several photos are a list, a generator or any other iterable, an array or a tensor with a photo in each row, a
        folder, or an input such as list.txt, table.parquet and shard.tar (see `photos.inputs`; a glob too). To a type
        checker a text or a path is a single photo: `stream` has the type for folders.

        A verdict is right with probability `confidence`. A single photo that cannot be read raises UnseenError; among
        several, `Unreadable` stands in its place. `seen_shift`: see `scores`. `prior`: see `prior`. `among`: names to
        choose from, see `among`.

        >>> from unseen.examples import fruits, photo
        >>> fruits().classify(photo("crimson"), among=["lemon", "cranberry (berry)"])[0].name
        'cranberry'
        """
        if among is not None:
            if candidates != "any":
                raise UnseenError("among and candidates both say which classes compete: give one of them")
            options: dict[str, Any] = {"seen_shift": seen_shift, "confidence": confidence, "prior": prior}
            return self.among(among).classify(photos, k, **options, show_progress=show_progress)
        several = _find_several(photos)
        if several is not None:
            return list(self.stream(several, k, candidates, seen_shift, confidence, prior, show_progress=show_progress))
        scorer = self._checked_scorer(k, candidates, seen_shift, confidence, prior, light=self._light is not None)
        photo: Any = photos
        read = read_batch(self._light or self.network, [photo])
        for unreadable in read.unreadable.values():
            raise UnreadablePhoto(unreadable.photo, unreadable.why)
        return next(answer_features(self.bundle, scorer, read.matrix, k, seen_shift, confidence))

    def stream(
        self, photos: Source | Iterable[Source], k: int = 5, candidates: Names = "any",
        seen_shift: float | None = None, confidence: float = CONFIDENCE, prior: PriorLike | None = None,
        *, show_progress: bool = False, even: bool = False,
    ) -> Iterator[Answer | Unreadable]:  # fmt: skip
        """What `classify` returns for a list, a folder and the like, one by one as photos are done: any number of them.

        With `even`, all batches are of one size (the last one is filled up), so that an answer does not depend on the
        photos around it, to the last digit.
        """
        each_photo = _one_by_one(photos)
        light = self._light if isinstance(each_photo, Sequence) and len(each_photo) <= FEW and not even else None
        scorer = self._checked_scorer(k, candidates, seen_shift, confidence, prior, light=light is not None)
        bundle, network = self.bundle, light or self.network
        _ = scorer.sums  # gathered once, and not by each thread
        size = BATCH if not even else EVEN_ON_CPU if self.network.device.type == "cpu" else EVEN_ON_GPU

        def work(photos: Sequence[Source]) -> list[Answer | Unreadable]:
            read = read_batch(network, photos, size if even else 0)
            matrix = read.matrix
            if even:  # products with the classifiers round differently for other numbers of rows, too
                matrix = np.pad(matrix, ((0, size - len(matrix)), (0, 0)))
            answers = answer_features(bundle, scorer, matrix, k, seen_shift, confidence)
            return [read.unreadable.get(place) or next(answers) for place in range(len(photos))]

        def each() -> Iterator[Answer | Unreadable]:
            count = len(each_photo) if isinstance(each_photo, Sequence) else None
            done, started, enabled = 0, time.monotonic(), show_progress and (count is None or count > BATCH)
            with progress("Looking at photos", count, enabled=enabled) as bar:
                for batch in work_through(each_photo, work, network.device, size, even):
                    done += len(batch)
                    bar.advance(len(batch), rate=f"{done / (time.monotonic() - started):.0f}/s")
                    yield from batch

        return each()

    def classify_features(
        self, features: Any, k: int = 5, candidates: Names = "any",
        seen_shift: float | None = None, confidence: float = CONFIDENCE, prior: PriorLike | None = None,
    ) -> list[Answer]:  # fmt: skip
        """An answer for each row of features (n x D) that come from elsewhere: no photo and no network is needed."""
        matrix = check_matrix(features, width=self.bundle.network.num_features)
        return self.answers(matrix, k, candidates, seen_shift, confidence, prior)

    def answers(
        self, features: np.ndarray, k: int = 5, candidates: Names = "any",
        seen_shift: float | None = None, confidence: float = CONFIDENCE, prior: PriorLike | None = None,
    ) -> list[Answer]:  # fmt: skip
        """The answer for each row of features, with its k best labels."""
        scorer = self._checked_scorer(k, candidates, seen_shift, confidence, prior)
        return list(answer_features(self.bundle, scorer, np.atleast_2d(features), k, seen_shift, confidence))

    def _checked_scorer(
        self, k: int, candidates: Names, seen_shift: float | None, confidence: float, prior: PriorLike | None,
        light: bool = False,
    ) -> Scorer:  # fmt: skip
        """A wrong name or number is reported before photos are read."""
        if k < 1:
            raise UnseenError(f"k must be 1 or more, not {k}.")
        check_confidence(confidence)
        check_shift(seen_shift)
        return self.scorer(candidates, prior=prior, light=light)

    def predict_proba(
        self, photos: Any, candidates: Names = "any", prior: PriorLike | None = None, *, classes: Names | None = None
    ) -> np.ndarray:
        """n x C: probabilities of the candidates, by default of `self.classes`, for photos or rows of features (n x D).

        Columns are in the order of `self.candidates(...)`: that of a list or a file, or else of the hierarchy.
        `classes`, ids or names in your own order, is another word for such a list, of as many different classes.

        >>> from unseen.examples import fruits, photo
        >>> fruits().predict_proba([photo("crimson"), photo("lime")]).shape
        (2, 7)
        >>> fruits().predict_proba(photo("crimson"), classes=["lemon", "raspberry"]).round(2)
        array([[0.02, 0.98]], dtype=float32)
        """
        scorer = self._columns(candidates, classes, prior)
        return scorer.in_given_order(scorer.probabilities(self.as_features(photos)), 0.0)

    def _columns(self, candidates: Names, classes: Names | None, prior: PriorLike | None) -> Scorer:
        """The scorer of the classes that a matrix has columns for."""
        if classes is None:
            return self.scorer(candidates, prior=prior)
        if not isinstance(candidates, str) or candidates != "any":
            raise UnseenError("classes and candidates both say which classes the columns are: give one of them")
        scorer = self.scorer(classes, prior=prior)
        if not isinstance(classes, str) and len(scorer.given) != len(classes):
            raise UnseenError(f"{len(classes)} classes were asked for, but only {len(scorer.given)} of them differ")
        return scorer

    def as_features(self, photos: Any) -> np.ndarray:
        """n x D: rows of features as they are (of an array, a tensor, a table, a sparse matrix, lists of numbers), or
        the features of photos. A matrix of floats is never a grey photo here."""
        width = self.bundle.network.num_features
        if not _is_matrix(photos, width):
            return self.features(photos)
        return check_matrix(photos.detach().cpu().float() if hasattr(photos, "detach") else photos, width=width)

    def among(self, names: str | Iterable[Entry]) -> Model:
        """A model that knows these classes only, by name or id, each perhaps with what it looks like; or a text with
        names between commas, or a file of them.

        Names are found in the hierarchy and in WordNet; others are new classes, placed and predicted in memory.
        `listed` of the new model says what each name means. This one stays as it is.

        >>> from unseen.examples import fruits, photo
        >>> among = fruits().among(["lemon", "raspberry"])
        >>> among.classify(photo("crimson"))[0].name, [item.id for item in among.listed]
        ('raspberry', ['lemon', 'raspberry'])
        """
        if isinstance(names, str):
            from unseen.naming.reading import read_list

            names = read_list(names)
        key = tuple(names)
        model = self._lists.get(key)
        if model is None:
            from unseen.naming.listing import find_list  # with scipy, which no photo needs

            bundle, listed = find_list(self.bundle, key)
            model = self.with_bundle(bundle)
            model.listed = tuple(listed)
            for oldest in list(self._lists)[: 1 - KEPT_LISTS]:
                self._lists.pop(oldest, None)
            self._lists[key] = model
        return model

    # -- the steps between -----------------------------------------------------------------------------------------

    @cached_property
    def network(self) -> Network:
        """The network, loaded on first use."""
        return (self._network or self.bundle.load_network()).to(self._torch_device)

    @property
    def _light(self) -> LightNetwork | None:
        """What labels a photo or a few before anything has imported torch, which takes longer than they do."""
        if "torch" in sys.modules or self._network is not None or self.device not in ("auto", "cpu"):
            return None
        info = self.bundle.network
        if self._found_light is None and info.transform:
            self._found_light = find_light(info.checksum, PhotoTransform(**info.transform), info.num_features)
        return self._found_light

    def prepare_next_start(self) -> None:
        """Where onnxruntime is installed: have the network ready for it, so that the next process labels a photo
        without torch. Once for each network, in a second or two."""
        if self._light is None and "network" in self.__dict__:
            keep_light(self.network)

    @cached_property
    def _torch_device(self) -> Any:
        return choose_device(self.device)

    def look_at(
        self, photos: Source | Iterable[Source], batch: int = BATCH, show_progress: bool = False
    ) -> PhotoFeatures:
        """Features of one or several photos, as `classify` takes them; what cannot be read is listed apart."""
        return look_at(self.network, _one_by_one(photos), batch, show_progress)

    def features(self, photos: Source | Iterable[Source], batch: int = BATCH) -> np.ndarray:
        """Features (n x D) of one or several photos, all of which must be readable."""
        read = self.look_at(photos, batch)
        for first in read.unreadable.values():
            raise UnreadablePhoto(first.photo, first.why)
        return read.matrix

    def candidates(self, names: Names = "any", with_seen: bool = False) -> np.ndarray:
        """Rows of the classes that a photo may be assigned to; see `unseen.naming.candidates` for the names."""
        return self.scorer(names, with_seen).given

    @property
    def prior(self) -> Prior:
        """How probable classes are before anyone sees the photo, where no other prior is asked for.

        Set it to "common" (the default: unseen classes with common names are more probable), "uniform", a file of
        weights, or weights by id or name; it is saved with the model. A weight holds for all below a node, 0 excludes.

        >>> from unseen.examples import fruits, photo
        >>> model = fruits()
        >>> model.prior = {"berry": 0}
        >>> [label.name for label in model.classify(photo("crimson"), candidates=["lemon", "raspberry"])]
        ['lemon']
        """
        prior = COMMON if self.bundle.prior is None else Prior.from_json(self.bundle.prior)
        return replace(prior, common=False) if self.listed else prior  # a list says by itself what is expected

    @prior.setter
    def prior(self, prior: PriorLike) -> None:
        self.replace_bundle(self.bundle.change(prior=Prior.read(prior, self.bundle.hierarchy).to_json()))

    def scorer(
        self, candidates: Names = "any", with_seen: bool = False, prior: PriorLike | None = None, light: bool = False
    ) -> Scorer:
        """The scorer of these candidates; those of the last few lists are kept. `light`: by NumPy, for a few photos."""
        chosen = self.prior if prior is None else Prior.read(prior, self.bundle.hierarchy)
        candidates = candidates if isinstance(candidates, str) else tuple(candidates)
        is_list = candidates == "any" and bool(self.listed)
        if is_list:
            candidates = tuple(item.id for item in self.listed)
        key = (candidates, is_list, with_seen, light, chosen)
        scorer = self._scorers.get(key)
        if scorer is None:
            rows = resolve_candidates(self.bundle, candidates, with_seen)
            make = ListScorer if is_list else Scorer
            scorer = make(self.bundle, rows, None if light else self._torch_device, chosen)
            for oldest in list(self._scorers)[: 1 - KEPT_LISTS]:
                self._scorers.pop(oldest, None)
            self._scorers[key] = scorer
        return scorer

    def scores(
        self, photos: Any, candidates: Names = "any", seen_shift: float = 0.0, *, classes: Names | None = None
    ) -> np.ndarray:
        """n x C: the method's scores of photos or rows of features (n x D); columns as in `predict_proba`.

        `seen_shift` is taken off the seen classes' scores (calibrated stacking): more of it favours unseen ones.
        A class for which the method has no answer scores -inf.
        """
        scorer = self._columns(candidates, classes, UNIFORM)
        return scorer.in_given_order(scorer.scores(self.as_features(photos), seen_shift), -np.inf)

    def explain(self, id: str, n: int = 5) -> Explanation:
        """The seen classes that a class borrows its classifier from, and the way to them in the hierarchy."""
        return explain(self.bundle, id, n)

    def heatmap(self, photo: Source, id: str, instead_of: str | None = None) -> HeatMap:
        """Where in the photo the score of a class, by id or name, comes from; with `instead_of`, why not that other."""
        ids = [find_class(one, self.bundle.hierarchy) for one in (id, instead_of) if one is not None]
        heat, *other = map_heat(self.bundle, self.network, photo, ids)
        return heat.minus(other[0]) if other else heat

    # -- measuring, changing, saving -------------------------------------------------------------------------------

    def evaluate(self, photos: Any, candidates: Names | None = None, **options: Any) -> Evaluation:
        """Hit@k and verdicts on photos by class; `unseen.evaluation.protocol.evaluate` has the options. By default the
        candidates are the unseen classes; in a hierarchy of your own, its unseen leaves."""
        from unseen.evaluation.protocol import evaluate

        return evaluate(self, photos, candidates or default_candidates(self.bundle), **options)

    def calibrate(
        self, photos: Any, settings: CalibrateSettings | None = None, **options: Any
    ) -> CalibrationRecord | None:
        """Fit probabilities on photos of seen classes; `unseen.training.calibrate.calibrate` has the options."""
        from unseen.training.calibrate import calibrate

        self.replace_bundle(calibrate(self, photos, settings, **options))
        return self.bundle.calibration

    def finetune(
        self, photos: str | Path, settings: FinetuneSettings | None = None, **options: Any
    ) -> FinetuneRecord | None:
        """Train the network under the predicted classifiers; `unseen.training.stage2.finetune` has the options."""
        from unseen.training.stage2 import finetune

        self.replace_bundle(finetune(self, photos, settings, **options))
        self.bundle.take_network(self.network)
        return self.bundle.finetuning

    @overload
    def add(
        self, name: str | Node = "", parents: Names = (), definition: str = "", id: str | None = None,
        vectors: Any = None, looks: str = "",
    ) -> str: ...  # fmt: skip
    @overload
    def add(self, name: Sequence[str | Node], parents: Names = (), *, vectors: Any = None) -> list[str]: ...
    def add(
        self, name: str | Node | Sequence[str | Node] = "", parents: Names = (), definition: str = "",
        id: str | None = None, vectors: Any = None, looks: str = "",
    ) -> str | list[str]:  # fmt: skip
        """Add a class by name and parents; it takes part in the answers at once. Returns its id; of a list of names, a
        list of ids. `"wheelie bin|garbage bin"` is one class with a synonym, and a `Node` says all of a class.

        `looks` says in a sentence or two what it looks like in photos: shape, colours, parts, setting.

        For a WordNet id the rest may be left out: `model.add(id="n02456645")`. `vectors`: a file or a callable, where
        the bundle cannot load its sources by name.

        >>> from unseen.examples import fruits
        >>> fruits().add(["cranberry", "blueberry|bilberry"], parents="berry")
        ['cranberry', 'blueberry']
        """
        if not isinstance(name, (str, Node)):
            if definition or id or looks:
                raise UnseenError(
                    "definition, id and looks are for one class: give several as unseen.Node, or one by one"
                )
            several = list(name)
        else:
            several = [name]
        nodes = []
        for one in several:
            if not isinstance(one, Node):
                if not isinstance(one, str):
                    raise UnseenError(f"a new class is a name or an unseen.Node, not {type(one).__name__}")
                names = tuple(filter(None, map(str.strip, one.split("|"))))
                if not names and id is None:
                    raise UnseenError("a new class needs a name, or the id of a WordNet noun")
                one = Node(id or slug(names[0]), names, parents, definition, looks)
            nodes.append(one)
        self.replace_bundle(grow.add(self.bundle, with_parent_ids(nodes, self.bundle.hierarchy), vectors))
        return nodes[0].id if isinstance(name, (str, Node)) else [node.id for node in nodes]

    def remove(self, *classes: str) -> None:
        """Remove classes, by id or name; their children go to their parents. Seen classes cannot be removed."""
        ids = [find_class(one, self.bundle.hierarchy) for one in classes]
        self.replace_bundle(grow.remove(self.bundle, ids))

    def rename(self, name: str, *names: str) -> None:
        """Give a class, by id or name, other names, the one to show first. Its classifier stays."""
        self.replace_bundle(grow.rename(self.bundle, find_class(name, self.bundle.hierarchy), names))

    def teach(self, name: str, photos: Source | Iterable[Source] = (), *, features: Any = None) -> int:
        """Teach a class, by id or name, with a photo, several, or a folder of them, or with rows of features (n x D),
        in addition to what it was taught before. Returns the number of its photos so far. If one cannot be read,
        UnseenError, and nothing is taught."""
        if features is not None and not (isinstance(photos, tuple) and not photos):
            raise UnseenError("photos and features are both given: teach one after the other")
        id = find_class(name, self.bundle.hierarchy)
        taught = read_one_class(self, photos) if features is None else read_rows(self, features)
        self.replace_bundle(teach.teach(self.bundle, {id: taught}))
        return self.bundle.taught[id].photos

    def forget(self, name: str) -> None:
        """Forget the photos of a class: restores its classifier from before teaching."""
        self.replace_bundle(teach.forget(self.bundle, [find_class(name, self.bundle.hierarchy)]))

    def export(self, kind: str, out: str | Path, candidates: Names = "any", half: bool = False) -> dict[str, Any]:
        """Write the model for elsewhere: onnx, torch, timm or web; `unseen.export.to_onnx` has the details."""
        from unseen.export.to_onnx import export

        return export(self, kind, out, candidates, half)

    def save(self, path: str | Path, precision: str = "fp32", overwrite: bool = False) -> Path:
        """Write the bundle with all its classes; see `unseen.Bundle.save`."""
        return self.bundle.save(path, precision, overwrite)

    def replace_bundle(self, bundle: Bundle) -> None:
        """Use another bundle for the same network."""
        self.bundle = bundle
        self._scorers.clear()
        self._lists.clear()

    def with_bundle(self, bundle: Bundle) -> Model:
        """Another bundle for the same network, as a model of its own."""
        model = Model(bundle, None if self._light else self.network, self.device)
        model._found_light = self._found_light
        return model


def _find_several(photos: Any) -> Iterable[Source] | None:
    """`several_photos`, of a column of paths too; None for a single photo."""
    return several_photos(list(photos) if getattr(photos, "ndim", 0) == 1 else photos)


def _one_by_one(photos: Any) -> Iterable[Source]:
    several = _find_several(photos)
    return [photos] if several is None else several


def _is_matrix(x: Any, width: int) -> bool:
    """Whether these are rows of features, or one row, and no photo and no paths."""
    if isinstance(x, (list, tuple)):
        return bool(x) and isinstance(x[0], (list, tuple))
    kind = getattr(getattr(x, "dtype", None), "kind", "f")  # a table and a tensor have none
    return getattr(x, "ndim", 0) in (1, 2) and (kind == "f" or (kind in "iu" and x.shape[-1] == width))


def train(
    hierarchy: str | Path | Hierarchy = DEFAULT_HIERARCHY,
    network: str | Network = DEFAULT_NETWORK,
    method: str | Method = DEFAULT_METHOD,
    vectors: Any = None,
    settings: TrainSettings | None = None,
    **options: Any,
) -> Model:
    """Predict a classifier for every class of a hierarchy.

    Args:
        hierarchy: A built-in hierarchy by name, a file, or a `Hierarchy`.
        network: The network by name, or loaded with `unseen.load_network` or `unseen.from_module`.
        method: A name, or a method.
        vectors: Built-in class vectors by name, a file of word vectors, a callable; None: what suits the method.
        settings: Hold-out, precision and the like.
        **options: `out`, `overwrite` and `run` of `unseen.training.stage1.train`, and the settings of the method.

    >>> import unseen
    >>> from unseen.examples import fruit_network
    >>> fruits = unseen.Hierarchy.from_edges([("strawberry", "fruit"), ("lime", "fruit"), ("lemon", "fruit")])
    >>> unseen.train(fruits, fruit_network(), "structural", "glove", decay=0.5).classes
    ['strawberry', 'fruit', 'lime', 'lemon']
    """
    from unseen.networks.loading import load_network
    from unseen.training import stage1  # with torch and scipy, which a photo may not need

    run, loaded = options.get("run"), load_network(network) if isinstance(network, str) else network

    bundle = stage1.train(hierarchy, loaded, method, vectors, settings, **options)
    return Model(bundle, loaded, "auto" if run is None else run.device)


def load(
    bundle: str | Path | Bundle | None = None,
    network: Network | None = None,
    device: str = "auto",
    trust_code: bool = False,
) -> Model:
    """The model of a bundle.

    Args:
        bundle: Its file, or the bundle; None or "default": the default one, made on first use and kept in the cache.
        network: The network, if the bundle cannot load it by name.
        device: cpu, cuda and the like; auto takes a GPU if there is one.
        trust_code: Let the bundle import your own module that it names as its network or method. Which file that
            is goes to standard error. Without it such a bundle raises an error when its network is needed.

    >>> import unseen
    >>> from unseen.examples import fruits
    >>> model = fruits()
    >>> place = model.save("fruits")
    >>> len(unseen.load("fruits", model.network))  # a network in memory is passed again
    7
    """
    if bundle is None or (str(bundle) == "default" and not Path("default").exists()):
        bundle = default_bundle()
    if not isinstance(bundle, Bundle):
        bundle = Bundle.load(bundle, trust_code=trust_code)
    elif trust_code:
        bundle.trust_code = True
    return Model(bundle, network, device)
