"""Schemas: every field of what can be saved is declared, and what no file of ours can hold is refused by name."""

import copy
import dataclasses
import importlib
from contextlib import nullcontext
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import widemargin
from widemargin import SMO, SVC, BudgetedSVC, IncrementalSVC, LinearSVC, files, schemas, solvers
from widemargin.core.kernels.expansion import Vectors
from widemargin.core.kernels.kernels import RBF, Precomputed
from widemargin.core.losses import losses
from widemargin.core.rows.rows import CSRRows, DenseRows
from widemargin.estimators.fit.fitting import TrainedByRun
from widemargin.files import dump, load, read_npz, write_npz
from widemargin.models import KernelModel
from widemargin.problems.kernel import KernelProblem
from widemargin.schemas import SCHEMAS, Array, Damaged, Each, Either, Row, Scope, Whole, maybe, permutation
from widemargin.solvers.smo import smo
from widemargin.solvers.tracking.state import WORK, progress_of
from widemargin.solvers.visits import loop as kernel_visits

for home in set(widemargin._HOMES.values()):
    importlib.import_module(f"widemargin.{home}")
for kind in set(solvers.REGISTRY) - {"device", "devices"}:
    solvers.classes(kind)
files._register_tuples()

#: Registered classes, but for those of tests.
CLASSES = sorted(
    (cls for cls in SCHEMAS if cls.__module__.startswith("widemargin.")), key=lambda cls: (cls.__module__, cls.__name__)
)


def inside(field):
    """A field and all that it is made of."""
    yield field
    for name in ("choices", "known", "field", "first", "second"):
        inner = getattr(field, name, ())
        inner = inner.values() if isinstance(inner, dict) else inner if isinstance(inner, tuple) else (inner,)
        for each in inner:
            if isinstance(each, schemas.Field):
                yield from inside(each)


# ---------------------------------------------------------------- all is declared


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: f"{cls.__module__.removeprefix('widemargin.')}.{cls.__name__}")
def test_a_schema_says_what_each_part_of_a_class_may_hold(cls):
    silent = [name for name, field in SCHEMAS[cls].fields().items() if field is None]
    assert silent == [], f"declare what these may hold where {cls.__name__} is made savable"


def test_every_state_model_and_estimator_has_a_schema():
    states = {
        cls.state_class for kind in set(solvers.REGISTRY) - {"device", "devices"} for cls in solvers.classes(kind)
    }
    assert states - {solvers.protocol.State} <= SCHEMAS.keys()
    public = {getattr(widemargin, name) for name in widemargin.__all__}
    kept = {cls for cls in public if isinstance(cls, type) and issubclass(cls, TrainedByRun)}
    assert kept
    assert kept <= SCHEMAS.keys()


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: f"{cls.__module__.removeprefix('widemargin.')}.{cls.__name__}")
def test_arrays_of_integers_have_a_range(cls):
    """An integer may be a place in another array, in a loop that checks no bounds."""
    for name, field in SCHEMAS[cls].fields().items():
        for each in inside(field):
            if isinstance(each, Array) and any(dtype.kind == "i" for dtype in each.dtypes):
                assert each.low is not None, f"{cls.__name__}.{name} has no least entry"


# ---------------------------------------------------------------- what fields refuse


def refused(field, value, **sizes):
    with pytest.raises(Damaged) as bad:
        field.hold(value, "here", **sizes)
    return str(bad.value)


