"""Figures of fitted estimators, of their histories, and of fits to growing numbers of examples. Needs matplotlib.

Each function draws into ``ax``, or into a new figure, and returns the Axes. Series differ by colour and by marker.
Colour-blind people can tell the colours apart, and they are visible on white and on black. Texts and lines have the
colour of matplotlib's style (``plt.style.use("dark_background")`` for a dark one).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isqrt
from numbers import Integral
from typing import Any

import numpy as np

from .arguments import not_negative, one_of, whole
from .history import History

#: Axis labels of the history's columns.
LABELS = {
    "seconds": "training time (s)",
    "epochs": "epochs",
    "steps": "steps",
    "visits": "examples visited",
    "examples": "examples",
    "feature_reads": "entries of X read",
    "kernel_evals": "kernel values computed",
    "objective": "primal objective",
    "gap": "duality gap",
    "validation_error": "validation error",
    "test_error": "test error",
    "online_error": "error before learning",
    "support_vectors": "support vectors",
    "labels": "labels",
}
#: Colours of the series. Each has a contrast of 3 or more to white and to black.
BLUE, VERMILION, GREEN, PURPLE, OCHRE, GREY = COLOURS = (
    "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#8A6D00", "#7F7F7F",
)  # fmt: skip
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
#: Losses whose support vectors are the examples with margins up to 1.
HINGES = ("hinge", "squared_hinge")
#: Margins up to 1 + AT_MARGIN count as 1, because a solver stops near the optimum.
AT_MARGIN = 0.01
#: What :func:`stream` can measure, and the label of its axis.
MEASURES = {"gap": "duality gap / (C n)", "error": "error before learning"}


# ---------------------------------------------------------------- of histories and paths


def convergence(
    estimators: Any, *, x: str = "seconds", y: str = "objective", optimum: float | None = None, ax: Any = None
) -> Any:
    """Draw one column of the history against another.

    Parameters
    ----------
    estimators : fitted estimator, History, or sequence or mapping of them
        One or more histories. The keys of a mapping are the names in the legend.
    x : str, default="seconds"
        The column of the history along the horizontal axis.
    y : str, default="objective"
        The column of the history along the vertical axis.
    optimum : float or None, default=None
        The least value of y. If it is given, y − optimum is drawn on a logarithmic axis instead of y.
    ax : matplotlib.axes.Axes or None, default=None
        The axes to draw into. None makes a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        The axes that were drawn into.

    See Also
    --------
    widemargin.history.History : The numbers.

    Examples
    --------
    >>> from widemargin import LinearSVC, plots
    >>> from sklearn.datasets import make_classification
    >>> model = LinearSVC(solver="pegasos", max_iter=10, tol=0).fit(*make_classification(random_state=0))
    >>> plots.convergence(model, x="epochs").get_xlabel()
    'epochs'
    """
    ax = _axes(ax)
    named = {name: _history(each, "convergence") for name, each in _by_name(estimators).items()}
    for k, (name, history) in enumerate(named.items()):
        horizontal, vertical = history[x], history[y]
        known = np.isfinite(horizontal) & np.isfinite(vertical)
        horizontal, vertical = horizontal[known], vertical[known]
        if optimum is not None:
            vertical = np.maximum(vertical - optimum, np.finfo(float).eps * abs(optimum))
        ax.plot(horizontal, vertical, **_series(k), label=name)
    if all(np.nanmin(history[x].astype(float), initial=np.inf) > 0 for history in named.values()):
        ax.set_xscale("log")
    label = LABELS.get(y, y)
    if optimum is not None:
        ax.set_yscale("log")
        label += " above the optimum"
    return _labelled(ax, LABELS.get(x, x), label, len(named) > 1)


def pareto(paths: Any, *, ax: Any = None) -> Any:
    """Draw the Pareto front of :func:`widemargin.pareto_path`: mean hinge against norm.

    Parameters
    ----------
    paths : ParetoPath, or sequence or mapping of them
        What :func:`widemargin.pareto_path` returned. The keys of a mapping are the names in the legend.
    ax : matplotlib.axes.Axes or None, default=None
        The axes to draw into. None makes a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        The axes that were drawn into.

    See Also
    --------
    widemargin.pareto_path : The numbers.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from widemargin import pareto_path, plots
    >>> X, y = make_moons(100, noise=0.2, random_state=0)
    >>> plots.pareto(pareto_path(X, y, Cs=[0.1, 1.0, 10.0])).get_ylabel()
    'mean hinge loss'
    """
    if isinstance(paths, Sequence):
        paths = dict(enumerate(paths))
    named = paths if isinstance(paths, Mapping) else {"": paths}
    for path in named.values():
        if not (hasattr(path, "norms") and hasattr(path, "hinges")):
            raise TypeError(f"pareto draws what pareto_path returns, got {path!r}: call pareto_path first")
    ax = _axes(ax)
    for k, (name, path) in enumerate(named.items()):
        order = np.argsort(path.norms)
        ax.plot(path.norms[order], path.hinges[order], **_series(k), label=str(name))
    ax.set_xscale("log")
    return _labelled(ax, "‖w‖ (1 / margin)", "mean hinge loss", len(named) > 1)


# ---------------------------------------------------------------- of one machine


def decision_boundary(estimator: Any, X: Any, y: Any = None, *, resolution: int = 200, ax: Any = None) -> Any:
    """Draw the decision boundary, the margins and the support vectors of a classifier of two features.

    For two classes the boundary is the solid line where the score is 0, and the margins are the dashed lines where the
    score is −1 and 1. For more classes the regions of the predicted labels are drawn. Support vectors are circled: for
    a linear machine with a hinge loss, the examples at the margin or on the wrong side of it, which needs y.

    Parameters
    ----------
    estimator : fitted classifier
        The classifier, of this library or of scikit-learn. It may be a pipeline, whose support vectors are not drawn.
    X : array or frame of shape (n, 2)
        The examples to draw. The picture is as large as they need.
    y : array of shape (n,) or None, default=None
        Their labels, shown as colours and markers.
    resolution : int, default=200
        The classifier predicts on a grid of as many points along each axis.
    ax : matplotlib.axes.Axes or None, default=None
        The axes to draw into. None makes a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        The axes that were drawn into.

    See Also
    --------
    margins : For any number of features.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from widemargin import SVC, plots
    >>> X, y = make_moons(100, noise=0.1, random_state=0)
    >>> plots.decision_boundary(SVC().fit(X, y), X, y).get_xlabel()
    'feature 0'
    """
    classes, points = _classes("decision_boundary", estimator), _points_of(estimator, X)
    labels = None if y is None else _labels("decision_boundary", y, classes, points.shape[0])
    whole("resolution", resolution, 2)
    ax = _axes(ax)
    _draw_regions(ax, estimator, X, points, classes, int(resolution))
    _draw_examples(ax, points, labels, classes)
    found = _support_vectors(estimator, X, labels)
    if found is not None:
        circles = {"facecolors": "none", "edgecolors": _ink(), "linewidths": 0.8}
        ax.scatter(found[:, 0], found[:, 1], s=60, **circles, label="support vectors")
    ax.legend(frameon=True, framealpha=0.8, fontsize="small", loc="upper right")
    names = [str(name) for name in getattr(X, "columns", ("feature 0", "feature 1"))]
    return _labelled(ax, names[0], names[1], legend=False, grid=False)


def margins(estimator: Any, X: Any, y: Any, *, bins: Any = 40, water: float | None = None, ax: Any = None) -> Any:
    """Draw the histogram of the margins y f(x), with the margin 1 and a water level.

    Margins below 0 are errors; those below 1 have the hinge loss 1 − y f(x). For more than two classes the margin is
    the score of the example's own class minus the best other score.

    The water level γ of a mean slack ``water`` solves mean max(0, γ − y f(x)) = water (see the Stochastic Batch
    Perceptron). For the mean hinge loss as ``water`` it is 1.

    Parameters
    ----------
    estimator : fitted classifier
        The classifier, of this library or of scikit-learn.
    X : array, sparse matrix or frame of shape (n, n_features)
        The examples.
    y : array of shape (n,)
        Their labels.
    bins : int or sequence of float, default=40
        The number of bins, or their edges.
    water : float or None, default=None
        The mean slack ≥ 0 whose water level is drawn.
    ax : matplotlib.axes.Axes or None, default=None
        The axes to draw into. None makes a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        The axes that were drawn into.

    See Also
    --------
    decision_boundary : Where the margins lie, for two features.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from widemargin import SVC, plots
    >>> X, y = make_moons(100, noise=0.1, random_state=0)
    >>> plots.margins(SVC().fit(X, y), X, y, water=0.1).get_ylabel()
    'examples'
    """
    classes = _classes("margins", estimator)
    found = _margins(estimator, X, _labels("margins", y, classes, len(y)), classes)
    if water is not None:
        not_negative("water", water)
    if isinstance(bins, Integral):
        whole("bins", bins, 1)
    ax = _axes(ax)
    # the loss of Crammer and Singer has its corner at 1 for any number of classes
    has_corner = classes.size == 2 or getattr(estimator, "multi_class", "") == "crammer_singer"
    _draw_histogram(ax, found, bins, has_corner)
    if has_corner:
        ax.axvline(1.0, color=_ink(), linestyle="--", linewidth=1.2, label="margin 1")
    if water is not None:
        level = _water_level(found, float(water))
        ax.axvline(level, color=GREEN, linewidth=2.0, label=f"water level {level:.3g} of {water:g}")
    name = "y f(x)" if classes.size == 2 else "score of the own class less the best other"
    return _labelled(ax, f"margin, {name}", "examples", legend=True)


def vectors(estimator: Any, shape: tuple[int, int] | None = None, *, each: int = 10, ax: Any = None) -> Any:
    """Draw support vectors as images, if features are pixels: a row for each class, largest coefficients first.

    Parameters
    ----------
    estimator : fitted kernel machine
        A machine with ``support_vectors_`` and ``dual_coef_``: exact, budgeted, incremental or compressed. A vector is
        in the row of the class with its largest coefficient. The rows of a regressor are the vectors that raise its
        predictions and those that lower them.
    shape : (height, width) or None, default=None
        The size of an image in pixels. None is a square.
    each : int, default=10
        The largest number of vectors of a class that are drawn.
    ax : matplotlib.axes.Axes or None, default=None
        The axes to draw into. None makes a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        The axes that were drawn into.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from widemargin import BudgetedSVC, plots
    >>> X, y = load_digits(return_X_y=True)
    >>> axes = plots.vectors(BudgetedSVC(budget=50, gamma=0.001, random_state=0).fit(X, y))
    >>> len(axes.get_yticklabels())
    10
    """
    for name in ("support_vectors_", "dual_coef_"):
        if not hasattr(estimator, name):
            linear = hasattr(estimator, "coef_")
            remedy = "draw coef_ with ax.imshow(model.coef_[0].reshape(shape))" if linear else "call fit first"
            raise TypeError(f"vectors draws fitted kernel machines, got {estimator!r} without {name}: {remedy}")
    found = estimator.support_vectors_
    height, width = _image_shape(shape, found.shape[1])
    whole("each", each, 1)
    of_row, sizes, names = _rows_of_vectors(estimator)
    rows = []
    for k in range(len(names)):
        own = np.flatnonzero(of_row == k)
        rows.append(own[np.argsort(-sizes[own], kind="stable")][: int(each)])
    columns = max(1, *(row.size for row in rows))
    # one blank pixel between two images
    mosaic = np.full((len(rows) * (height + 1) - 1, columns * (width + 1) - 1), np.nan)
    for i, row in enumerate(rows):
        for j, image in enumerate(_dense(found[row])):
            top, left = i * (height + 1), j * (width + 1)
            mosaic[top : top + height, left : left + width] = image.reshape(height, width)
    ax = _axes(ax)
    ax.imshow(mosaic, cmap="gray", interpolation="nearest")
    ax.set_yticks([i * (height + 1) + (height - 1) / 2 for i in range(len(rows))], names)
    ax.set_xticks([])
    ax.tick_params(length=0)
    for side in ax.spines.values():
        side.set_visible(False)
    return _labelled(ax, f"{sum(row.size for row in rows)} of {found.shape[0]} vectors", "", legend=False, grid=False)


def confusion_matrix(estimator: Any, X: Any, y: Any, *, normalize: str | None = None, ax: Any = None) -> Any:
    """Draw the confusion matrix by scikit-learn's ``ConfusionMatrixDisplay``, in colours for colour-blind people too.

    Parameters
    ----------
    estimator : fitted classifier
        The classifier, of this library or of scikit-learn.
    X : array, sparse matrix or frame of shape (n, n_features)
        The examples.
    y : array of shape (n,)
        Their labels.
    normalize : {"true", "pred", "all"} or None, default=None
        Show shares of the true labels, of the predicted labels, or of all examples. None shows counts.
    ax : matplotlib.axes.Axes or None, default=None
        The axes to draw into. None makes a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        The axes that were drawn into.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from widemargin import SVC, plots
    >>> X, y = load_iris(return_X_y=True)
    >>> plots.confusion_matrix(SVC().fit(X, y), X, y).get_xlabel()
    'Predicted label'
    """
    from sklearn.metrics import ConfusionMatrixDisplay

    classes = _classes("confusion_matrix", estimator)
    _labels("confusion_matrix", y, classes, len(y))
    if normalize is not None:
        one_of("normalize", normalize, ("true", "pred", "all"))
    shown = {"normalize": normalize, "cmap": "cividis", "labels": classes, "ax": _axes(ax), "colorbar": False}
    return ConfusionMatrixDisplay.from_estimator(estimator, X, y, **shown).ax_


# ---------------------------------------------------------------- of fits to more and more examples


def stream(estimators: Any, X: Any, y: Any, *, part: int = 100, measure: str = "gap", ax: Any = None) -> Any:
    """Draw the duality gap or the error of an estimator along a stream.

    A copy of each estimator learns the rows in their order by ``partial_fit``, ``part`` rows at a time.

    Parameters
    ----------
    estimators : estimator with ``partial_fit``, or sequence or mapping of them
        The estimators, which do not change. The keys of a mapping are the names in the legend.
    X : array or sparse matrix of shape (n, n_features)
        The examples.
    y : array of shape (n,)
        Their labels.
    part : int, default=100
        The number of rows between two points of the curve.
    measure : {"gap", "error"}, default="gap"
        "gap" is ``duality_gap()`` after a part, which :class:`widemargin.IncrementalSVC` has. "error" is the share of
        wrong predictions on a part before it is learnt.
    ax : matplotlib.axes.Axes or None, default=None
        The axes to draw into. None makes a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        The axes that were drawn into.

    See Also
    --------
    learning_curve : The error of fits to more and more examples.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from widemargin import IncrementalSVC, plots
    >>> X, y = make_moons(400, noise=0.1, random_state=0)
    >>> plots.stream(IncrementalSVC(C=10.0, gamma=1.0), X, y).get_ylabel()
    'duality gap / (C n)'
    """
    one_of("measure", measure, tuple(MEASURES))
    whole("part", part, 1)
    named = _estimators(estimators)
    needed = ["partial_fit", *(["duality_gap"] if measure == "gap" else [])]
    for each in named.values():
        lacks = [name for name in needed if not hasattr(each, name)]
        if lacks:
            remedy = "use measure='error', or IncrementalSVC" if lacks == ["duality_gap"] else "use IncrementalSVC"
            raise TypeError(f"stream with measure={measure!r} needs {lacks[0]}, which {each!r} lacks: {remedy}")
    _same_length("stream", X, y)
    ax = _axes(ax)
    for k, (name, each) in enumerate(named.items()):
        points = _along(each, X if hasattr(X, "shape") else np.asarray(X), np.asarray(y), int(part), measure)
        ax.plot(*np.reshape(points, (-1, 2)).T, **_series(k), label=name)
    if measure == "gap":
        ax.set_yscale("log")
    return _labelled(ax, LABELS["examples"], MEASURES[measure], len(named) > 1)


def learning_curve(
    estimators: Any, X: Any, y: Any, *, sizes: Any = None, cv: Any = 5, random_state: Any = 0, ax: Any = None
) -> Any:
    """Draw the cross-validated error against the number of training examples, with a standard deviation of the folds.

    The numbers are scikit-learn's ``model_selection.learning_curve``; the error is 1 − ``score``.

    Parameters
    ----------
    estimators : estimator, or sequence or mapping of them
        The estimators, which stay as they are. The keys of a mapping are the names in the legend.
    X : array, sparse matrix or frame of shape (n, n_features)
        The examples.
    y : array of shape (n,)
        Their labels, or the targets of a regressor.
    sizes : sequence of float or int, or None, default=None
        Shares of the training examples, or their numbers. None is 0.1, 0.18, 0.32, 0.56, 1.
    cv : int or splitter, default=5
        The number of folds, or a splitter of scikit-learn.
    random_state : int, default=0
        The seed of the order in which examples are added.
    ax : matplotlib.axes.Axes or None, default=None
        The axes to draw into. None makes a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        The axes that were drawn into.

    See Also
    --------
    scaling_curve : The cost of the fits.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from widemargin import LinearSVC, plots
    >>> X, y = load_digits(n_class=2, return_X_y=True)
    >>> plots.learning_curve(LinearSVC(), X, y, sizes=[0.1, 0.5, 1.0], cv=2).get_xlabel()
    'training examples'
    """
    from sklearn.model_selection import learning_curve as measured

    named = _estimators(estimators)
    _same_length("learning_curve", X, y)
    given = np.geomspace(0.1, 1.0, 5) if sizes is None else _sizes(sizes, None)
    ax = _axes(ax)
    label = "error"
    for k, (name, each) in enumerate(named.items()):
        counts, _, scores = measured(
            each, X, y, train_sizes=given, cv=cv, shuffle=True, random_state=random_state, error_score="raise"
        )[:3]
        errors = 1.0 - scores
        mean, spread = errors.mean(axis=1), errors.std(axis=1)
        ax.fill_between(counts, mean - spread, mean + spread, color=COLOURS[k % len(COLOURS)], alpha=0.2, linewidth=0)
        ax.plot(counts, mean, **_series(k), label=name)
        label = "error" if hasattr(each, "decision_function") else "1 − score"
    ax.set_xscale("log")
    return _labelled(ax, "training examples", f"cross-validated {label}", len(named) > 1)


def scaling_curve(
    estimators: Any, X: Any, y: Any, *, sizes: Any = None, column: str = "seconds", random_state: Any = 0,
    ax: Any = None,
) -> Any:  # fmt: skip
    """Draw the cost of training against the number n of examples, and the power of n that the cost grows with.

    Copies of each estimator are fitted to the first rows of a random order. Their histories say the cost.

    Parameters
    ----------
    estimators : estimator of this library, or sequence or mapping of them
        The estimators, which stay as they are. The keys of a mapping are the names in the legend.
    X : array or sparse matrix of shape (n, n_features)
        The examples.
    y : array of shape (n,)
        Their labels, or the targets of a regressor.
    sizes : sequence of float or int, or None, default=None
        Shares of the examples, or their numbers. None is 1/16, 1/8, 1/4, 1/2, 1.
    column : str, default="seconds"
        The column of the history whose last entry is the cost: ``seconds`` of training without compilation, or a
        counter, such as ``kernel_evals`` or ``feature_reads``.
    random_state : int, default=0
        The seed of the order of the examples.
    ax : matplotlib.axes.Axes or None, default=None
        The axes to draw into. None makes a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        The axes that were drawn into.

    See Also
    --------
    learning_curve : The error of the fits.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from widemargin import LinearSVC, plots
    >>> X, y = make_classification(800, random_state=0)
    >>> one_pass = LinearSVC(solver="pegasos", max_iter=1, tol=0)
    >>> axes = plots.scaling_curve(one_pass, X, y, column="visits")
    >>> axes.get_legend().get_texts()[0].get_text()
    'LinearSVC: n^1.00'
    """
    named, n = _estimators(estimators), _same_length("scaling_curve", X, y)
    counts = _sizes([1 / 16, 1 / 8, 1 / 4, 1 / 2, 1.0] if sizes is None else sizes, n)
    order = np.random.default_rng(random_state).permutation(n)
    rows, labels = X if hasattr(X, "shape") else np.asarray(X), np.asarray(y)
    ax = _axes(ax)
    for k, (name, each) in enumerate(named.items()):
        _cost(each, rows, labels, order[: counts[0]], column)  # loads machine code before the clock counts
        costs = [_cost(each, rows, labels, order[:count], column) for count in counts]
        if counts.size > 1:
            power = np.polyfit(np.log(counts), np.log(np.maximum(costs, np.finfo(float).tiny)), 1)[0]
            name += f": n^{power:.2f}"
        ax.plot(counts, costs, **_series(k), label=name)
    ax.set_xscale("log")
    ax.set_yscale("log")
    return _labelled(ax, "training examples", LABELS.get(column, column), legend=True)


# ---------------------------------------------------------------- axes


def _axes(ax: Any) -> Any:
    """The axes given, or new ones."""
    if ax is not None:
        if not hasattr(ax, "get_xlim"):
            raise TypeError(f"ax must be Axes of matplotlib, got {ax!r}: give one of plt.subplots()'s, or none")
        return ax
    try:
        import matplotlib.pyplot as plt
    except ImportError as missing:
        raise ImportError("plots need matplotlib: pip install 'widemargin[plots]'") from missing
    return plt.subplots(figsize=(6, 4), layout="constrained")[1]


def _ink() -> Any:
    """The colour of texts in matplotlib's style."""
    import matplotlib

    return matplotlib.rcParams["text.color"]


