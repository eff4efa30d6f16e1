from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.kernel_ridge import KernelRidge

from support.problems import SEEN, make_problem, make_vectors
from unseen.errors import UnseenError
from unseen.methods import make_method
from unseen.methods.kin import KinSettings, method
from unseen.methods.kin import choice as choose
from unseen.methods.kin.inputs import Kernel, ancestor_vectors, gather, natural_width
from unseen.methods.problem import Problem
from unseen.runtime.run import Run
from unseen.taxonomy import Node, Taxonomy

FIXED = {"ridge": 0.2, "width": 1.0, "sources": [1.0]}


def finished(deviation: np.ndarray, state: dict[str, np.ndarray], caution: float = 1.0) -> np.ndarray:
    """mu + d / sqrt(|d|^2 + caution^2 chance^2)."""
    doubt = (caution * state["chance"][0]) ** 2
    return state["mean"] + deviation / np.sqrt(np.square(deviation).sum(axis=-1, keepdims=True) + doubt)


def plain_inputs(problem: Problem, row: int, settings: KinSettings) -> tuple[list, list, dict]:
    """x, z and a of one class, from the definitions and by loops."""
    taxonomy, ids = problem.taxonomy, problem.taxonomy.ids

    def mean_by_hops(id: str, reach, weights, values) -> np.ndarray:
        groups = [[] for _ in weights]
        for other, distance in {id: 0, **reach(id)}.items():
            groups[min(distance, len(weights) - 1)].append(values[other])
        return sum(w * np.mean(group, axis=0) for w, group in zip(weights, groups, strict=True) if group)

    words, propagated = [], []
    for part in problem.vectors.parts:
        x = {id: part[i].astype(float) for i, id in enumerate(ids)}
        down = {id: mean_by_hops(id, taxonomy.descendants, settings.descendants, x) for id in ids}
        z = mean_by_hops(ids[row], taxonomy.ancestors, settings.ancestors, down)
        words.append(x[ids[row]])
        propagated.append(z / np.linalg.norm(z))
    above = {id: settings.decay**distance for id, distance in taxonomy.ancestors(ids[row]).items()} | {ids[row]: 1.0}
    length = np.sqrt(sum(value**2 for value in above.values()))
    return words, propagated, {id: value / length for id, value in above.items()}


def plain_kernel(problem: Problem, rows, columns, settings: KinSettings) -> np.ndarray:
    """K by its formula, entry by entry."""
    inputs = [plain_inputs(problem, row, settings) for row in range(len(problem.taxonomy))]
    seen = [inputs[row] for row in problem.seen]
    sources = range(len(problem.vectors.parts))
    g_x = [settings.word_width / natural_width(np.array([s[0][i] for s in seen])) for i in sources]
    g_z = [settings.propagated_width / natural_width(np.array([s[1][i] for s in seen])) for i in sources]
    result = np.zeros((len(rows), len(columns)))
    for i, u in enumerate(rows):
        for j, v in enumerate(columns):
            (x, z, a), (x2, z2, a2) = inputs[u], inputs[v]
            value = settings.ancestor_weight * sum(a[id] * a2.get(id, 0) for id in a)
            for k in sources:
                value += settings.sources[k] * settings.word_weight * np.exp(g_x[k] * (x[k] @ x2[k] - 1))
                value += settings.sources[k] * settings.propagated_weight * np.exp(g_z[k] * (z[k] @ z2[k] - 1))
            result[i, j] = value
    total = (settings.word_weight + settings.propagated_weight) * sum(settings.sources) + settings.ancestor_weight
    return result / total


