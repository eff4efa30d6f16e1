from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.kernel_ridge import KernelRidge

from support.problems import SEEN, make_problem, make_vectors
from unseen.hierarchy.core import Hierarchy, Node
from unseen.methods import make_method
from unseen.methods.base import Problem
from unseen.methods.kin import kin as module
from unseen.methods.kin import reference
from unseen.methods.kin.kin import Kernel, ancestor_vectors, gather, natural_width
from unseen.util.errors import UnseenError
from unseen.util.run import Run

FIXED = {"ridge": 0.2, "width": 1.0, "sources": [1.0]}


def finished(deviation: np.ndarray, state: dict[str, np.ndarray], caution: float = 0.7) -> np.ndarray:
    """mu + d / sqrt(|d|^2 + caution^2 chance^2)."""
    doubt = (caution * state["chance"][0]) ** 2
    return state["mean"] + deviation / np.sqrt(np.square(deviation).sum(axis=-1, keepdims=True) + doubt)


@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("missing", [(), ("dog", "saw")])
def test_it_is_the_reference(parts, missing):
    problem = make_problem(parts=parts, zero=missing)
    kin = make_method("kin", FIXED | {"sources": [1.0, 0.5][:parts]})
    solution = kin.fit(problem, Run())
    classifiers, trust, chance = reference.kin(problem, kin.settings)
    assert np.allclose(solution.classifiers, classifiers, atol=1e-4)
    assert np.allclose(solution.trust, trust, atol=1e-4)
    assert solution.state["chance"][0] == pytest.approx(chance, abs=1e-4)


def test_it_is_scikit_learns_kernel_ridge_on_the_reference_s_kernel():
    problem = make_problem(parts=2)
    kin = make_method("kin", FIXED | {"sources": [1.0, 0.5]})
    solution, targets = kin.fit(problem, Run()), problem.targets()
    rows = reference.kernel(problem, kin.settings)[:, problem.seen]
    model = KernelRidge(alpha=0.2, kernel="precomputed").fit(rows[problem.seen], targets - targets.mean(axis=0))
    unseen = np.setdiff1d(np.arange(len(problem.hierarchy)), problem.seen)
    assert np.allclose(solution.classifiers[unseen], finished(model.predict(rows), solution.state)[unseen], atol=1e-4)


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
    rows = reference.kernel(problem, kin.settings)[:, problem.seen]
    dealt = np.random.default_rng(0).normal(size=(5, 2000, 100))
    dealt /= np.linalg.norm(dealt, axis=2, keepdims=True)
    model = KernelRidge(alpha=FIXED["ridge"], kernel="precomputed")
    model.fit(rows[problem.seen], dealt.reshape(5, -1))
    lengths = np.linalg.norm(model.predict(rows).reshape(len(rows), 2000, 100), axis=2)
    assert chance == pytest.approx(np.median(np.sqrt(np.square(lengths).mean(axis=1))), rel=0.02)


def test_a_class_that_resembles_nothing_is_trusted_least_and_stays_weak():
    problem = make_problem(zero=("lonely",))  # no vector, no kin
    solution = make_method("kin", FIXED).fit(problem, Run())
    row = problem.hierarchy.index("lonely")
    assert solution.trust[row] == 0
    assert np.allclose(solution.classifiers[row], problem.targets().mean(axis=0), atol=1e-6)


def test_shares_add_up_to_the_prediction():
    problem = make_problem()
    kin = make_method("kin", FIXED)
    solution = kin.fit(problem, Run())
    row, mean = problem.hierarchy.index("saw"), problem.targets().mean(axis=0)
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
    hierarchy = problem.hierarchy.extend([node])
    vectors = make_vectors(np.vstack([problem.vectors.parts[0], vector[None]]))
    return replace(problem, hierarchy=hierarchy, vectors=vectors, seen=hierarchy.indices(SEEN))