def _series(k: int) -> dict[str, Any]:
    """The colour and marker of the k-th series."""
    return {"color": COLOURS[k % len(COLOURS)], "marker": MARKERS[k % len(MARKERS)], "markersize": 4}


def _labelled(ax: Any, x: str, y: str, legend: bool, grid: bool = True) -> Any:
    ax.set_xlabel(x)
    ax.set_ylabel(y)
    if grid:
        ax.grid(alpha=0.3)
    if legend:
        ax.legend(frameon=False)
    low, high = ax.get_xlim()
    if ax.get_xscale() == "log" and high < 100.0 * low:
        _few_ticks(ax.xaxis, high / low)
    return ax


def _few_ticks(axis: Any, span: float) -> None:
    """Ticks at 1, 2 and 5 of each decade. Along one to two decades matplotlib's own numbers overlap."""
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)) if span >= 5.0 else MaxNLocator(3))
    axis.set_major_formatter(FuncFormatter(lambda x, place: f"{x:,g}"))
    axis.set_minor_formatter(NullFormatter())


# ---------------------------------------------------------------- arguments


def _by_name(given: Any) -> dict[str, Any]:
    """One thing, or those of a list or dictionary, by their names for the legend."""
    if isinstance(given, Mapping):
        return {str(name): each for name, each in given.items()}
    if isinstance(given, Sequence) and not isinstance(given, str):
        return {f"{i}: {type(each).__name__}": each for i, each in enumerate(given)}
    return {type(given).__name__: given}