def test_arrays_are_refused_by_type_shape_range_order_and_finiteness():
    field = Array("n", 2, low=0.0, high="n")
    field.hold(np.ones((3, 2)), "here", n=3)
    assert refused(field, [1.0]) == "here holds [1.0], but must be an array"
    assert refused(field, np.ones((3, 2), np.float32)) == "here has numbers of float32, but must have float64"
    assert refused(field, np.ones((3, 2), ">f8")) == "here has numbers of >f8, but must have float64"
    assert refused(field, np.ones(6)) == "here has the shape (6,), but must have (n, 2)"
    assert refused(field, np.ones((4, 2)), n=3) == "here has the shape (4, 2), but must have (n = 3, 2)"
    assert refused(field, np.ones((2, 3)).T) == "here is not in C order"
    assert refused(field, np.full((3, 2), -1.0)) == "here holds -1, but must be in 0.0..3"
    assert refused(field, np.full((3, 2), 4.0)) == "here holds 4, but must be in 0.0..3"
    assert refused(field, np.array([[1.0, np.nan]])) == "here holds nan, but must be finite"
    assert refused(Array(None), np.array([np.inf])) == "here holds inf, but must be finite"
    Array(None, finite="inf").hold(np.array([np.inf, -np.inf]), "here")
    assert refused(Array(None, finite="inf"), np.array([1.0, np.nan])) == "here holds nan, but must be no NaN"
    Array(None, finite=False).hold(np.array([np.nan]), "here")
    assert refused(Array(None, rising=True), np.array([0.0, 2.0, 1.0])) == "here falls, but must rise"


@given(order=st.permutations(range(6)), at=st.integers(0, 5), entry=st.integers(-(2**63), 2**63 - 1))
@settings(max_examples=50)
def test_an_order_is_a_permutation_or_refused(order, at, entry):
    field, order = permutation("n"), np.array(order)
    field.hold(order, "here")
    changed = order.copy()
    changed[at] = entry
    if entry != order[at]:
        refused(field, changed)


def test_sizes_are_bound_once_and_hold_everywhere():
    field = Row({"a": Array("n"), "b": Array("n+1"), "c": maybe(Array((0, "n"))), "k": Whole(0, "n")})
    field.hold({"a": np.ones(3), "b": np.ones(4), "c": np.ones(0), "k": 3}, "here")
    field.hold({"a": np.ones(3), "b": np.ones(4), "c": None, "k": 0}, "here", n=3)
    good = {"a": np.ones(3), "b": np.ones(4), "c": np.ones(3), "k": 1}
    for name, value in {"b": np.ones(3), "c": np.ones(2), "k": 4, "a": np.ones(4)}.items():
        assert refused(field, {**good, name: value}).startswith("here/")
    assert refused(field, good, n=2) == "here/a has the shape (3,), but must have (n = 2)"
    assert refused(field, {**good, "z": 1}) == "here has 'z', which nobody knows"
    assert refused(field, {"a": np.ones(3)}) == "here lacks b"


def test_a_choice_that_does_not_fit_binds_nothing():
    scope = Scope()
    Either(Row({"a": Array("n"), "b": Whole()}), Row({"a": Array("m")})).check({"a": np.ones(2)}, "here", scope)
    assert scope.sizes == {"m": 2}


def test_what_a_choice_that_does_not_fit_asked_for_is_not_looked_at():
    field = Either(schemas.Pair(Array(None, low=5.0), Whole()), schemas.Pair(Array(None), schemas.Text()))
    field.hold((np.ones(2), "a"), "here")
    assert refused(field, (np.ones(2), 1)) == "here/0 holds 1, but must be in 5.0.."


def test_a_law_is_asked_of_parts_that_are_in_range():
    """So it may go by them: an order that began elsewhere would be an IndexError."""

    @files.savable("Begun", order=permutation("n"), law=lambda begun, sizes: (
        None if begun.order[begun.order[0]] == 0 else f"the first of {sizes['n']} is no swap"
    ))  # fmt: skip
    @dataclasses.dataclass
    class Begun:
        order: np.ndarray

    schemas.check(Begun(np.array([1, 0, 2])))
    with pytest.raises(Damaged, match="Begun: the first of 3 is no swap"):
        schemas.check(Begun(np.array([1, 2, 0])))
    with pytest.raises(Damaged, match=r"order holds 7, but must be in 0\.\.2"):
        schemas.check(Begun(np.array([7, 0, 1])))


def test_a_choice_knows_sizes_that_are_bound_after_it():
    field = Row({"a": maybe(Array(None, dtype=np.int64, low=0, high="n-1")), "n": Whole(0, size="n")})
    field.hold({"a": np.array([2]), "n": 3}, "here")
    assert refused(field, {"a": np.array([3]), "n": 3}) == "here/a holds 3, but must be in 0..2"