def test_an_added_class_is_predicted_by_the_stored_system():
    problem = make_problem()
    kin = make_method("kin", FIXED)
    solution = kin.fit(problem, Run())
    larger = grown(problem, Node("spaniel", ("spaniel",), ("dog",)), problem.vectors.parts[0][6])
    row = larger.hierarchy.index("spaniel")
    got = kin.predict(larger, solution.state, np.array([row]))[0]

    # By hand: the new class's inputs on the grown hierarchy against the seen classes' inputs at training time.
    inputs = gather(problem, kin.settings.descendants, kin.settings.ancestors, kin.settings.decay)
    new = gather(larger, kin.settings.descendants, kin.settings.ancestors, kin.settings.decay)[[row]]
    seen = inputs[problem.seen]
    weights = (kin.settings.word_weight, kin.settings.propagated_weight, kin.settings.ancestor_weight)
    kernel = Kernel(*map(tuple, solution.state["widths"]), (1.0,), *weights)
    columns = larger.hierarchy.indices(problem.hierarchy.ids)
    new = replace(new, ancestors=new.ancestors[:, columns])
    deviation = (kernel(new, seen) @ solution.state["dual"])[0]
    assert np.allclose(got, finished(deviation, solution.state), atol=1e-5)
    assert 0 < kin.trust(larger, solution.state, np.array([row]))[0] < 1


def test_rows_that_moved_are_found_by_id():
    problem = make_problem()
    kin = make_method("kin", FIXED)
    solution = kin.fit(problem, Run())
    smaller = problem.hierarchy.without(["lonely"])  # the first row: all others move up, and nobody is its kin
    vectors = make_vectors(problem.vectors.parts[0][problem.hierarchy.indices(smaller.ids)])
    less = replace(problem, hierarchy=smaller, vectors=vectors, seen=smaller.indices(SEEN))
    row = smaller.index("poodle")
    assert row != problem.hierarchy.index("poodle")
    got = kin.predict(less, solution.state, np.array([row]))[0]
    assert np.allclose(got, solution.classifiers[problem.hierarchy.index("poodle")], atol=1e-5)


def test_chunks_do_not_show(monkeypatch):
    problem = make_problem()
    whole = make_method("kin", FIXED).fit(problem, Run())
    monkeypatch.setattr(module, "CHUNK", 5)
    parts = make_method("kin", FIXED).fit(problem, Run())
    assert np.allclose(parts.classifiers, whole.classifiers, atol=1e-6) and np.allclose(
        parts.trust, whole.trust, atol=1e-6
    )


@pytest.mark.parametrize("rows", [["poodle"], ["saw", "animal", "saw"], ["lonely", "thing"], []])
def test_inputs_of_some_rows_are_those_of_the_whole(rows):
    problem = make_problem(parts=2, zero=("dog",))
    rows = problem.hierarchy.indices(rows)
    whole = gather(problem, [0.4, 0.5, 0.1], [0.7, 0.2, 0.1], 0.6)[rows]
    some = gather(problem, [0.4, 0.5, 0.1], [0.7, 0.2, 0.1], 0.6, rows)
    assert (whole.ancestors.toarray() == some.ancestors.toarray()).all()
    for expected, found in zip(whole.words + whole.propagated, some.words + some.propagated, strict=True):
        np.testing.assert_array_equal(found, expected)  # to the last bit