@pytest.mark.parametrize("parts", [1, 2])
def test_is_scikit_learns_kernel_ridge_on_the_formulas_kernel(parts):
    problem = make_problem(parts=parts)
    kin = make_method("kin", FIXED | {"sources": [1.0, 0.5][:parts]})
    solution = kin.fit(problem, Run())
    everyone = np.arange(len(problem.taxonomy))
    known = plain_kernel(problem, problem.seen, problem.seen, kin.settings)
    rows = plain_kernel(problem, everyone, problem.seen, kin.settings)
    targets = problem.targets()
    model = KernelRidge(alpha=0.2, kernel="precomputed").fit(known, targets - targets.mean(axis=0))
    chance = np.median(np.linalg.norm(rows @ np.linalg.inv(known + 0.2 * np.eye(5)), axis=1))
    assert solution.state["chance"][0] == pytest.approx(chance, abs=1e-4)
    unseen = np.setdiff1d(everyone, problem.seen)
    expected = finished(model.predict(rows), solution.state)
    assert np.allclose(solution.classifiers[unseen], expected[unseen], atol=1e-4)


def test_seen_classes_keep_their_own_row_by_the_same_formula():
    problem = make_problem()
    kin = make_method("kin", FIXED)
    solution = kin.fit(problem, Run())
    own = problem.targets() - problem.targets().mean(axis=0)
    kept = solution.classifiers[problem.seen]
    assert np.allclose(kept, finished(own, solution.state), atol=1e-5)
    assert np.allclose(kin.predict(problem, solution.state, problem.seen), kept, atol=1e-6)


def test_chance_is_the_length_that_random_classifiers_would_give():
    """The stored number against ridge regression of many random classifiers of length 1; the median over classes."""
    problem = make_problem()
    kin = make_method("kin", FIXED)
    chance = float(kin.fit(problem, Run()).state["chance"][0])
    everyone = np.arange(len(problem.taxonomy))
    dealt = np.random.default_rng(0).normal(size=(5, 2000, 100))
    dealt /= np.linalg.norm(dealt, axis=2, keepdims=True)
    model = KernelRidge(alpha=FIXED["ridge"], kernel="precomputed")
    model.fit(plain_kernel(problem, problem.seen, problem.seen, kin.settings), dealt.reshape(5, -1))
    predicted = model.predict(plain_kernel(problem, everyone, problem.seen, kin.settings))
    lengths = np.linalg.norm(predicted.reshape(len(everyone), 2000, 100), axis=2)
    assert chance == pytest.approx(np.median(np.sqrt(np.square(lengths).mean(axis=1))), rel=0.02)


def test_trust_is_what_the_posterior_explains():
    problem = make_problem()
    kin = make_method("kin", FIXED)
    solution = kin.fit(problem, Run())
    row = problem.taxonomy.index("poodle")
    k_us = plain_kernel(problem, [row], problem.seen, kin.settings)[0]
    k_ss = plain_kernel(problem, problem.seen, problem.seen, kin.settings)
    variance = 1 - k_us @ np.linalg.solve(k_ss + 0.2 * np.eye(5), k_us)
    assert solution.trust[row] == pytest.approx(np.sqrt(1 - variance), abs=1e-4)
    assert (solution.trust[problem.seen] == 1).all()
    assert ((solution.trust >= 0) & (solution.trust <= 1)).all()
    assert np.allclose(kin.trust(problem, solution.state), solution.trust, atol=1e-6)


def test_a_class_that_resembles_nothing_is_trusted_least_and_stays_weak():
    problem = make_problem(zero=("lonely",))  # no vector, no kin
    solution = make_method("kin", FIXED).fit(problem, Run())
    row = problem.taxonomy.index("lonely")
    assert solution.trust[row] == 0
    assert np.allclose(solution.classifiers[row], problem.targets().mean(axis=0), atol=1e-6)


def test_shares_add_up_to_the_prediction():
    problem = make_problem()
    kin = make_method("kin", FIXED)
    solution = kin.fit(problem, Run())
    row, mean = problem.taxonomy.index("saw"), problem.targets().mean(axis=0)
    deviation = kin.shares(problem, solution.state, row) @ (problem.targets() - mean)
    assert np.allclose(solution.classifiers[row], finished(deviation, solution.state), atol=1e-4)
    own = kin.shares(problem, solution.state, int(problem.seen[2]))
    assert own.argmax() == 2


