"""Lessons: what teachers choose, what is asked and recorded, and what is refused."""

import signal

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import SGDClassifier
from sklearn.naive_bayes import GaussianNB

from widemargin import SVC, BudgetedSVC, LinearSVC
from widemargin.teaching import ActiveTeacher, Pool, RandomTeacher, StreamTeacher, teach


@pytest.fixture
def examples(rng):
    X = rng.normal(size=(300, 4))
    return X, np.where(X[:, 0] + 0.2 * X[:, 1] > 0.0, "up", "down")


class Sure:
    """A learner that is as sure of an example as its first feature says."""

    classes_ = np.array([0, 1])
    dual_coef_ = np.ones((1, 7))

    def partial_fit(self, X, y, classes=None):
        self.classes_ = np.unique(y) if classes is None else classes
        return self

    def decision_function(self, X):
        return np.asarray(X[:, 0]).reshape(-1)

    def predict(self, X):
        return np.zeros(X.shape[0])


def test_a_pool_gives_each_example_once(rng):
    pool = Pool(rng.normal(size=(40, 2)), rng)
    gone = []
    while len(pool):
        drawn, upcoming = pool.draw(5), pool.upcoming(3)
        assert not set(drawn) & set(gone)
        assert len(set(drawn)) == min(5, len(pool))
        assert upcoming.tolist() == [i for i in range(40) if i not in gone][:3]
        i = int(drawn[0])
        pool.remove(i)
        gone.append(i)
        with pytest.raises(ValueError, match=f"chose example {i} of the pool"):
            pool.remove(i)
        assert pool.unseen.sum() == len(pool) == 40 - len(gone)
    assert pool.upcoming(3).size == 0
    assert pool.draw(3).size == 0


def test_an_active_teacher_takes_the_least_sure_of_those_it_draws(rng):
    X = rng.normal(size=(60, 2))
    for size in (1, 7, 100):
        pool = Pool(X, np.random.default_rng(5))
        drawn = Pool(X, np.random.default_rng(5)).draw(size)
        chosen = ActiveTeacher(size)(Sure(), pool)
        assert chosen == drawn[np.argmin(np.abs(X[drawn, 0]))]
        assert pool.kernel_evals == 7 * drawn.size
    scores = np.array([[3.0, 1.0, 2.5], [0.0, 0.1, 5.0]])
    several = type("Several", (), {"decision_function": lambda self, X: scores})()
    np.testing.assert_allclose(Pool(X, rng).margins(several, np.arange(2)), [0.5, 4.9])
    with pytest.raises(TypeError, match="neither decision_function nor predict_proba"):
        ActiveTeacher()(object(), pool)


@pytest.mark.parametrize("share", [0.05, 0.3, 1.0])
def test_a_stream_teacher_keeps_within_its_budget_and_asks_where_the_learner_is_unsure(rng, share):
    X = rng.normal(size=(3000, 1)) * float(rng.choice([0.01, 1.0, 100.0]))  # scores of any size
    teacher, pool, asked = StreamTeacher(share, explore=0.0), Pool(X, rng), []
    while (i := teacher(Sure(), pool)) is not None:
        asked.append(i)
        pool.remove(i)
        assert len(asked) <= share * teacher.seen + 1.0
    assert asked == sorted(asked)
    late = [i for i in asked if i > 1000]
    assert late
    if share < 1.0:
        assert np.median(np.abs(X[late])) < np.median(np.abs(X))
    else:
        assert len(late) > 500


@pytest.mark.parametrize("teacher_of", [
    RandomTeacher, lambda: ActiveTeacher(20), lambda: StreamTeacher(0.8), lambda: lambda learner, pool: pool.draw(1)[0],
])  # fmt: skip
@pytest.mark.parametrize("make", [
    lambda: BudgetedSVC(budget=30, gamma=0.5, random_state=0), lambda: LinearSVC(random_state=0),
    lambda: SGDClassifier(random_state=0), GaussianNB,
])  # fmt: skip
def test_every_learner_learns_from_every_teacher(examples, make, teacher_of):
    X, y = examples
    teacher = teacher_of()
    asked = []

    def oracle(i):
        asked.append(i)
        return y[i]

    learner = make()
    lesson = teach(
        learner, X[:200], teacher, oracle, labels=60, classes=["down", "up"], test=(X[200:], y[200:]), random_state=0
    )
    assert lesson.stop_reason == "labels"
    assert lesson.indices == asked
    assert len(set(asked)) == 60
    assert lesson.labels == [y[i] for i in asked]
    history = lesson.history_
    assert history["labels"][0] == 10
    assert history["labels"][-1] == 60
    assert history["test_error"][-1] == np.mean(learner.predict(X[200:]) != y[200:])
    assert (np.diff(history["pool_kernel_evals"]) >= 0).all()
    if isinstance(learner, BudgetedSVC):
        assert history["kernel_evals"][-1] > 0
        assert (history["pool_kernel_evals"][-1] > 0) == isinstance(teacher, (ActiveTeacher, StreamTeacher))