def _history(estimator: Any, who: str) -> History:
    if isinstance(estimator, History):
        return estimator
    history = getattr(estimator, "history_", None)
    if not isinstance(history, History):
        remedy = "call fit first" if who == "convergence" else "give an estimator of this library"
        raise TypeError(f"{who} draws fitted estimators or histories, got {estimator!r}: {remedy}")
    return history


def _estimators(given: Any) -> dict[str, Any]:
    """Estimators to fit, by name."""
    found = _by_name(given)
    for each in found.values():
        if isinstance(each, type) or not hasattr(each, "fit"):
            raise TypeError(f"estimators must have fit and parameters, got {each!r}: give one, such as LinearSVC()")
    return found


def _classes(who: str, estimator: Any) -> np.ndarray:
    """The labels of a fitted classifier."""
    if not hasattr(estimator, "classes_"):
        raise TypeError(f"{who} draws fitted classifiers, got {estimator!r}: call fit first, and give no regressor")
    return np.asarray(estimator.classes_)


def _labels(who: str, y: Any, classes: np.ndarray, n: int) -> np.ndarray:
    """The places of the labels among the classes."""
    y = np.asarray(y)
    if y.shape != (n,):
        raise ValueError(f"{who} needs a label for each of the {n} rows of X, got y of shape {y.shape}")
    places = np.minimum(np.searchsorted(classes, y), classes.size - 1)
    unknown = classes[places] != y
    if unknown.any():
        raise ValueError(
            f"y holds the label {y[unknown].tolist()[0]!r}, which is not among the classes {classes.tolist()}: give "
            "the labels that the estimator was fitted to"
        )
    return places