def test_caution_shortens_weak_deviations_most():
    problem = make_problem()
    mean = problem.targets().mean(axis=0)
    lengths = {}
    for caution in (0.0, 1.0):
        rows = make_method("kin", FIXED | {"caution": caution}).fit(problem, Run()).classifiers - mean
        lengths[caution] = np.linalg.norm(rows, axis=1)
    assert np.allclose(lengths[0.0], 1, atol=1e-5)
    trust = make_method("kin", FIXED).fit(problem, Run()).trust
    unseen = np.setdiff1d(np.arange(len(trust)), problem.seen)
    assert (lengths[1.0][unseen] < 1).all()
    assert np.corrcoef(lengths[1.0][unseen], trust[unseen])[0, 1] > 0.5


def grown(problem: Problem, node: Node, vector: np.ndarray) -> Problem:
    taxonomy = problem.taxonomy.extend([node])
    vectors = make_vectors(np.vstack([problem.vectors.parts[0], vector[None]]))
    return replace(problem, taxonomy=taxonomy, vectors=vectors, seen=taxonomy.indices(SEEN))


def test_an_added_class_is_predicted_by_the_stored_system():
    problem = make_problem()
    kin = make_method("kin", FIXED)
    solution = kin.fit(problem, Run())
    larger = grown(problem, Node("spaniel", ("spaniel",), ("dog",)), problem.vectors.parts[0][6])
    row = larger.taxonomy.index("spaniel")
    got = kin.predict(larger, solution.state, np.array([row]))[0]

    # By hand: the new class's inputs on the grown hierarchy against the seen classes' inputs at training time.
    inputs = gather(problem, kin.settings.descendants, kin.settings.ancestors, kin.settings.decay)
    new = gather(larger, kin.settings.descendants, kin.settings.ancestors, kin.settings.decay)[[row]]
    seen = inputs[problem.seen]
    weights = (kin.settings.word_weight, kin.settings.propagated_weight, kin.settings.ancestor_weight)
    kernel = Kernel(*map(tuple, solution.state["widths"]), (1.0,), *weights)
    columns = larger.taxonomy.indices(problem.taxonomy.ids)
    new = replace(new, ancestors=new.ancestors[:, columns])
    deviation = (kernel(new, seen) @ solution.state["dual"])[0]
    assert np.allclose(got, finished(deviation, solution.state), atol=1e-5)
    assert 0 < kin.trust(larger, solution.state, np.array([row]))[0] < 1


def test_rows_that_moved_are_found_by_id():
    problem = make_problem()
    kin = make_method("kin", FIXED)
    solution = kin.fit(problem, Run())
    smaller = problem.taxonomy.without(["lonely"])  # the first row: all others move up, and nobody is its kin
    vectors = make_vectors(problem.vectors.parts[0][problem.taxonomy.indices(smaller.ids)])
    less = replace(problem, taxonomy=smaller, vectors=vectors, seen=smaller.indices(SEEN))
    row = smaller.index("poodle")
    assert row != problem.taxonomy.index("poodle")
    got = kin.predict(less, solution.state, np.array([row]))[0]
    assert np.allclose(got, solution.classifiers[problem.taxonomy.index("poodle")], atol=1e-5)


def test_chunks_do_not_show(monkeypatch):
    problem = make_problem()
    whole = make_method("kin", FIXED).fit(problem, Run())
    monkeypatch.setattr(method, "CHUNK", 5)
    parts = make_method("kin", FIXED).fit(problem, Run())
    assert np.allclose(parts.classifiers, whole.classifiers, atol=1e-6) and np.allclose(
        parts.trust, whole.trust, atol=1e-6
    )


@pytest.mark.parametrize("rows", [["poodle"], ["saw", "animal", "saw"], ["lonely", "thing"], []])
def test_inputs_of_some_rows_are_those_of_the_whole(rows):
    problem = make_problem(parts=2, zero=("dog",))
    rows = problem.taxonomy.indices(rows)
    whole = gather(problem, [0.4, 0.5, 0.1], [0.7, 0.2, 0.1], 0.6)[rows]
    some = gather(problem, [0.4, 0.5, 0.1], [0.7, 0.2, 0.1], 0.6, rows)
    assert (whole.ancestors.toarray() == some.ancestors.toarray()).all()
    for expected, found in zip(whole.words + whole.propagated, some.words + some.propagated, strict=True):
        np.testing.assert_array_equal(found, expected)  # to the last bit