def test_a_lesson_is_the_stream_of_what_was_asked(examples):
    X, y = examples
    for data in (X, sp.csr_matrix(X)):
        learner = BudgetedSVC(budget=30, gamma=0.5, random_state=0)
        lesson = teach(learner, data, ActiveTeacher(), y, labels=40, start=5, every=7, random_state=1)
        again = BudgetedSVC(budget=30, gamma=0.5, random_state=0).partial_fit(
            data[lesson.indices], lesson.labels, ["down", "up"]
        )
        np.testing.assert_allclose(again.decision_function(X), learner.decision_function(X), atol=1e-12)
        assert lesson.history_["labels"].tolist() == [5, 12, 19, 26, 33, 40]
    more = teach(learner, data, RandomTeacher(), y, labels=3, start=0, random_state=1)  # goes on
    assert len(more.labels) == 3


def test_lessons_end_with_the_pool_the_teacher_or_ctrl_c(examples):
    X, y = examples
    assert teach(GaussianNB(), X[:20], RandomTeacher(), y[:20], labels=50).stop_reason == "pool"
    assert teach(GaussianNB(), X, lambda learner, pool: None, y).stop_reason == "teacher"

    def pressed(learner, pool):
        signal.raise_signal(signal.SIGINT)
        return pool.draw(1)[0]

    class Pressed(GaussianNB):
        def partial_fit(self, X, y, classes=None):
            super().partial_fit(X, y, classes)
            if len(y) == 1:
                raise KeyboardInterrupt
            return self

    lesson = teach(Pressed(), X, RandomTeacher(), y)
    assert lesson.stop_reason == "interrupted"
    assert len(lesson.labels) == len(lesson.indices) == 11
    lesson = teach(GaussianNB(), X, pressed, y)
    assert lesson.stop_reason == "interrupted"
    assert len(lesson.labels) == 11
    assert lesson.history_["labels"][-1] == 11


@pytest.mark.parametrize("given", [0, 4, 17])
@pytest.mark.parametrize("error", [RuntimeError("the line is dead"), KeyboardInterrupt(), None])
def test_a_lesson_that_the_oracle_ends_is_not_lost(examples, error, given):
    """What was answered is learnt, the first answers of a batch too; Ctrl-C returns the lesson, an error carries it."""
    X, y = examples
    asked = []

    def oracle(i):
        if len(asked) == given:
            if error is None:
                return None
            raise error
        asked.append(i)
        return y[i]

    learner = GaussianNB()
    options = {"labels": 30, "classes": ["down", "up"], "random_state": 0}
    if isinstance(error, KeyboardInterrupt):
        lesson = teach(learner, X, RandomTeacher(), oracle, **options)
        assert lesson.stop_reason == "interrupted"
    else:
        said = "the line is dead" if error else r"the oracle must say the label of example \d+ of the pool, got None"
        with pytest.raises(RuntimeError if error else TypeError, match=said) as caught:
            teach(learner, X, RandomTeacher(), oracle, **options)
        lesson = caught.value.lesson
        assert lesson.stop_reason == "error"
    assert lesson.indices == asked
    assert lesson.labels == [y[i] for i in asked]
    assert (learner.class_count_.sum() if given else 0) == given


@pytest.mark.parametrize(("options", "error", "sentence"), [
    ({"learner": SVC()}, TypeError, "SVC has no partial_fit"),
    ({"teacher": 3}, TypeError, "teacher must be a callable"),
    ({"oracle": [1, 2]}, ValueError, r"one label for each of 300 examples, got an array of shape \(2,\)"),
    ({"oracle": lambda i: 1}, ValueError, "classes must name all labels"),
    ({"start": 0}, ValueError, "start must be at least 1"),
    ({"labels": 0}, ValueError, "labels must be ≥ 1"), ({"every": 0}, ValueError, "every must be ≥ 1"),
    ({"teacher": lambda learner, pool: 300}, ValueError, "from 0 to 299, got 300"),
    ({"teacher": lambda learner, pool: "x"}, TypeError, "returns the place of an example"),
    ({"teacher": lambda learner, pool: 1.5}, TypeError, "returns the place of an example, or None, got 1.5"),
    ({"teacher": ActiveTeacher}, TypeError, r"such as ActiveTeacher\(\), got <class"),
    ({"test": np.zeros((3, 2))}, TypeError, r"test must be a pair \(X, y\).* got ndarray"),
    ({"test": (np.zeros((3, 2)), [0, 1])}, ValueError, r"label for each of 3 examples, got an array of shape \(2,\)"),
    ({"teacher": lambda learner, pool: int(np.flatnonzero(~pool.unseen)[0])}, ValueError, "chosen or passed over"),
])  # fmt: skip
def test_what_is_no_lesson_is_refused(examples, options, error, sentence):
    X, y = examples
    given = {"learner": GaussianNB(), "pool": X, "teacher": RandomTeacher(), "oracle": y, **options}
    with pytest.raises(error, match=sentence):
        teach(**given)
    for wrong in ({"share": 2.0}, {"step": 1.0}, {"step": 0}, {"explore": -1.0}, {"explore": 3.0}, {"share": 0.0}):
        name, value = next(iter(wrong.items()))
        with pytest.raises(ValueError, match=f"^{name} must be .*, got {value}$"):
            StreamTeacher(**wrong)
    with pytest.raises(TypeError, match="step must be a number > 0, got 'a'"):
        StreamTeacher(step="a")