def _same_length(who: str, X: Any, y: Any) -> int:
    n = int(X.shape[0]) if hasattr(X, "shape") else len(X)
    if n != len(y):
        raise ValueError(f"{who} needs a label for each row, got {n} rows and {len(y)} labels")
    return n


def _sizes(given: Any, n: int | None) -> np.ndarray:
    """Ascending numbers of examples; without n, shares stay shares, as scikit-learn takes them."""
    sizes = np.asarray(given)
    if sizes.ndim != 1 or sizes.size == 0 or sizes.dtype.kind not in "iuf" or not (sizes > 0).all():
        raise ValueError(
            f"sizes must be shares of the examples, or their numbers, > 0, got {given!r}: try [0.1, 0.3, 1]"
        )
    sizes = np.unique(sizes)
    if sizes.dtype.kind == "f" and sizes[-1] > 1.0:
        raise ValueError(f"sizes must be shares up to 1, or whole numbers, got {given!r}: try [0.1, 0.3, 1]")
    if n is None:
        return sizes
    counts = np.unique(np.maximum(1, np.round(sizes * n)).astype(int)) if sizes.dtype.kind == "f" else sizes
    if counts[-1] > n:
        raise ValueError(f"sizes must be at most the {n} examples there are, got {given!r}")
    return counts