def test_answers_for_some_rows_are_those_of_the_whole():
    """On a part of ImageNet's hierarchy, one row after the other."""
    taxonomy = Taxonomy.imagenet().subgraph(["n02084071", "n02439398", "n04140064", "n02391049"])
    random = np.random.default_rng(0)
    vectors = make_vectors(random.normal(size=(len(taxonomy), 8)))
    seen = random.permutation(len(taxonomy))[: len(taxonomy) // 2]
    problem = Problem(taxonomy, vectors, seen, random.normal(size=(len(seen), 5)).astype(np.float32))
    kin = make_method("kin", FIXED)
    solution = kin.fit(problem, Run())
    for row in range(len(taxonomy)):
        rows = np.array([row])
        assert np.allclose(kin.predict(problem, solution.state, rows), solution.classifiers[rows], atol=1e-6)
        assert kin.trust(problem, solution.state, rows)[0] == pytest.approx(solution.trust[row], abs=1e-6)


def test_missing_vectors_mean_no_likeness():
    problem = make_problem(zero=("dog", "saw"))
    inputs = gather(problem, [0.5, 0.5], [0.5, 0.5], 0.6)
    kernel = Kernel((1.0,), (1.0,), (1.0,), 1.0, 0.0, 0.0)
    matrix = kernel(inputs, inputs)
    dog = problem.taxonomy.index("dog")
    assert not matrix[dog].any() and not matrix[:, dog].any()
    missing = problem.taxonomy.indices(["dog", "saw"])
    assert np.allclose(np.delete(np.diagonal(matrix), missing), 1)
    assert np.isfinite(make_method("kin").fit(problem, Run()).classifiers).all()


def test_kernel_is_symmetric_and_positive():
    problem = make_problem(parts=2, zero=("saw",))
    inputs = gather(problem, [0.4, 0.6], [0.7, 0.3], 0.6)
    matrix = Kernel((4.0, 3.0), (2.0, 5.0), (1.0, 0.3), 1.0, 0.5, 2.0)(inputs, inputs).astype(float)
    assert np.allclose(matrix, matrix.T, atol=1e-6)
    assert np.linalg.eigvalsh(matrix).min() > -1e-5
    full = np.delete(np.arange(len(matrix)), problem.taxonomy.index("saw"))
    assert np.allclose(np.diagonal(matrix)[full], 1, atol=1e-5)


def test_ancestor_vectors_by_hand():
    taxonomy = make_problem().taxonomy
    (row,) = ancestor_vectors(taxonomy, 0.5, taxonomy.indices(["beagle"])).toarray()
    raw = {"beagle": 1, "dog": 0.5, "animal": 0.25, "thing": 0.125}
    length = np.sqrt(sum(value**2 for value in raw.values()))
    assert {id: pytest.approx(value / length) for id, value in raw.items()} == {
        taxonomy.ids[i]: row[i] for i in np.flatnonzero(row)
    }


def test_natural_width_is_one_minus_the_mean_cosine():
    part = make_vectors(np.random.default_rng(0).normal(size=(7, 3))).parts[0]
    cosines = part @ part.T
    assert natural_width(part) == pytest.approx(1 - cosines[np.triu_indices(7, 1)].mean(), abs=1e-5)
    assert natural_width(part[:1]) == 1 and natural_width(np.zeros((4, 3))) == 1
    assert natural_width(np.ones((3, 1))) > 0  # all alike: no division by zero


# --- the choice of settings -------------------------------------------------------------------------------------------


def many_classes(count: int = 40, seed: int = 0):
    """A kernel, and targets that follow it."""
    random = np.random.default_rng(seed)
    points = random.normal(size=(count, 3))
    kernel = np.exp(-0.5 * ((points[:, None] - points[None]) ** 2).sum(axis=-1))
    targets = kernel @ random.normal(size=(count, 10)) + 0.1 * random.normal(size=(count, 10))
    return kernel, targets - targets.mean(axis=0)


def test_quality_is_that_of_a_refit():
    kernel, targets = many_classes()
    splits = choose.halvings(len(kernel), 2, seed=3)
    found = np.zeros(len(kernel))
    for first, second in splits:
        for hidden, rest in ((first, second), (second, first)):
            model = KernelRidge(alpha=0.3, kernel="precomputed").fit(kernel[np.ix_(rest, rest)], targets[rest])
            predicted = model.predict(kernel[np.ix_(hidden, rest)])
            scores = targets[hidden] @ (predicted / np.linalg.norm(predicted, axis=1, keepdims=True)).T
            found[hidden] += [1 / (1 + (row > row[i]).sum()) for i, row in enumerate(scores)]
    assert np.allclose(choose.quality(kernel, 0.3, targets, splits), found / 2)


def test_reciprocal_ranks_count_ties_half():
    assert np.array_equal(choose.reciprocal_ranks(np.eye(3), np.eye(3)), [1, 1, 1])
    assert np.allclose(choose.reciprocal_ranks(np.eye(3), np.ones((3, 3))), 1 / 2)
    assert np.allclose(choose.reciprocal_ranks(np.eye(2), np.eye(2)[::-1]), 1 / 2)
    assert np.allclose(choose.reciprocal_ranks(np.eye(2), np.zeros((2, 2))), 2 / 3)


def test_upward_ranks_by_hand():
    known = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [1.0, 0.0]])
    predicted = np.array([[0.9, 0.0], [0.0, 2.0], [0.5, 0.0], [0.5, 0.0]])
    parents = [np.array([0]), np.array([0]), np.array([0, 2]), np.array([], int)]
    # The second class scores its parent 0, as two others; the third has its better parent second.
    assert np.allclose(choose.upward_ranks(known, predicted, parents), [1, 1 / 3, 1 / 2, np.nan], equal_nan=True)
    assert np.allclose(choose.upward_ranks(known, predicted, [np.array([3])] * 4)[0], 1 / 2.5)