def test_numbers_are_refused_by_type_and_range():
    assert refused(Whole(0), -1) == "here holds -1, but must be in 0..18446744073709551615"
    assert refused(Whole(0, 5), 2.0) == "here holds 2.0, but must be an integer"
    assert refused(Whole(), True) == "here holds True, but must be an integer"
    assert refused(Whole(), 10**40).startswith("here holds 1000")
    assert refused(Each(Whole(0, 5)), (1, 6)) == "here/1 holds 6, but must be in 0..5"
    assert refused(schemas.Real(), "x") == "here holds 'x', but must be a number"
    assert refused(schemas.Flag(), 1) == "here holds 1, but must be True or False"
    assert refused(schemas.Text("a", "b"), "c") == "here holds 'c', but must be one of a, b"


# ---------------------------------------------------------------- compiled tuples


def test_sparse_rows_that_point_elsewhere_are_refused():
    X = sp.csr_matrix(np.eye(3))
    good = CSRRows(X.data, X.indices, X.indptr, 3)
    schemas.check(good)
    for change, said in (
        ({"indices": np.array([0, 1, 3], np.int32)}, "indices holds 3, but must be in 0..2"),
        ({"indices": np.array([0, -1, 2], np.int32)}, "indices holds -1, but must be in 0..2"),
        ({"indptr": np.array([0, 2, 1, 3], np.int32)}, "indptr falls, but must rise"),
        ({"indptr": np.array([0, 1, 2, 4], np.int32)}, "indptr goes from 0 to 4, and there are 3 entries"),
        ({"n_features": 2}, "indices holds 2, but must be in 0..1"),
        ({"data": np.ones(4)}, "data has 4 entries, and indices 3"),
    ):
        with pytest.raises(Damaged, match=said):
            schemas.check(good._replace(**change))


# ---------------------------------------------------------------- random numbers


@pytest.mark.parametrize("bits", schemas.BITS)
def test_a_source_of_random_numbers_in_a_state_it_cannot_have_is_refused(bits, tmp_path):
    rng = np.random.Generator(getattr(np.random, bits)(1))
    path = tmp_path / "rng.npz"
    dump(path, rng)
    assert load(path).random() == np.random.Generator(getattr(np.random, bits)(1)).random()
    header, arrays = read_npz(path)
    state = header["random"]["content"]["generator"]["dict"]
    for name in [name for name, _ in state if name in ("has_uint32", "buffer_pos")]:
        changed = [[key, 77 if key == name else value] for key, value in state]
        write(path, {**header, "random": {"content": {"generator": {"dict": changed}}}}, arrays)
        with pytest.raises(ValueError, match=f"{name} holds 77, but must be in 0"):
            load(path)
    if bits.startswith("PCG"):  # whose numbers would come again after a part of their period
        write(path, with_entry(header, "inc", 2), arrays)
        with pytest.raises(ValueError, match="state/inc holds 2, but must be odd"):
            load(path)
    for name, array in arrays.items():
        write(path, header, {**arrays, name: array[:-1]})
        with pytest.raises(ValueError, match=r"has the shape .*, but must have"):
            load(path)


@pytest.mark.parametrize("pos", [625, 10**6, -(10**9)])
@pytest.mark.parametrize("legacy", [True, False])
def test_a_mersenne_twister_stands_within_its_key(pos, legacy, tmp_path):
    rng = np.random.RandomState(3) if legacy else np.random.Generator(np.random.MT19937(3))
    path = tmp_path / "rng.npz"
    dump(path, rng)
    header, arrays = read_npz(path)
    write(path, with_entry(header, "pos", pos), arrays)
    with pytest.raises(ValueError, match=rf"state/pos holds {pos}, but must be in 0\.\.624"):
        load(path)


# ---------------------------------------------------------------- whole files