def _dense(X: Any) -> np.ndarray:
    """An array, a frame or a sparse matrix as a dense array of float64."""
    return np.asarray(X.toarray() if hasattr(X, "toarray") else X, dtype=np.float64)


def _take(X: Any, rows: Any) -> Any:
    """Some rows of an array, a sparse matrix or a frame."""
    return X.iloc[rows] if hasattr(X, "iloc") else X[rows]


def _like(X: Any, values: np.ndarray) -> Any:
    """Values as a frame like X, if X is one."""
    if not hasattr(X, "columns"):
        return values
    names = list(X.columns)
    return type(X)(values, columns=names) if hasattr(X, "iloc") else type(X)(values, schema=names)


# ---------------------------------------------------------------- parts of figures


def _points_of(estimator: Any, X: Any) -> np.ndarray:
    """The examples as points in the plane; refuses more features than two."""
    points, asked = _dense(X), getattr(estimator, "n_features_in_", 2)
    if points.ndim != 2 or points.shape[1] != 2 or points.shape[0] == 0:
        raise ValueError(
            f"decision_boundary draws two features, got X of shape {points.shape}: fit the estimator to two columns, "
            "or to PCA(2).fit_transform(X)"
        )
    if asked != 2:
        raise ValueError(f"decision_boundary draws two features, got an estimator of {asked}: fit it to two columns")
    return points