def test_upward_counts_twice_where_there_is_a_parent():
    assert np.allclose(choose.together(np.array([0.5, 0.5]), np.array([0.8, np.nan])), [0.7, 0.5])


def test_principal_part_keeps_all_products():
    _, targets = many_classes(12)
    part = choose.principal_part(targets)
    assert np.allclose(part @ part.T, targets @ targets.T)
    assert choose.principal_part(targets, 2).shape == (12, 2)


def test_halvings_hold_every_class_once():
    for halves in choose.halvings(9, 3):
        assert sorted(np.concatenate(halves).tolist()) == list(range(9))


def test_only_a_clear_gain_changes_a_setting():
    random = np.random.default_rng(0)
    base = random.uniform(size=400)
    table = {
        ("a", 1): base,
        ("b", 1): base + 0.1,  # better for every class
        ("c", 1): base + 0.05,  # also, but less
        ("b", 2): base + 0.1 + random.normal(scale=0.5, size=400),  # better or worse by chance
    }

    def answers_of(chosen):
        return table[chosen["letter"], chosen["number"]], np.full(400, np.nan)

    chosen, found = choose.better(answers_of, {"letter": "a", "number": 1}, {"letter": ("c", "b"), "number": (2,)})
    assert chosen == {"letter": "b", "number": 1}
    assert np.array_equal(found[0], base + 0.1)


def many_seen(count: int = 60) -> Problem:
    """A wide tree whose classifiers follow the first of two sources of vectors; the second is noise."""
    random = np.random.default_rng(0)
    ids = ["root"] + [f"class{i}" for i in range(count)]
    taxonomy = Taxonomy(ids, [(id,) for id in ids], [[]] + [["root"]] * count)
    useful, noise = random.normal(size=(count + 1, 4)), random.normal(size=(count + 1, 4))
    classifiers = useful[1:] @ random.normal(size=(4, 12)) + 0.05 * random.normal(size=(count, 12))
    return Problem(taxonomy, make_vectors(useful, noise), np.arange(1, count + 1), classifiers.astype(np.float32))


def test_a_source_that_tells_nothing_is_weighed_less():
    record = make_method("kin").fit(many_seen(), Run()).record
    assert record.chosen["sources"] == [1.0, method.LESS]
    assert record.extra["hidden_halves"]["mean_reciprocal_rank"] > 0.3