def write(path, header, arrays):
    """A file as a program might change it, with a checksum that fits."""
    write_npz(path, {name: value for name, value in header.items() if name not in ("checksum", "widemargin")}, **arrays)


def with_entry(tree, name, value):
    """A header's tree where the pair of a dictionary that has this name has another value."""
    if isinstance(tree, list):
        if len(tree) == 2 and tree[0] == name:
            return [name, value]
        return [with_entry(each, name, value) for each in tree]
    return {key: with_entry(each, name, value) for key, each in tree.items()} if isinstance(tree, dict) else tree


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """Of each estimator the header and arrays of its file."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(60, 3))
    y = (X[:, 0] + 0.3 * rng.normal(size=60) > 0).astype(int)
    path, found = tmp_path_factory.mktemp("saved") / "model.npz", {}
    for model in (
        BudgetedSVC(12, gamma=0.5, lam=0.01), IncrementalSVC(gamma=0.5), SVC(gamma=0.5), LinearSVC(solver="pegasos")
    ):  # fmt: skip
        model.fit(X, y).save(path)
        found[type(model).__name__] = read_npz(path)
    return found


def refusal(saved, name, folder, change=None, **arrays):
    header, known = saved[name]
    path = folder / "model.npz"
    write(path, header if change is None else with_entry(header, *change), {**known, **arrays})
    with pytest.raises(ValueError, match=r"model\.npz is not a whole widemargin file: ") as bad:
        load(path)
    return str(bad.value).split("file: ")[1]


@pytest.mark.parametrize("name", ["BudgetedSVC", "LinearSVC"])
def test_a_file_with_other_classes_than_scores_is_refused(name, saved, tmp_path):
    changes = {f"content/fitted/{part}": np.arange(4.0) for part in ("classes_", "_counts")}
    assert refusal(saved, name, tmp_path, **changes).endswith("it has 1 scores for 4 classes")


@pytest.mark.parametrize("features", [10, 100_000, 2, -1])
@pytest.mark.parametrize("name", ["BudgetedSVC", "IncrementalSVC", "SVC", "LinearSVC"])
def test_a_header_with_other_features_than_the_model_is_refused(name, features, saved, tmp_path):
    said = refusal(saved, name, tmp_path, ("n_features_in_", features))
    assert str(features) in said
    assert "but must" in said


@pytest.mark.parametrize("entry", [1e12, -1e9, 1e6])
@pytest.mark.parametrize("part", ["waiting", "spare", "trail_slot", "example", "numbers"])
def test_slots_of_a_stream_that_are_not_there_are_refused(part, entry, saved, tmp_path):
    name = f"content/fitted/_state/{part}"
    array = saved["IncrementalSVC"][1][name]
    said = refusal(saved, "IncrementalSVC", tmp_path, **{name: np.full_like(array, int(entry))})
    assert said.startswith("fitted/_state")


@pytest.mark.parametrize("part", ["beta", "low", "e", "live", "up", "diagonal", "waits"])
@pytest.mark.parametrize("size", [1, 100, 512])
def test_arrays_of_a_stream_that_were_resized_are_refused(part, size, saved, tmp_path):
    name = f"content/fitted/_state/{part}"
    array = saved["IncrementalSVC"][1][name]
    refusal(saved, "IncrementalSVC", tmp_path, **{name: np.resize(array, (*array.shape[:-1], size))})


@pytest.mark.parametrize("entry", [-(10**9), 2, 10**9])
def test_codes_of_classes_that_are_not_there_are_refused(entry, saved, tmp_path):
    name = "content/fitted/_archive/codes"
    array = saved["IncrementalSVC"][1][name]
    said = refusal(saved, "IncrementalSVC", tmp_path, **{name: np.full_like(array, entry)})
    assert said == f"fitted/_archive/codes holds {entry:.6g}, but must be in 0..1"


@pytest.mark.parametrize("name", ["SVC", "LinearSVC", "BudgetedSVC", "IncrementalSVC"])
def test_two_classes_of_the_same_label_are_refused(name, saved, tmp_path):
    said = refusal(saved, name, tmp_path, **{"content/fitted/classes_": np.array([1, 1])})
    assert said == "fitted/classes_ has an entry twice, but must be distinct"


def test_an_example_is_remembered_once(saved, tmp_path):
    name = "content/fitted/_archive/numbers"
    numbers = saved["IncrementalSVC"][1][name].copy()
    numbers[1] = numbers[0]
    assert refusal(saved, "IncrementalSVC", tmp_path, **{name: numbers}).endswith(
        "an entry twice, but must be distinct"
    )


def test_lists_of_slots_must_agree_with_flags(saved, tmp_path, rng):
    arrays = saved["IncrementalSVC"][1]
    for part in ("live", "waits"):
        name = f"content/fitted/_state/{part}"
        refusal(saved, "IncrementalSVC", tmp_path, **{name: ~arrays[name]})
    state = {
        name: arrays[f"content/fitted/_state/{name}"].copy() for name in ("numbers", "waits", "waiting", "trailed")
    }
    numbers, at_work = state["numbers"], state["numbers"].copy()
    count, progress_of(at_work)["stage"] = int(progress_of(numbers)["count"]), WORK
    waits = state["numbers"].copy()
    progress_of(waits)["waiting"], state["waits"][:], state["waiting"][:] = 1, False, count
    state["waits"][count] = True
    never = {"numbers": waits, "waits": state["waits"], "waiting": state["waiting"]}
    ahead = {"numbers": at_work, "trailed": np.ones_like(state["trailed"])}
    for parts, said in ((never, "waiting lists slots that were never"), (ahead, "trailed counts more steps than were")):
        changes = {f"content/fitted/_state/{name}": array for name, array in parts.items()}
        assert said in refusal(saved, "IncrementalSVC", tmp_path, **changes)
    for place in range(numbers.size):
        for entry in (-2, count + 1000, 10**9):
            changed = numbers.copy()
            changed[place] = entry
            path = tmp_path / "model.npz"
            write(path, saved["IncrementalSVC"][0], {**arrays, "content/fitted/_state/numbers": changed})
            X = rng.normal(size=(300, 3))
            try:
                model = load(path)
            except ValueError:
                continue
            model.partial_fit(X, (X[:, 0] > 0).astype(int))  # a number that is no place: nothing is read by it


def test_vectors_of_a_budget_stand_where_their_count_says(saved, tmp_path):
    arrays = saved["BudgetedSVC"][1]
    counts = arrays["content/fitted/_state/counts"]
    for entry in (-1, 48, 10**9):
        changed = counts.copy()
        changed[1] = entry
        refusal(saved, "BudgetedSVC", tmp_path, **{"content/fitted/_state/counts": changed})
    Z = arrays["content/fitted/_state/budget/vectors/Z"]
    said = refusal(saved, "BudgetedSVC", tmp_path, **{"content/fitted/_state/budget/vectors/Z": np.ones_like(Z)})
    assert "there is something behind the" in said


def test_every_attribute_that_is_learnt_is_in_the_schema(saved):
    for name, (header, _) in saved.items():
        parts = dict(header["content"]["parts"]["fitted"]["dict"])
        cls = getattr(widemargin, name)
        assert parts.keys() <= SCHEMAS[cls].fields()["fitted"].known.keys()


def test_a_store_of_sparse_vectors_shares_its_rows_once():
    rng = np.random.default_rng(1)
    X = sp.csr_matrix(np.where(rng.random((60, 9)) < 0.4, 1.0, 0.0))
    model = BudgetedSVC(12, gamma=0.5, lam=0.01).fit(X, np.arange(60) % 2)
    vectors = model._state.budget.vectors
    schemas.check(vectors)
    assert isinstance(vectors, Vectors)
    for part in ("slot", "feature", "held", "free", "rows"):
        for entry in (-1, 10**6):
            with pytest.raises(Damaged):
                schemas.check(vectors._replace(**{part: np.full_like(getattr(vectors, part), entry)}))
    twice = vectors.slot.copy()
    twice[:2] = twice.max()
    with pytest.raises(Damaged, match="slot and free do not share"):
        schemas.check(vectors._replace(slot=twice))
    swapped, (one, other) = vectors.feature.copy(), vectors.slot[vectors.slot > 0][:2]
    swapped[[one, other]] = swapped[[other, one]]
    with pytest.raises(Damaged, match="feature has other features than slot"):
        schemas.check(vectors._replace(feature=swapped))


def test_a_machine_of_a_table_has_no_examples_behind_its_columns():
    model = KernelModel(Precomputed(), np.array([1, 4]), None, np.ones((1, 2)), np.zeros(1))
    schemas.check(model, d=5)
    with pytest.raises(Damaged, match="support has 4, and the kernel matrix 4 columns"):
        schemas.check(model, d=4)


def test_a_file_lacks_nothing_that_its_estimator_goes_on_with(saved, tmp_path):
    arrays = saved["LinearSVC"][1]
    none = {name: array[:0] for name, array in arrays.items() if name.endswith(("/classes_", "/_counts"))}
    assert refusal(saved, "LinearSVC", tmp_path, **none) == "LinearSVC: it has no classes"
    for name, lacking in product(("BudgetedSVC", "IncrementalSVC"), ("_counts", "_kind", "_gamma")):
        header, arrays = copy.deepcopy(saved[name])
        fitted = header["content"]["parts"]["fitted"]["dict"]
        fitted[:] = [pair for pair in fitted if pair[0] != lacking]
        write(tmp_path / "fewer.npz", header, arrays)
        with pytest.raises(ValueError, match=rf"a state to go on from, and no {lacking}|fitted lacks {lacking}"):
            load(tmp_path / "fewer.npz")


def test_a_pass_of_visits_ends_behind_its_place(rng):
    none = np.empty(0, np.uint8)
    state = kernel_visits.VisitState(np.zeros((1, 5)), np.zeros(5), np.arange(5), 3, 3, 8, rng, none, none)
    schemas.check(state)
    with pytest.raises(Damaged, match="position holds 3"):
        schemas.check(dataclasses.replace(state, awake=2))
    with pytest.raises(Damaged, match="rest is of 5 examples, and wait of 0"):
        schemas.check(dataclasses.replace(state, rest=np.zeros(5, np.uint8)))


def test_an_integer_that_no_compiled_code_can_hold_is_no_number():
    for value in (2**64, -(2**63) - 1):
        with pytest.raises(Damaged, match="an integer from"):
            schemas.Real().check(value, "gamma", schemas.Scope())
        schemas.Real().check(float(value), "gamma", schemas.Scope())


def test_a_dictionary_of_named_parts_has_no_other_keys():
    row = schemas.Row({"known": schemas.COUNT}, rest=schemas.ANYTHING, needs=())
    row.check({"known": 1, "other": None}, "part", schemas.Scope())
    with pytest.raises(Damaged, match="part has 3, which nobody knows"):
        row.check({"known": 1, 3: None}, "part", schemas.Scope())


@pytest.mark.parametrize("multi_class", ["ovo", "ovr"])
def test_a_machine_with_other_classes_than_its_model_is_refused(multi_class, rng, tmp_path):
    X, y = rng.normal(size=(60, 2)), np.arange(60) % 4
    widemargin.SVC(multi_class=multi_class).fit(X, y).save(tmp_path / "model.npz")
    header, arrays = files.read_npz(tmp_path / "model.npz")
    header.pop("checksum")
    for classes in (np.arange(3), np.arange(5)):
        changed = {**arrays, "content/fitted/classes_": classes}
        files.write_npz(tmp_path / "other.npz", header, **changed)
        with pytest.raises(ValueError, match="is not a whole widemargin file"):
            widemargin.SVC.load(tmp_path / "other.npz")


def test_sums_that_steps_go_by_must_be_possible(rng):
    """Passes end with who is awake and have sums of one shape, some example matters, and a tracker owes what lacks."""
    X, y = rng.normal(size=(30, 3)), np.arange(30) % 2
    state = LinearSVC(random_state=0).fit(X, y)._state
    other = np.ones((0 if state.previous.W.size else 3, state.previous.W.shape[1]))
    simba = LinearSVC(solver="simba", max_iter=2, random_state=0).fit(X, y)._state
    tracker = IncrementalSVC(random_state=0).fit(X, y)._state
    for whole, changed in (
        (state, {"previous": state.previous._replace(W=other)}),
        (state, {"position": state.awake + 1}),
        (simba, {"q": np.zeros_like(simba.q)}),
        (tracker, {"owed": np.ones_like(tracker.owed)}),
    ):
        schemas.check(whole)
        with pytest.raises(Damaged, match=r"sums of weights|are awake|importance|owed"):
            schemas.check(dataclasses.replace(whole, **changed))


def test_an_episode_ends_with_rows_that_are_left_and_responses_to_change(rng):
    """Blocks of rows are taken until none is left: one place behind them, and there would be no end."""
    X, y = rng.normal(size=(30, 3)).astype(np.float32), np.where(np.arange(30) % 2, 1.0, -1.0)
    problem = KernelProblem(RBF(0.5), DenseRows(X), y, losses.Single(losses.Hinge()), 0.1)
    solver, places = SMO(), np.arange(30)
    state = solver.init(problem, rng)
    solver.advance(problem, state, 1)
    fitting = smo.Closing(places[:4], np.zeros((1, 4)), places, np.zeros((1, 30)), 4)
    none = replace(fitting, per_row=np.zeros((0, 4)), f=np.zeros((0, 30)))
    for closing, episode, fits in (
        (fitting, state.episode, True), (replace(fitting, rows=places[:0]), state.episode, False),
        (none, state.episode, False), (fitting, None, False),
    ):  # fmt: skip
        with nullcontext() if fits else pytest.raises(Damaged, match="closing is that of no episode"):
            schemas.check(replace(state, closing=closing, episode=episode), **solver.sizes(problem))


def of_older(tree, name, change):
    """A header's tree where the parts of an object are what a function makes of them, if they have this name."""
    if isinstance(tree, list):
        return [of_older(each, name, change) for each in tree]
    if not isinstance(tree, dict):
        return tree
    found = {key: of_older(each, name, change) for key, each in tree.items()}
    return {**found, "parts": change(found["parts"])} if tree.get("class") == name else found