def _spread(values: np.ndarray, resolution: int) -> np.ndarray:
    """Points along an axis, from a tenth of the range below the values to a tenth above."""
    low, high = float(values.min()), float(values.max())
    room = 0.1 * (high - low) or 1.0
    return np.linspace(low - room, high + room, resolution)


def _draw_regions(ax: Any, estimator: Any, X: Any, points: np.ndarray, classes: np.ndarray, resolution: int) -> None:
    """Draw the regions of the predicted labels in pale colours, with their boundaries; for two classes, the margins."""
    from matplotlib.colors import ListedColormap

    horizontal, vertical = (_spread(points[:, j], resolution) for j in (0, 1))
    ax.set_xlim(horizontal[0], horizontal[-1])
    ax.set_ylim(vertical[0], vertical[-1])
    grid = _like(X, np.stack([values.ravel() for values in np.meshgrid(horizontal, vertical)], axis=1))
    colours, shape = [_series(k)["color"] for k in range(classes.size)], (vertical.size, horizontal.size)
    codes = np.searchsorted(classes, np.asarray(estimator.predict(grid))).reshape(shape)
    ax.pcolormesh(
        horizontal, vertical, codes, cmap=ListedColormap(colours), vmin=-0.5, vmax=classes.size - 0.5, alpha=0.18,
        shading="nearest", rasterized=True, linewidth=0,
    )  # fmt: skip
    if classes.size == 2 and hasattr(estimator, "decision_function"):
        scores = np.asarray(estimator.decision_function(grid)).reshape(shape)
        for level, style in {-1: "--", 0: "-", 1: "--"}.items():
            if scores.min() < level < scores.max():
                ax.contour(horizontal, vertical, scores, [level], colors=[_ink()], linestyles=style, linewidths=1.2)
        return
    for k in np.unique(codes):
        if (codes != k).any():
            ax.contour(horizontal, vertical, (codes == k).astype(float), [0.5], colors=[_ink()], linewidths=0.6)