def test_nearby_holds_all_unseen_parents_and_none_far_away(monkeypatch):
    """A chain of unseen classes above two seen ones: as far as REACH, and thinned without losing a parent."""
    ids = ["e", "d", "c", "b", "a", "x", "y", *(f"child{i}" for i in range(10))]
    above = [[], ["e"], ["d"], ["c"], ["b"], ["a"], ["a"], *[["x"]] * 10]
    taxonomy = Taxonomy(ids, [(id,) for id in ids], above)
    problem = Problem(taxonomy, make_vectors(np.ones((17, 2))), taxonomy.indices(["x", "y"]), np.eye(2, 3, dtype="f4"))
    rows, parents = method._nearby(problem)
    assert {ids[row] for row in rows} == {"a", "b", "c", *(f"child{i}" for i in range(10))}
    assert [[ids[rows[place]] for place in places] for places in parents] == [["a"], ["a"]]
    monkeypatch.setattr(method, "NEARBY", 5)
    thinned, parents = method._nearby(problem)
    assert 2 <= len(thinned) <= 5 and [[ids[thinned[place]] for place in places] for places in parents] == [
        ["a"],
        ["a"],
    ]


@pytest.mark.parametrize(("lost", "width"), [(0.0, 2.0), (0.004, 2.0), (0.006, 1.0)])
def test_nothing_is_chosen_upward_that_hidden_halves_lose_by(monkeypatch, lost, width):
    """Both questions answered by a table: the wider kernel is much better upward."""
    kin = make_method("kin", {"sources": [1.0, 1.0], "ridge": 0.1})
    asked = []
    made = kin._kernel
    monkeypatch.setattr(kin, "_kernel", lambda seen, chosen: (asked.append(chosen["width"]), made(seen, chosen))[1])
    monkeypatch.setattr(method, "quality", lambda *_: np.full(60, 0.5 - lost * (asked[-1] == 2.0)))
    monkeypatch.setattr(method, "upward_ranks", lambda *_: np.full(60, 0.9 if asked[-1] == 2.0 else 0.1))
    assert kin.fit(many_seen(), Run()).record.chosen["width"] == width


def test_the_choice_does_not_depend_on_the_seed():
    problem = many_seen()
    first, second = (make_method("kin").fit(problem, Run(seed=seed)) for seed in (0, 1))
    assert first.record.chosen == second.record.chosen and np.array_equal(first.classifiers, second.classifiers)
    assert 0 < first.record.extra["upward"]["mean_reciprocal_rank"] <= 1


def test_given_settings_are_kept():
    problem = many_seen()
    assert make_method("kin", {"ridge": 0.7}).fit(problem, Run()).record.chosen["ridge"] == 0.7
    assert make_method("kin", {"width": 3.0}).fit(problem, Run()).record.chosen["width"] == 3.0
    all_given = {"ridge": 0.7, "width": 3.0, "sources": [1.0, 2.0]}
    assert make_method("kin", all_given).fit(problem, Run()).record.chosen == all_given


def test_as_many_weights_as_sources():
    with pytest.raises(UnseenError, match="1 weights of sources, but there are 2"):
        make_method("kin", {"sources": [1.0]}).fit(many_seen(), Run())


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"ridge": 0}, "ridge must be a number greater than 0"),
        ({"width": -1}, "width must be a number greater than 0"),
        ({"word_weight": -1}, "of at least 0"),
        ({"word_weight": 0, "propagated_weight": 0, "ancestor_weight": 0}, "must not all be 0"),
        ({"sources": [0, 0], "ancestor_weight": 0}, "must not all be 0"),
        ({"ancestors": [1.0]}, "at least two hop weights"),
        ({"caution": -0.1}, "caution must be a number of at least 0"),
        ({"sources": [-1.0]}, "of at least 0"),
        ({"decay": 0}, "decay must be"),
    ],
)
def test_wrong_settings_are_refused(wrong, message):
    with pytest.raises(UnseenError, match=message):
        make_method("kin", wrong)
