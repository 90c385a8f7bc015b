"""Figures show the numbers of the models they are asked for, and say what is wrong with what they cannot draw."""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import SGDClassifier
from sklearn.metrics import confusion_matrix
from sklearn.model_selection import learning_curve
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from widemargin import SVC, SVR, BudgetedSVC, IncrementalSVC, LinearSVC, plots
from widemargin.history import History

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")
plt = pytest.importorskip("matplotlib.pyplot")


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def two_clouds(rng, n=60, d=2):
    """Two classes that overlap, named "no" and "yes"; the first two examples are one of each."""
    y = np.where(rng.permutation(n) < n // 2, "no", "yes")
    y[:2] = "no", "yes"
    return rng.normal(size=(n, d)) + 1.5 * (y == "yes")[:, None], y


def offsets(axes, label):
    """The points of a scatter, by its label."""
    (found,) = [each for each in axes.collections if each.get_label() == label]
    return np.asarray(found.get_offsets())


def lines_of_levels(axes):
    """The vertices of each contour, by its level."""
    sets = [each for each in axes.collections if isinstance(each, matplotlib.contour.QuadContourSet)]
    return {float(each.levels[0]): np.concatenate([path.vertices for path in each.get_paths()]) for each in sets}


def labels_of(axes):
    return [text.get_text() for text in axes.get_legend().get_texts()]


def history(**columns):
    made = History()
    for row in zip(*columns.values(), strict=True):
        made.append(**dict(zip(columns, row, strict=True)))
    return made


def test_convergence_draws_columns_of_integers_and_of_floats():
    first = history(labels=[10, 20, 40], test_error=[0.5, 0.25, 0.125])
    second = history(labels=[10, 20], test_error=[0.4, np.nan])
    axes = plots.convergence({"one": first, "two": second}, x="labels", y="test_error")
    lines = axes.get_lines()
    np.testing.assert_array_equal(lines[0].get_xydata(), [[10, 0.5], [20, 0.25], [40, 0.125]])
    np.testing.assert_array_equal(lines[1].get_xydata(), [[10, 0.4]])  # what is unknown is not drawn
    assert (axes.get_xlabel(), axes.get_ylabel(), axes.get_xscale()) == ("labels", "test error", "log")
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["one", "two"]
    above = plots.convergence(history(steps=[0, 1], objective=[2.0, 1.5]), x="steps", optimum=1.5)
    assert above.get_yscale() == "log"
    assert above.get_xscale() == "linear"
    with pytest.raises(TypeError, match="call fit first"):
        plots.convergence(3)


def contrast(colour, ground):
    """WCAG's ratio of luminances."""

    def luminance(name):
        channels = np.array(matplotlib.colors.to_rgb(name))
        return np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4) @ [
            0.2126, 0.7152, 0.0722,
        ]  # fmt: skip

    low, high = sorted((luminance(colour), luminance(ground)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("span", [3.0, 30.0, 60.0, 99.0, 1e4])
def test_numbers_along_a_logarithmic_axis_stand_apart(span, rng):
    norms = 10.0 ** rng.uniform(-3.0, 3.0) * span ** np.linspace(0.0, 1.0, 5)
    axes = plots.pareto(SimpleNamespace(norms=norms, hinges=1.0 / norms))
    axes.figure.canvas.draw()
    ticks, (low, high) = [*axes.xaxis.get_major_ticks(), *axes.xaxis.get_minor_ticks()], axes.get_xlim()
    shown = [tick.label1 for tick in ticks if tick.label1.get_text() and low <= tick.get_loc() <= high]
    boxes = sorted((text.get_window_extent() for text in shown), key=lambda box: box.x0)
    assert boxes
    assert all(left.x1 < right.x0 for left, right in itertools.pairwise(boxes))


def test_colours_stand_out_on_white_and_black_and_no_series_is_told_by_its_colour_alone():
    for colour in plots.COLOURS:  # 3 is what WCAG asks of figures
        assert min(contrast(colour, "white"), contrast(colour, "black")) >= 3.0
    drawn = [plots._series(k) for k in range(8)]
    assert len({each["marker"] for each in drawn}) == 8


@pytest.mark.parametrize("model", [SVC(kernel="linear"), LinearSVC()])
def test_boundary_and_margins_of_a_linear_machine_are_where_its_score_is_0_and_1(model, rng):
    X, y = two_clouds(rng)
    model = clone(model).fit(X, y)
    lines = lines_of_levels(plots.decision_boundary(model, X, y, resolution=20))
    assert 0.0 in lines
    for level, vertices in lines.items():  # a plane is interpolated without an error
        np.testing.assert_allclose(model.decision_function(vertices), level, atol=1e-5)


def test_boundary_of_a_kernel_machine_passes_between_points_of_the_grid_of_other_labels(rng):
    X, y = two_clouds(rng)
    model = SVC(gamma=0.5).fit(X, y)
    axes = plots.decision_boundary(model, X, y, resolution=40)
    step = max(np.ptp(axes.get_xlim()), np.ptp(axes.get_ylim())) / 39
    for vertex in lines_of_levels(axes)[0.0]:
        around = vertex + step * np.array([[i, j] for i in (-1, 0, 1) for j in (-1, 0, 1)])
        scores = model.decision_function(around)
        assert scores.min() <= 0 <= scores.max()
    np.testing.assert_array_equal(offsets(axes, "support vectors"), model.support_vectors_)
    np.testing.assert_array_equal(offsets(axes, "yes"), X[y == "yes"])
    assert labels_of(axes) == ["no", "yes", "support vectors"]


def test_support_vectors_of_a_linear_machine_are_the_examples_up_to_the_margin(rng):
    X, y = two_clouds(rng)
    model = LinearSVC().fit(X, y)
    circled = offsets(plots.decision_boundary(model, X, y, resolution=9), "support vectors")
    margins = np.where(y == "yes", 1, -1) * model.decision_function(X)
    np.testing.assert_array_equal(circled, X[margins <= 1.0 + plots.AT_MARGIN])
    assert "support vectors" not in labels_of(plots.decision_boundary(model, X, resolution=9))
    logistic = LinearSVC(loss="log").fit(X, y)
    assert "support vectors" not in labels_of(plots.decision_boundary(logistic, X, y, resolution=9))


def test_regions_of_several_classes_are_the_predicted_labels(rng):
    X, y = rng.normal(size=(60, 2)), rng.permutation(60) % 3
    model = SVC(C=10.0).fit(X, y)
    axes = plots.decision_boundary(model, X, y, resolution=15)
    mesh = axes.collections[0]
    across, up = np.linspace(*axes.get_xlim(), 15), np.linspace(*axes.get_ylim(), 15)
    grid = np.stack(np.meshgrid(across, up), axis=2).reshape(-1, 2)
    np.testing.assert_array_equal(np.ravel(mesh.get_array()), model.predict(grid))


def test_a_frame_gives_the_axes_its_names_and_a_pipeline_is_drawn_too(rng, recwarn):
    pandas = pytest.importorskip("pandas")
    X, y = two_clouds(rng)
    frame = pandas.DataFrame(X, columns=["height", "weight"])
    axes = plots.decision_boundary(make_pipeline(StandardScaler(), SVC()).fit(frame, y), frame, y, resolution=9)
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("height", "weight")
    assert not [each for each in recwarn if "feature names" in str(each.message)]


@pytest.mark.parametrize("water", [0.0, 0.01, 0.5, 3.0])
def test_margins_are_counted_and_the_water_stands_at_its_level(water, rng):
    X, y = two_clouds(rng)
    model = SVC(C=0.1 + rng.random()).fit(X, y)
    margins = np.where(y == "yes", 1, -1) * model.decision_function(X)
    axes = plots.margins(model, X, y, bins=10, water=water)
    counts = [np.count_nonzero(margins < 0), np.count_nonzero((margins >= 0) & (margins < 1))]
    counts.append(len(y) - sum(counts))
    kinds = ("wrong", "inside the margin", "outside")
    assert labels_of(axes)[:3] == [f"{kind}: {count}" for kind, count in zip(kinds, counts, strict=True)]
    of_kind = [sum(bar.get_height() for bar in bars) for bars in axes.containers]
    assert of_kind == counts  # one kind on top of the other
    one, level = (line.get_xdata()[0] for line in axes.get_lines())
    assert one == 1.0
    if water == 0.0:
        assert level == margins.min()
    np.testing.assert_allclose(np.maximum(0.0, level - margins).mean(), water, rtol=1e-10, atol=1e-15)


def test_the_mean_hinge_loss_pays_for_the_margin_1(rng):
    X, y = two_clouds(rng)
    model = LinearSVC().fit(X, y)
    margins = np.where(y == "yes", 1, -1) * model.decision_function(X)
    hinge = np.maximum(0.0, 1.0 - margins).mean()
    assert hinge > 0 or margins.min() >= 1
    np.testing.assert_allclose(plots._water_level(margins, hinge), max(1.0, margins.min()), rtol=1e-10)


def test_margins_of_several_classes_are_the_own_score_less_the_best_other(rng):
    X, y = rng.normal(size=(60, 3)), rng.permutation(60) % 3
    for model in (SVC(multi_class="ovr").fit(X, y), LinearSVC(multi_class="crammer_singer").fit(X, y)):
        axes = plots.margins(model, X, y)
        scores = model.decision_function(X)
        wrong = sum(scores[i, k] < max(np.delete(scores[i], k)) for i, k in enumerate(y))
        assert labels_of(axes)[0] == f"wrong: {wrong}"
        assert len(axes.get_lines()) == (model.multi_class == "crammer_singer")  # the margin 1 is of that loss


def shown_images(axes, height, width):
    """Rows of images in a mosaic, each flat; blank ones left out."""
    mosaic = np.asarray(axes.images[0].get_array().filled(np.nan))
    found = []
    for top in range(0, mosaic.shape[0], height + 1):
        tiles = [mosaic[top : top + height, left : left + width] for left in range(0, mosaic.shape[1], width + 1)]
        found.append([tile.ravel() for tile in tiles if not np.isnan(tile).any()])
    return found


def test_vectors_stand_in_the_rows_of_their_classes_the_largest_coefficients_first(rng):
    X, y = rng.normal(size=(60, 6)), rng.permutation(60) % 3
    model = SVC(C=10.0).fit(X, y)
    of_class, sizes = y[model.support_], np.abs(model.dual_coef_).max(axis=0)
    axes = plots.vectors(model, (2, 3), each=4)
    for k, images in enumerate(shown_images(axes, 2, 3)):
        own = np.flatnonzero(of_class == k)
        largest = own[np.argsort(-sizes[own], kind="stable")][:4]
        np.testing.assert_allclose(images, model.support_vectors_[largest], rtol=1e-6)
    assert [text.get_text() for text in axes.get_yticklabels()] == ["0", "1", "2"]


def test_vectors_of_two_classes_and_of_outputs_speak_for_the_class_that_they_raise(rng):
    X, y = two_clouds(rng, d=4)
    two = SVC().fit(X, y)
    negative, positive = shown_images(plots.vectors(two, each=60), 2, 2)
    assert (len(negative), len(positive)) == tuple(two.n_support_)
    labels = rng.permutation(60) % 3
    for model in (BudgetedSVC(12, random_state=0), IncrementalSVC()):
        model.fit(X, labels)
        rows = shown_images(plots.vectors(model, each=60), 2, 2)
        best = np.where(model.dual_coef_.max(axis=0) > 0, model.dual_coef_.argmax(axis=0), -1)
        assert [len(row) for row in rows] == [np.count_nonzero(best == k) for k in range(3)]
    raised, lowered = shown_images(plots.vectors(SVR().fit(X, X[:, 0]), each=60), 2, 2)
    assert raised
    assert lowered


def test_a_confusion_matrix_is_that_of_scikit_learn(rng):
    X, y = two_clouds(rng)
    model = LinearSVC().fit(X, y)
    axes = plots.confusion_matrix(model, X, y)
    np.testing.assert_array_equal(axes.images[0].get_array(), confusion_matrix(y, model.predict(X)))
    shares = plots.confusion_matrix(model, X, y, normalize="true").images[0].get_array()
    np.testing.assert_allclose(shares.sum(axis=1), 1.0)


def test_the_gap_along_a_stream_is_the_duality_gap_after_each_part(rng):
    X, y = two_clouds(rng, n=50)
    model = IncrementalSVC(gamma=0.5)
    line = plots.stream(model, X, y, part=20).get_lines()[0]
    parts = (slice(0, 20), slice(20, 40), slice(40, 50))
    gaps = [model.partial_fit(X[part], y[part], classes=["no", "yes"]).duality_gap() for part in parts]
    np.testing.assert_array_equal(line.get_xdata(), [20, 40, 50])
    np.testing.assert_array_equal(line.get_ydata(), gaps)


def test_the_error_along_a_stream_is_of_the_parts_before_they_are_learnt(rng):
    X, y = two_clouds(rng, n=50)
    model = IncrementalSVC(gamma=0.5)
    axes = plots.stream({"ours": model, "theirs": SGDClassifier()}, X, y, part=20, measure="error")
    assert labels_of(axes) == ["ours", "theirs"]
    line = axes.get_lines()[0]
    model.partial_fit(X[:20], y[:20], classes=["no", "yes"])
    errors = [np.mean(model.predict(X[20:40]) != y[20:40])]
    errors.append(np.mean(model.partial_fit(X[20:40], y[20:40]).predict(X[40:]) != y[40:]))
    np.testing.assert_array_equal(line.get_xydata(), np.transpose([[40, 50], errors]))


def test_a_learning_curve_is_one_minus_the_scores_of_scikit_learn(rng):
    X, y = two_clouds(rng, n=90)
    model = LinearSVC(random_state=0)
    axes = plots.learning_curve(model, X, y, sizes=[20, 60], cv=3, random_state=1)
    sizes, _, scores = learning_curve(model, X, y, train_sizes=[20, 60], cv=3, shuffle=True, random_state=1)
    np.testing.assert_allclose(axes.get_lines()[0].get_xydata(), np.transpose([sizes, 1 - scores.mean(axis=1)]))
    band = axes.collections[0].get_paths()[0].vertices
    low, high = 1 - scores.mean(axis=1) - scores.std(axis=1), 1 - scores.mean(axis=1) + scores.std(axis=1)
    np.testing.assert_allclose([band[:, 1].min(), band[:, 1].max()], [low.min(), high.max()])


def test_a_scaling_curve_has_the_counters_of_its_fits_and_their_power(rng):
    X, y = two_clouds(rng, n=80)
    passes = LinearSVC(solver="pegasos", max_iter=3, tol=0)
    axes = plots.scaling_curve({"passes": passes}, X, y, sizes=[0.25, 0.5, 1.0], column="feature_reads")
    np.testing.assert_array_equal(axes.get_lines()[0].get_xydata(), [[20, 120], [40, 240], [80, 480]])
    assert labels_of(axes) == ["passes: n^1.00"]


def test_figures_are_drawn_into_the_axes_that_are_given(rng):
    X, y = two_clouds(rng, d=4)
    model, given = SVC().fit(X, y), plt.subplots()[1]
    assert plots.margins(model, X, y, ax=given) is given
    assert plots.vectors(model, ax=given) is given
    assert plots.confusion_matrix(model, X, y, ax=given) is given


def refusals():
    rng = np.random.default_rng(0)
    X, y = two_clouds(rng)
    fitted, wide = SVC().fit(X, y), SVC().fit(rng.normal(size=(60, 5)), y)
    three = SVC(decision_function_shape="ovo").fit(X, np.arange(60) % 4)
    linear, passes = LinearSVC().fit(X, y), LinearSVC(solver="pegasos", max_iter=1, tol=0)
    yield "call fit first", lambda: plots.decision_boundary(SVC(), X, y)
    yield "no regressor", lambda: plots.margins(SVR().fit(X, X[:, 0]), X, y)
    yield r"two features, got X of shape \(60, 5\)", lambda: plots.decision_boundary(wide, rng.normal(size=(60, 5)))
    yield "two features, got an estimator of 5", lambda: plots.decision_boundary(wide, X)
    yield "resolution must be ≥ 2, got 1", lambda: plots.decision_boundary(fitted, X, y, resolution=1)
    yield r"each of the 60 rows of X, got y of shape \(3,\)", lambda: plots.decision_boundary(fitted, X, y[:3])
    yield "the label 'maybe', which is not among", lambda: plots.margins(fitted, X[:1], ["maybe"])
    yield "water must be ≥ 0", lambda: plots.margins(fitted, X, y, water=-1.0)
    yield "bins must be ≥ 1, got 0", lambda: plots.margins(fitted, X, y, bins=0)
    yield "use decision_function_shape='ovr'", lambda: plots.margins(three, X, np.arange(60) % 4)
    yield "draw coef_", lambda: plots.vectors(linear)
    yield "call fit first", lambda: plots.vectors(SVC())
    yield "shape must be given where images are not square, got 2", lambda: plots.vectors(fitted)
    yield "shape must have 2 pixels", lambda: plots.vectors(fitted, (3, 4))
    yield r"shape must be \(height, width\)", lambda: plots.vectors(fitted, 4)
    yield "each must be ≥ 1, got 0", lambda: plots.vectors(fitted, (1, 2), each=0)
    yield "normalize must be one of 'true'", lambda: plots.confusion_matrix(fitted, X, y, normalize="row")
    yield "needs duality_gap, which BudgetedSVC.* lacks: use measure", lambda: plots.stream(BudgetedSVC(), X, y)
    yield "needs partial_fit, which SVC", lambda: plots.stream(SVC(), X, y, measure="error")
    yield "measure must be one of 'gap', 'error'", lambda: plots.stream(IncrementalSVC(), X, y, measure="loss")
    yield "got 60 rows and 3 labels", lambda: plots.learning_curve(SVC(), X, y[:3])
    yield "such as LinearSVC()", lambda: plots.learning_curve(LinearSVC, X, y)
    yield "sizes must be shares of the examples", lambda: plots.learning_curve(SVC(), X, y, sizes=[0.0, 1.0])
    yield "sizes must be shares up to 1", lambda: plots.scaling_curve(passes, X, y, sizes=[0.5, 2.5])
    yield "at most the 60 examples there are", lambda: plots.scaling_curve(passes, X, y, sizes=[20, 61])
    yield "column must be one of the history of LinearSVC", lambda: plots.scaling_curve(passes, X, y, column="joules")
    yield "an estimator of this library", lambda: plots.scaling_curve(SGDClassifier(), X, y)
    yield "ax must be Axes of matplotlib, got 3", lambda: plots.margins(fitted, X, y, ax=3)


def test_what_cannot_be_drawn_is_refused_in_a_sentence():
    for sentence, call in refusals():
        with pytest.raises((TypeError, ValueError), match=sentence):
            call()