def _draw_examples(ax: Any, points: np.ndarray, labels: np.ndarray | None, classes: np.ndarray) -> None:
    """Draw points in the colours and markers of their labels, or all in grey."""
    if labels is None:
        ax.scatter(points[:, 0], points[:, 1], s=14, color=GREY, label="examples")
        return
    for k, label in enumerate(classes.tolist()):
        own = points[labels == k]
        ax.scatter(own[:, 0], own[:, 1], s=14, color=_series(k)["color"], marker=_series(k)["marker"], label=f"{label}")


def _draw_histogram(ax: Any, margins: np.ndarray, bins: Any, has_corner: bool) -> None:
    """Draw the histogram of margins in colours: wrong and right, or wrong, inside the margin 1 and outside."""
    kinds = {"wrong": (margins < 0, VERMILION), "right": (margins >= 0, BLUE)}
    if has_corner:
        del kinds["right"]
        kinds["inside the margin"] = (margins >= 0) & (margins < 1), PURPLE
        kinds["outside"] = margins >= 1, BLUE
    ax.hist(
        [margins[own] for own, _ in kinds.values()], bins=np.histogram_bin_edges(margins, bins), stacked=True,
        color=[colour for _, colour in kinds.values()],
        label=[f"{name}: {np.count_nonzero(own)}" for name, (own, _) in kinds.items()],
    )  # fmt: skip