def test_answers_for_some_rows_are_those_of_the_whole():
    """On a part of ImageNet's hierarchy, one row after the other."""
    hierarchy = Hierarchy.imagenet().subgraph(["n02084071", "n02439398", "n04140064", "n02391049"])
    random = np.random.default_rng(0)
    vectors = make_vectors(random.normal(size=(len(hierarchy), 8)))
    seen = random.permutation(len(hierarchy))[: len(hierarchy) // 2]
    problem = Problem(hierarchy, vectors, seen, random.normal(size=(len(seen), 5)).astype(np.float32))
    kin = make_method("kin", FIXED)
    solution = kin.fit(problem, Run())
    for row in range(len(hierarchy)):
        rows = np.array([row])
        assert np.allclose(kin.predict(problem, solution.state, rows), solution.classifiers[rows], atol=1e-6)
        assert kin.trust(problem, solution.state, rows)[0] == pytest.approx(solution.trust[row], abs=1e-6)


def test_kernel_is_symmetric_and_positive():
    problem = make_problem(parts=2, zero=("saw",))
    inputs = gather(problem, [0.4, 0.6], [0.7, 0.3], 0.6)
    matrix = Kernel((4.0, 3.0), (2.0, 5.0), (1.0, 0.3), 1.0, 0.5, 2.0)(inputs, inputs).astype(float)
    assert np.allclose(matrix, matrix.T, atol=1e-6)
    assert np.linalg.eigvalsh(matrix).min() > -1e-5
    full = np.delete(np.arange(len(matrix)), problem.hierarchy.index("saw"))
    assert np.allclose(np.diagonal(matrix)[full], 1, atol=1e-5)


def test_ancestor_vectors_by_hand():
    hierarchy = make_problem().hierarchy
    (row,) = ancestor_vectors(hierarchy, 0.5, hierarchy.indices(["beagle"])).toarray()
    raw = {"beagle": 1, "dog": 0.5, "animal": 0.25, "thing": 0.125}
    length = np.sqrt(sum(value**2 for value in raw.values()))
    assert {id: pytest.approx(value / length) for id, value in raw.items()} == {
        hierarchy.ids[i]: row[i] for i in np.flatnonzero(row)
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
    random = np.random.default_rng(3)
    splits = [np.array_split(random.permutation(len(kernel)), 3) for _ in range(2)]
    found = np.zeros(len(kernel))
    for groups in splits:
        for hidden in groups:
            rest = np.setdiff1d(np.arange(len(kernel)), hidden)
            model = KernelRidge(alpha=0.3, kernel="precomputed").fit(kernel[np.ix_(rest, rest)], targets[rest])
            predicted = model.predict(kernel[np.ix_(hidden, rest)])
            scores = targets[hidden] @ (predicted / np.linalg.norm(predicted, axis=1, keepdims=True)).T
            found[hidden] += [1 / (1 + (row > row[i]).sum()) for i, row in enumerate(scores)]
    assert np.allclose(module.quality(kernel, 0.3, targets, splits), found / 2)


def test_reciprocal_ranks_count_ties_half():
    assert np.array_equal(module.reciprocal_ranks(np.eye(3), np.eye(3)), [1, 1, 1])
    assert np.allclose(module.reciprocal_ranks(np.eye(3), np.ones((3, 3))), 1 / 2)
    assert np.allclose(module.reciprocal_ranks(np.eye(2), np.eye(2)[::-1]), 1 / 2)
    assert np.allclose(module.reciprocal_ranks(np.eye(2), np.zeros((2, 2))), 2 / 3)


def test_branches_are_hidden_as_a_whole():
    """40 classes, ten of them below each of four nodes, two below each of those' five; at most four at a time."""
    parents = {"root": []} | {f"top{i}": ["root"] for i in range(4)}
    parents |= {f"low{i}": [f"top{i // 5}"] for i in range(20)} | {f"c{i}": [f"low{i // 2}"] for i in range(40)}
    hierarchy = Hierarchy(list(parents), [(id,) for id in parents], list(parents.values()))
    above = ancestor_vectors(hierarchy, 0.5, hierarchy.indices([f"c{i}" for i in range(40)]))
    splits = module.hidden_branches(above, 2)
    assert len(splits) == 2 and not np.array_equal(splits[0][0], splits[1][0])
    for groups in splits:
        assert len(groups) == 3 and np.array_equal(np.sort(np.concatenate(groups)), np.arange(40))
        assert all(set(group ^ 1) == set(group) for group in groups), "two below one node stay together"
        assert not any({i // 10 for i in group} == {0} for group in groups), "ten are too many to be one branch"


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
        return table[chosen["letter"], chosen["number"]]

    chosen, found = module.better(answers_of, {"letter": "a", "number": 1}, {"letter": ("c", "b"), "number": (2,)})
    assert chosen == {"letter": "b", "number": 1}
    assert np.array_equal(found, base + 0.1)


def many_seen(count: int = 60) -> Problem:
    """A wide tree whose classifiers follow the first of two sources of vectors; the second is noise."""
    random = np.random.default_rng(0)
    ids = ["root"] + [f"class{i}" for i in range(count)]
    hierarchy = Hierarchy(ids, [(id,) for id in ids], [[]] + [["root"]] * count)
    useful, noise = random.normal(size=(count + 1, 4)), random.normal(size=(count + 1, 4))
    classifiers = useful[1:] @ random.normal(size=(4, 12)) + 0.05 * random.normal(size=(count, 12))
    return Problem(hierarchy, make_vectors(useful, noise), np.arange(1, count + 1), classifiers.astype(np.float32))


def test_a_source_that_tells_nothing_is_weighed_less():
    record = make_method("kin").fit(many_seen(), Run()).record
    first, second = record.chosen["sources"]
    assert second < first
    assert record.extra["hidden_branches"]["mean_reciprocal_rank"] > 0.3


def test_sources_that_nothing_is_known_by_do_not_count():
    problem = many_seen()
    useful = problem.vectors.parts[0]
    without = replace(problem, vectors=make_vectors(useful, np.zeros_like(useful)))
    alone = replace(problem, vectors=make_vectors(useful))
    given = {"ridge": 0.2, "width": 1.0}
    first = make_method("kin", given | {"sources": [1.0, 2.0]}).fit(without, Run())
    assert np.allclose(
        first.classifiers, make_method("kin", given | {"sources": [1.0]}).fit(alone, Run()).classifiers, atol=1e-5
    )


def test_sources_have_their_usual_weights():
    problem = make_problem(parts=3)
    named = replace(problem, vectors=replace(problem.vectors, names=("glove", "text", "looks")))
    assert make_method("kin").fit(named, Run()).record.chosen["sources"] == [0.5, 1.0, 4.0]


@pytest.mark.parametrize(("count", "asked"), [(module.MIN_SEEN - 1, False), (30, True)])
def test_few_seen_classes_are_enough(count, asked):
    problem = many_seen(count)
    solution = make_method("kin").fit(problem, Run())
    assert np.isfinite(solution.classifiers).all() and ("hidden_branches" in solution.record.extra) == asked
    if not asked:  # the usual settings
        assert solution.record.chosen == {"sources": [1.0, 1.0], **module.START}


def test_the_choice_does_not_depend_on_the_seed():
    problem = many_seen()
    first, second = (make_method("kin").fit(problem, Run(seed=seed)) for seed in (0, 1))
    assert first.record.chosen == second.record.chosen and np.array_equal(first.classifiers, second.classifiers)
    assert 0 < first.record.extra["hidden_branches"]["mean_reciprocal_rank"] <= 1


def test_given_settings_are_kept():
    problem = many_seen()
    assert make_method("kin", {"ridge": 0.7}).fit(problem, Run()).record.chosen["ridge"] == 0.7
    assert make_method("kin", {"width": 3.0}).fit(problem, Run()).record.chosen["width"] == 3.0
    all_given = {"ridge": 0.7, "width": 3.0, "sources": [1.0, 2.0]}
    assert make_method("kin", all_given).fit(problem, Run()).record.chosen == all_given


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"word_weight": -1}, "of at least 0"),
        ({"word_weight": 0, "propagated_weight": 0, "ancestor_weight": 0}, "must not all be 0"),
        ({"sources": [0, 0], "ancestor_weight": 0}, "must not all be 0"),
        ({"ancestors": [1.0]}, "at least two hop weights"),
    ],
)
def test_wrong_settings_are_refused(wrong, message):
    with pytest.raises(UnseenError, match=message):
        make_method("kin", wrong)
