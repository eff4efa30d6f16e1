"""`Model`: a bundle with its network, ready to use. `unseen.train()` and `unseen.load()` return one.

One photo's way, from top to bottom:

    features = model.features([photo])                  # read, transform, network       (`networks.features`)
    scorer = model.scorer(Ask(candidates=...))      # which classes compete          (`naming.candidates`)
                                                        # ... and how common they are    (`answers.prior`)
    scores = scorer.scores(features)                    # projection . classifiers       (`answers.scores`)
    masses, cautious = scorer.to_nodes(np.exp(scores))  # probabilities up the hierarchy (`answers.probability`)
    nodes = scorer.verdicts(cautious, confidence)       # how much detail is known       (`answers.probability`)
    model.answers(features)                             # all of it in words             (`answers.answer`)
"""

from __future__ import annotations

import copy
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, overload

import numpy as np

from unseen.answers.answer import Answer, Unreadable, answer_features
from unseen.answers.ask import Ask, make_scorer, usual_prior
from unseen.answers.explain import Explanation, HeatMap, explain, map_heat
from unseen.answers.prior import Prior, PriorLike
from unseen.answers.scores import Scorer
from unseen.bundle import Bundle, grow, teach
from unseen.bundle.teaching_photos import read_one_class, read_rows
from unseen.hierarchy.core import Hierarchy, Node
from unseen.naming.candidates import default_candidates
from unseen.naming.meaning import find_class, with_parent_ids
from unseen.networks.devices import choose_device, has_gpu, is_cpu
from unseen.networks.features import PhotoFeatures, check_matrix, photo_features, read_features
from unseen.networks.run import OnnxNetwork
from unseen.photos.inputs import several_photos
from unseen.photos.reading import Source, UnreadablePhoto
from unseen.training.default import DEFAULT_HIERARCHY, DEFAULT_METHOD, DEFAULT_NETWORK, default_bundle
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