def _support_vectors(estimator: Any, X: Any, labels: np.ndarray | None) -> np.ndarray | None:
    """The support vectors to circle, or None if they are not known."""
    if hasattr(estimator, "support_vectors_"):
        return _dense(estimator.support_vectors_)
    if labels is None or len(estimator.classes_) != 2 or getattr(estimator, "loss", "") not in HINGES:
        return None
    return _dense(X)[_margins(estimator, X, labels, np.asarray(estimator.classes_)) <= 1.0 + AT_MARGIN]


def _margins(estimator: Any, X: Any, labels: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """The margins y f(x), or for more than two classes the score of the own class minus the best other."""
    if not hasattr(estimator, "decision_function"):
        raise TypeError(
            f"margins are of scores, and {estimator!r} has no decision_function: use a support vector machine"
        )
    scores = np.asarray(estimator.decision_function(X), dtype=np.float64)
    if scores.ndim == 1:
        return np.where(labels == 1, scores, -scores)
    if scores.shape[1] != classes.size:
        raise ValueError(
            f"margins need a score for each of the {classes.size} classes, got {scores.shape[1]}: use "
            "decision_function_shape='ovr'"
        )
    rows = np.arange(labels.size)
    others = scores.copy()
    others[rows, labels] = -np.inf
    return scores[rows, labels] - others.max(axis=1)


def _water_level(heights: np.ndarray, depth: float) -> float:
    """The level γ with mean max(0, γ − height) = depth: the minimum over k of (depth·n + the k lowest heights)/k."""
    lowest = np.cumsum(np.sort(heights))
    return float(np.min((depth * heights.size + lowest) / np.arange(1, heights.size + 1)))


def _image_shape(shape: Any, pixels: int) -> tuple[int, int]:
    if shape is None:
        side = isqrt(pixels)
        if side * side != pixels:
            raise ValueError(
                f"shape must be given where images are not square, got {pixels} features: shape=(height, width)"
            )
        return side, side
    try:
        height, width = (whole("shape", int(side)) for side in shape)
    except (TypeError, ValueError):
        raise ValueError(f"shape must be (height, width), two integers ≥ 1, got {shape!r}") from None
    if height * width != pixels:
        raise ValueError(f"shape must have {pixels} pixels, one for each feature, got {shape!r} with {height * width}")
    return height, width


def _rows_of_vectors(estimator: Any) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """(row of each vector, or −1 if it is for no class; size of its coefficient; names of the rows)."""
    coef = np.atleast_2d(np.asarray(estimator.dual_coef_))
    sizes = np.abs(coef).max(axis=0, initial=0.0)
    if not hasattr(estimator, "classes_"):
        return (coef[0] < 0).astype(int), sizes, ["raise", "lower"]
    classes = np.asarray(estimator.classes_)
    names = [str(label) for label in classes.tolist()]
    if coef.shape[0] == 1:
        return (coef[0] > 0).astype(int), sizes, names
    if coef.shape[0] == classes.size - 1:  # one against one: vectors are sorted by class
        return np.repeat(np.arange(classes.size), estimator.n_support_), sizes, names
    return np.where(coef.max(axis=0) > 0.0, coef.argmax(axis=0), -1), sizes, names


def _cost(estimator: Any, X: Any, y: np.ndarray, chosen: np.ndarray, column: str) -> float:
    """The last entry of a column of the history of a fit to some rows."""
    from sklearn.base import clone

    history = _history(clone(estimator).fit(_take(X, chosen), y[chosen]), "scaling_curve")
    if column not in history.columns:
        name = type(estimator).__name__
        raise ValueError(f"column must be one of the history of {name}, {', '.join(history.columns)}, got {column!r}")
    return history.last(column)


def _along(estimator: Any, X: Any, y: np.ndarray, part: int, measure: str) -> list[tuple[int, float]]:
    """(examples seen, measure) of a copy of the estimator after each part of a stream."""
    from sklearn.base import clone

    model, points, first = clone(estimator), [], {"classes": np.unique(y)}
    for start in range(0, y.size, part):
        end = min(start + part, y.size)
        own, labels = _take(X, slice(start, end)), y[start:end]
        if measure == "error" and start > 0:
            points.append((end, float(np.mean(np.asarray(model.predict(own)) != labels))))
        model.partial_fit(own, labels, **(first if start == 0 else {}))
        if measure == "gap":
            points.append((end, float(model.duality_gap())))
    return points