@pytest.mark.parametrize(("solver", "part"), [("sdca", "base"), ("interior", "measures")])
def test_states_that_an_older_version_wrote_go_on(solver, part, rng, tmp_path):
    """There was no b₀ before intercepts could be free, and no measure of rounding; threads once had a factor σ."""
    X, y, path = rng.normal(size=(30, 3)), np.arange(30) % 2, tmp_path / "model.npz"
    made = LinearSVC(solver=solver, tol=1e-2, random_state=0).fit(X, y)
    made.save(path)
    header, arrays = read_npz(path)
    name = f"content/fitted/_state/{part}"
    if part == "base":
        without = lambda parts: {"sigma": 1.0, **{k: v for k, v in parts.items() if k != "base"}}  # noqa: E731
        header = of_older(header, "SDCA.State", without)
        del arrays[name]
    else:
        arrays[name] = arrays[name][:, :7].copy()
    write(path, header, arrays)
    loaded = load(path)
    np.testing.assert_array_equal(loaded.predict(X), made.predict(X))
    if solver == "sdca":
        again = made.set_params(warm_start=True).fit(X, y)
        np.testing.assert_array_equal(loaded.set_params(warm_start=True).fit(X, y).coef_, again.coef_)


def test_parts_of_a_state_that_are_one_array_are_refused(rng):
    X = rng.normal(size=(40, 3))
    state = IncrementalSVC().partial_fit(X, np.sign(X[:, 0]), classes=[-1.0, 1.0])._state
    schemas.check(state)
    state.top = state.owed
    with pytest.raises(schemas.Damaged, match="two of its parts are one array"):
        schemas.check(state)
