"""A page of a user's code with every public name: the tests run it, and check its types in strict mode."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

import unseen
from unseen.apps.sklearn import ZeroShotClassifier
from unseen.examples import fruit_network, photo


def own_hierarchy() -> unseen.Hierarchy:
    pairs = [("strawberry", "berry"), ("raspberry", "berry"), ("lime", "citrus"), ("lemon", "citrus")]
    hierarchy = unseen.Hierarchy.from_edges([*pairs, ("berry", "fruit"), ("citrus", "fruit")])
    grown = hierarchy.extend([unseen.Node("kumquat", ("kumquat",), ("citrus",))])
    for id, distance in grown.ancestors("kumquat").items():
        print(grown.name(id), grown.definition(id), distance + 1)
    print(grown.leaves[0].upper(), grown.children("citrus")[0].upper(), len(grown), "lemon" in grown)
    print(grown.search("lemon")[0].id.upper(), grown.resolve("lemon").upper(), grown.path("lime", "lemon")[0].upper())
    return grown


@unseen.register("nearest")
class Nearest(unseen.Method):
    def fit(self, problem: unseen.Problem, run: unseen.Run) -> unseen.Solution:
        from unseen.methods.projections import Append1

        run.log(epoch=1)
        return unseen.Solution(self.predict(problem, {}), Append1())

    def predict(
        self, problem: unseen.Problem, state: dict[str, np.ndarray], rows: np.ndarray | None = None
    ) -> np.ndarray:
        vectors = problem.vectors.matrix
        alike = vectors[problem.rows_or_all(rows)] @ vectors[problem.seen].T
        return problem.targets()[alike.argmax(1)]


def describe(answer: unseen.Answer | unseen.Unreadable) -> str:
    if isinstance(answer, unseen.Unreadable):
        return f"{answer.photo}: {answer.why}".upper()
    verdict: unseen.Verdict = answer.verdict
    first: unseen.Label = answer[0]
    sure = 0.0 if verdict.probability is None else verdict.probability
    others = [label.name.upper() for label in answer] + [guess.title.upper() for guess in answer.guesses]
    trust = -1.0 if first.trust is None else first.trust
    print(verdict.level.upper(), verdict.text.upper(), sure + first.probability + trust, first.path[0].upper())
    print(others, answer.probability("fruit") + 1, first.support.upper(), first.training.upper())
    print(answer.to_dict()["labels"], first.to_dict()["id"], verdict.to_dict()["id"])
    return first.name if first.seen else first.say


def photos() -> Iterator[bytes]:
    for path in Path("fruits").rglob("*.png"):
        yield path.read_bytes()


def use(model: unseen.Model) -> None:
    print(model.classes[0].upper(), len(model), model.candidates("unseen").tolist())
    print(describe(model.classify(photo("crimson"), k=2)), describe(model.classify("fruits/lime/1.png")))
    for answer in model.stream([Path("fruits/lime/1.png"), photo("lime")], candidates="unseen", confidence=0.8):
        print(describe(answer))
    for answer in model.stream(photos(), among=["lemon", ("kumquat", "a small orange")]):
        print(describe(answer))
    for answer in model.stream("fruits"):
        print(describe(answer))
    for answer in model.stream(photos(), k=1, prior={"berry": 2.0}):
        print(describe(answer))
    features: np.ndarray = model.features(["fruits/lime/1.png"])
    print([answer.labels[0].name for answer in model.answers(features, prior="uniform")])
    p = model.predict_proba(features=features, candidates=["lemon", "raspberry"])
    print(p.shape, model.scores(features, candidates=["lemon"]).argmax(), model.prior)
    pets = model.among("lemon, lime")
    print(pets.listed[0].id.upper(), pets.listed[0].note.upper())
    looked = model.look_at(["nowhere.png"])
    print([item.why for item in looked.unreadable.values()], looked.matrix.shape)
    print([near.name for near in model.explain("lemon").neighbours])


def measure(model: unseen.Model) -> None:
    for result in (model.evaluate("fruits", "seen"), model.evaluate((model.features(photos()), ["lime"] * 2), "seen")):
        evaluation: unseen.Evaluation = result
        print(evaluation.image["hit@1"] + evaluation.class_["hit@1"], evaluation.per_class[0], len(evaluation.table))
        print(evaluation.hits([1])["image"], evaluation.to_dict())


def change(model: unseen.Model) -> None:
    id = model.add("cranberry", parents="berry", looks="a small red ball")
    ids = model.add(["blueberry", unseen.Node("yuzu", ("yuzu",), ("citrus",))], parents="berry")
    print(id.upper(), ids[0].upper())
    print(model.teach("cranberry", [photo("red")]) + model.teach("yuzu", features=model.features([photo("gold")])))
    model.forget("cranberry")
    model.rename("cranberry", "red berry")
    model.remove("cranberry")
    model.prior = "uniform"


def files(model: unseen.Model) -> None:
    saved: Path = model.save("fruits-bundle", overwrite=True)
    bundle = unseen.Bundle.load(saved)
    print(bundle.hierarchy.name("lemon"), bundle.method.upper(), bundle.seen_ids[0].upper(), bundle.ids[0].upper())
    again = unseen.load(bundle, model.network, device="cpu")
    print(again.classes == model.classes)
    labeller = unseen.Labeller(model, k=1, candidates=["lemon"])
    print(labeller.columns[0].upper(), labeller.schema.upper(), labeller({"path": ["fruits/lime/1.png"]}))


def others() -> None:
    settings = unseen.TrainSettings(holdout=0.5)
    print(settings.precision, unseen.FinetuneSettings(epochs=5).learning_rate_at(1, 2), unseen.CalibrateSettings().harm)
    network: unseen.Network = unseen.from_linear(np.eye(2), None, ["lime", "strawberry"])
    print(network.class_ids[0].upper(), network.num_features + 1)
    words = unseen.WordVectors(["polar", "bear"], np.eye(2))
    print(words.vector("polar bear"), words.dim + 1, [source.dim + 1 for source in unseen.load_vectors("glove")])
    model = unseen.train(own_hierarchy(), network, "kin", words, settings)
    print(model.bundle.training)
    estimator = ZeroShotClassifier([("lime", "fruit"), ("lemon", "fruit"), ("fig", "fruit")], vectors="glove")
    estimator.fit(np.eye(2), ["lime", "lemon"])
    print(estimator.predict(np.eye(2)), estimator.predict_proba(np.eye(2)).shape, estimator.classes_.tolist())


def own_network() -> unseen.Network:
    import torch

    layers = torch.nn.Sequential(torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(3, 2))
    return unseen.from_module(layers, ["strawberry", "lime"], unseen.PhotoTransform(224))


def only_checked(model: unseen.Model, folder: str) -> None:
    """What the small network cannot do."""
    print(model.heatmap(photo("lime"), "lime").cells.shape)
    print(model.calibrate(folder, unseen.CalibrateSettings(holdout=0.5)), model.finetune(folder, epochs=1))
    features = unseen.FeatureStore.open(folder, unseen.load_network("efficientnet-lite0"))
    for batch in features.batches(64):
        print(batch.features.shape, batch.class_ids[0].upper())
    for broken in features.unreadable():
        print(broken["why"].upper())


def main() -> None:
    for place, colour in (("lime/1.png", "lime"), ("strawberry/1.png", "crimson")):
        path = Path("fruits", place)
        path.parent.mkdir(parents=True, exist_ok=True)
        photo(colour).save(path)
    model = unseen.train(own_hierarchy(), fruit_network(), "kin", "glove")
    try:
        use(model)
        measure(model)
        change(model)
        files(model)
        others()
        own_network()
    except unseen.UnseenError as error:
        print(unseen.__version__, error)
        raise


if __name__ == "__main__":
    main()