BLOCK = 16  # photos that are answered at a time
EVERYTHING = Ask()
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

    def __init__(self, bundle: Bundle, network: Network | OnnxNetwork | None = None, device: str = "auto"):
        if network is not None:
            bundle.take_network(network)
        self.bundle, self.device = bundle, device
        self._given = network
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
        kept = {name: getattr(self, name) for name in ("bundle", "device", "_given")}
        return kept | {"_scorers": {}, "_lists": {}}

    @property
    def listed(self) -> tuple[Listed, ...]:
        """The names of `among`, if this model knows no other classes, and what each was taken for."""
        return self.bundle.listed

    @property
    def classes(self) -> list[str]:
        """The ids of all classes that a photo may be called."""
        return [self.bundle.ids[row] for row in self.candidates()]

    # -- photos to answers -----------------------------------------------------------------------------------------

    def classify(self, photo: Source, k: int = 5, candidates: Names = "any", **options: Any) -> Answer:
        """The answer for one photo: verdict and k best labels.

        `options`: the others of `unseen.answers.ask.Ask`: among, confidence, prior, seen_share. A photo is a
        path, a URL, bytes, an open file, an image of Pillow, or an array. UnseenError if it cannot be read.

        >>> from unseen.examples import fruits, photo
        >>> fruits().classify(photo("crimson"), among=["lemon", "cranberry (berry)"])[0].name
        'cranberry'
        """
        model, ask = self._asked(Ask(k, candidates, **options))
        scorer = model.scorer(ask)  # a wrong name is reported before the photo is read
        try:
            pixels = model.network.transform.open_array(photo)
        except UnreadablePhoto as error:
            if several_photos(photo) is not None:
                raise UnseenError("these are several photos, and classify answers one: use stream") from None
            raise error
        return next(answer_features(model.bundle, scorer, model.network.features_of(pixels[None]), ask))

    def stream(
        self, photos: Source | Iterable[Source], k: int = 5, candidates: Names = "any",
        *, show_progress: bool = False, **options: Any,
    ) -> Iterator[Answer | Unreadable]:  # fmt: skip
        """The answers for any number of photos, in their order, each as soon as it is known; `Unreadable` stands for a
        photo that cannot be read.

        Several photos are a list, a generator or any other iterable, an array with a photo in each row, a folder, or an
        input such as list.txt, table.parquet and shard.tar (see `photos.inputs`; a glob too). `options` as in
        `classify`.

        >>> from unseen.examples import fruits, photo
        >>> [answer[0].name for answer in fruits().stream([photo("crimson"), photo("lime")], candidates="leaves")]
        ['strawberry', 'lime']
        """
        model, ask = self._asked(Ask(k, candidates, **options))
        return model._stream(self._one_by_one(photos), ask, show_progress)

    def _stream(self, photos: Iterable[Source], ask: Ask, show_progress: bool) -> Iterator[Answer | Unreadable]:
        scorer, bundle, network = self.scorer(ask), self.bundle, self.network

        def each() -> Iterator[Answer | Unreadable]:
            count = len(photos) if isinstance(photos, Sequence) else None
            done, started, enabled = 0, time.monotonic(), show_progress and (count is None or count > BLOCK)
            features = (result for _, result in photo_features(network, photos))
            with progress("Looking at photos", count, enabled=enabled) as bar:
                while block := list(islice(features, BLOCK)):
                    rows = [row for row in block if not isinstance(row, Unreadable)]
                    answers = answer_features(bundle, scorer, np.stack(rows), ask) if rows else iter(())
                    yield from (item if isinstance(item, Unreadable) else next(answers) for item in block)
                    done += len(block)
                    bar.advance(len(block), rate=f"{done / (time.monotonic() - started):.0f}/s")

        return each()

    def answers(self, features: Any, k: int = 5, candidates: Names = "any", **options: Any) -> list[Answer]:
        """The answer for each row of features (n x D), without photo and network. `options` as in `classify`."""
        model, ask = self._asked(Ask(k, candidates, **options))
        matrix = check_matrix(features, width=self.bundle.network.num_features)
        return list(answer_features(model.bundle, model.scorer(ask), matrix, ask))

    def predict_proba(
        self, photos: Any = (), candidates: Names = "any", *, features: Any = None, **options: Any
    ) -> np.ndarray:
        """n x C: p of the candidates, by default of `self.classes`, for photos, or for rows of `features` (n x D).

        Columns are in the order of `self.candidates(...)`: that of a list or a file, or else of the hierarchy.
        `options` as in `classify`.

        >>> from unseen.examples import fruits, photo
        >>> fruits().predict_proba([photo("crimson"), photo("lime")]).shape
        (2, 7)
        >>> fruits().predict_proba(photo("crimson"), candidates=["lemon", "raspberry"]).round(2)
        array([[0.02, 0.98]], dtype=float32)
        """
        model, ask = self._asked(Ask(candidates=candidates, **options))
        scorer = model.scorer(ask)
        matrix = (
            self.features(photos)
            if features is None
            else check_matrix(features, width=self.bundle.network.num_features)
        )
        return scorer.in_given_order(scorer.probabilities(matrix), 0.0)

    def scores(self, features: Any, candidates: Names = "any") -> np.ndarray:
        """n x C: the method's own scores of rows of features (n x D); columns as in `predict_proba`.

        A class for which the method has no answer scores -inf.
        """
        scorer = Scorer(self.bundle, self.candidates(candidates))
        matrix = check_matrix(features, width=self.bundle.network.num_features)
        return scorer.in_given_order(scorer.method_scores(matrix), -np.inf)

    def _asked(self, ask: Ask) -> tuple[Model, Ask]:
        """The model that answers: for a list of names one that knows nothing else."""
        return (self, ask) if ask.among is None else (self.among(ask.among), replace(ask, among=None))

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
        from unseen.naming.listing import find_list  # with scipy, which no photo needs
        from unseen.naming.reading import read_list

        key = tuple(read_list(names) if isinstance(names, str) else names)
        model = self._lists.get(key)
        if model is None:
            bundle, listed = find_list(self.bundle, key)
            bundle = copy.copy(bundle)  # it may be this model's own
            bundle.listed = tuple(listed)
            model = self.with_bundle(bundle)
            for oldest in list(self._lists)[: 1 - KEPT_LISTS]:
                self._lists.pop(oldest, None)
            self._lists[key] = model
        return model

    # -- the steps between -----------------------------------------------------------------------------------------

    @cached_property
    def network(self) -> Network | OnnxNetwork:
        """What makes features of photos, loaded on first use: on a CPU the graph that the bundle holds, by ONNX
        Runtime; on a GPU, or where the bundle holds none, `torch_network`."""
        on_cpu = is_cpu(self.device) or (self.device == "auto" and not has_gpu())
        return (self.bundle.open_network() if on_cpu else None) or self._given or self.torch_network

    @cached_property
    def torch_network(self) -> Network:
        """The network in torch, for finetuning, heat maps and GPUs."""
        given = None if isinstance(self._given, OnnxNetwork) else self._given
        network = given or self.bundle.load_network()
        if isinstance(network, OnnxNetwork):
            raise UnseenError(f"{network.name} is an ONNX graph, which can be neither trained nor looked into")
        return network.to(self._torch_device)

    @cached_property
    def _torch_device(self) -> Any:
        return choose_device(self.device)

    def look_at(self, photos: Source | Iterable[Source], show_progress: bool = False) -> PhotoFeatures:
        """Features of one or several photos, as `classify` takes them; what cannot be read is listed apart."""
        return read_features(self.network, self._one_by_one(photos), show_progress)

    def features(self, photos: Source | Iterable[Source]) -> np.ndarray:
        """Features (n x D) of one or several photos, all of which must be readable."""
        read = self.look_at(photos)
        for first in read.unreadable.values():
            raise UnreadablePhoto(first.photo, first.why)
        return read.matrix

    def _one_by_one(self, photos: Any) -> Iterable[Source]:
        """Photos of a list, a folder, an input or a column of paths; a single photo is a list of one."""
        axes = getattr(photos, "ndim", 0)
        if axes == 2 and photos.shape[1] == self.bundle.network.num_features and "float" in str(photos.dtype):
            raise UnseenError("these are rows of features, not photos: give them to `answers`, or as features=...")
        several = several_photos(list(photos) if axes == 1 else photos)
        return [photos] if several is None else several

    def candidates(self, names: Names = "any", with_seen: bool = False) -> np.ndarray:
        """Rows of the classes that a photo may be assigned to; see `unseen.naming.candidates` for the names."""
        return self.scorer(Ask(candidates=names), with_seen).given

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
        return usual_prior(self.bundle)

    @prior.setter
    def prior(self, prior: PriorLike) -> None:
        self.replace_bundle(self.bundle.change(prior=Prior.read(prior, self.bundle.hierarchy).to_json()))

    def scorer(self, ask: Ask = EVERYTHING, with_seen: bool = False) -> Scorer:
        """What scores the candidates asked for; the scorers of the last few lists are kept."""
        prior = usual_prior(self.bundle) if ask.prior is None else Prior.read(ask.prior, self.bundle.hierarchy)
        candidates = ask.candidates if isinstance(ask.candidates, str) else tuple(ask.candidates)
        key = (candidates, with_seen, prior, ask.seen_share)
        scorer = self._scorers.get(key)
        if scorer is None:
            scorer = make_scorer(self.bundle, replace(ask, prior=prior), with_seen)
            for oldest in list(self._scorers)[: 1 - KEPT_LISTS]:
                self._scorers.pop(oldest, None)
            self._scorers[key] = scorer
        return scorer

    def explain(self, id: str, n: int = 5) -> Explanation:
        """The seen classes that a class borrows its classifier from, and the way to them in the hierarchy."""
        return explain(self.bundle, id, n)

    def heatmap(self, photo: Source, id: str, instead_of: str | None = None) -> HeatMap:
        """Where in the photo the score of a class, by id or name, comes from; with `instead_of`, why not that other."""
        ids = [find_class(one, self.bundle.hierarchy) for one in (id, instead_of) if one is not None]
        heat, *other = map_heat(self.bundle, self.torch_network, photo, ids)
        return heat.minus(other[0]) if other else heat

    # -- measuring, changing, saving -------------------------------------------------------------------------------

    def evaluate(self, photos: Any, candidates: Names | None = None, **options: Any) -> Evaluation:
        """Hit@k and verdicts on photos by class; `unseen.evaluation.protocol.evaluate` has the options. By default the
        candidates are the unseen classes; in a hierarchy of your own, its unseen leaves."""
        from unseen.evaluation.protocol import evaluate

        return evaluate(
            self.bundle, photos, candidates or default_candidates(self.bundle), network=lambda: self.network, **options
        )

    def calibrate(
        self, photos: Any, settings: CalibrateSettings | None = None, **options: Any
    ) -> CalibrationRecord | None:
        """Fit probabilities on photos of seen classes; `unseen.training.calibrate.calibrate` has the options."""
        from unseen.training.calibrate import calibrate

        self.replace_bundle(calibrate(self.bundle, self.network, photos, settings, **options))
        return self.bundle.calibration

    def finetune(
        self, photos: str | Path, settings: FinetuneSettings | None = None, **options: Any
    ) -> FinetuneRecord | None:
        """Train the network under the predicted classifiers; `unseen.training.stage2.finetune` has the options."""
        from unseen.training.stage2 import finetune

        self.replace_bundle(finetune(self.bundle, self.torch_network, photos, settings, **options))
        self.bundle.take_network(self.torch_network)
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
        taught = read_one_class(self.network, photos) if features is None else read_rows(self.bundle, features)
        self.replace_bundle(teach.teach(self.bundle, {id: taught}))
        return self.bundle.taught[id].photos

    def forget(self, name: str) -> None:
        """Forget the photos of a class: restores its classifier from before teaching."""
        self.replace_bundle(teach.forget(self.bundle, [find_class(name, self.bundle.hierarchy)]))

    def export(self, kind: str, out: str | Path, candidates: Names = "any", half: bool = False) -> dict[str, Any]:
        """Write the model for elsewhere: onnx or web; `unseen.export.to_onnx` has the details."""
        from unseen.export.to_onnx import export

        return export(self.bundle, kind, out, candidates, half)

    def matrix(self, candidates: Names = "any") -> np.ndarray:
        """C x E, float32: the classifiers of the candidates, as a last layer [weight, bias] where the method predicts
        one. Its scores rank classes without calibration and prior: `answers` ranks otherwise.

        >>> from unseen.examples import fruits
        >>> fruits().matrix(["strawberry", "lemon"]).shape
        (2, 4)
        """
        rows = self.candidates(candidates)
        return np.asarray(self.bundle.solution.classifiers[rows], np.float32)

    def save(self, path: str | Path, precision: str = "fp32", overwrite: bool = False) -> Path:
        """Write the bundle with all its classes; see `unseen.Bundle.save`."""
        return self.bundle.save(path, precision, overwrite)

    def replace_bundle(self, bundle: Bundle) -> None:
        """Use another bundle for the same network."""
        if bundle.network.onnx != self.bundle.network.onnx:  # it was finetuned
            self.__dict__.pop("network", None)
        self.bundle = bundle
        self._scorers.clear()
        self._lists.clear()

    def with_bundle(self, bundle: Bundle) -> Model:
        """Another bundle for the same network, as a model of its own."""
        model = Model(bundle, None, self.device)
        model._given = self._given
        model.__dict__ |= {name: self.__dict__[name] for name in ("network", "torch_network") if name in self.__dict__}
        return model


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
    network: Network | OnnxNetwork | None = None,
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
    >>> len(unseen.load("fruits"))
    7
    """
    if bundle is None or (str(bundle) == "default" and not Path("default").exists()):
        bundle = default_bundle()
    if not isinstance(bundle, Bundle):
        bundle = Bundle.load(bundle, trust_code=trust_code)
    elif trust_code:
        bundle.trust_code = True
    return Model(bundle, network, device)
