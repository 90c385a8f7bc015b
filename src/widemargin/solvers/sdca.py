"""SDCA: stochastic dual coordinate ascent for linear SVMs.

Problem, with the conventions of :mod:`widemargin.problem` and C = 1/(λn); a regularised intercept is the weight of a
constant feature, which belongs to w and xᵢ in what follows. One output; several share the reads of the rows::

    P = λ (½‖w‖² + C Σ sᵢ ℓ(⟨w, xᵢ⟩, yᵢ))  ≥  D = λ (−C Σ sᵢ ℓ*(−αᵢ/(C sᵢ)) − ½‖w(α)‖²),     w(α) = Σ αᵢxᵢ.

αᵢ = −C sᵢ gᵢ for a slope gᵢ in the domain of ℓ*: for the hinge, yᵢαᵢ lies in [0, C sᵢ].

Update, for one example after another in a new random order each pass (Hsieh et al., Algorithm 1 and Sec. 3.2)::

    αᵢ ← argmax over α of  −C sᵢ ℓ*(−α/(C sᵢ)) − (α − αᵢ) zᵢ − ½ qᵢ (α − αᵢ)²,     zᵢ = ⟨w, xᵢ⟩,  qᵢ = ‖xᵢ‖²,

and w ← w + (change of αᵢ) xᵢ: O(non-zeros of the row). The maximum has a closed form for all losses but the log-loss,
where a safeguarded Newton iteration finds it (Yu, Huang and Lin).

Shrinking. A visit that leaves an example where it was (at a bound, or inside the tube of a regression loss) sends it to
rest for 1, 3, 7 … passes, at most 31, doubled at every further idle visit and forgotten at the first change. So
nothing is ever removed for good, and no threshold has to be right. Steps are visits, and an epoch is n of them,
whatever number of passes over the examples awake they make.

The common direction. Rows that are not centred share a direction u, a unit vector: the constant feature alone, or with
it the mean row. It adds mᵢ² with mᵢ = ⟨u, xᵢ⟩ to each qᵢ and so shortens every step, often several times, though no
example can move far along u alone: as one moves, the others answer. Since −½r² = min over v of ½v² − rv, the part of
w along u, r = ⟨u, w⟩ = Σ αᵢmᵢ, can be answered late. Visits see the scores

    zᵢ + θ(v − r) mᵢ   and the curvature   qᵢ − θ(1 − η) mᵢ²,      then   v ← v + η (r − v),

with θ = 0.95 and η = 4/n. At rest v = r, so the optimum is the same; with η = 1 it is plain coordinate ascent. The
share
1 − θ that is answered at once damps the swing of v about r. Late answers give up the ascent of D at every single
visit; D is looked at once an epoch, and where it has fallen η grows fourfold, so that a problem which this does not
suit
ends with plain ascent.

What is output. Each visit leaves one example satisfied and the rest a little less so, and the primal value feels that
noise more than D does. Where features are fewer than examples, the weights are therefore the mean over the last
completed
pass and the current one of w + θ(v − r)u, sampled every few visits; else they are those of now.

Threads. Each of K threads visits every K-th example of a pass with its own copy of w, on which its changes act σ-fold,
and copies are merged to w + Σ changes several times a pass: Jaggi et al.'s and Ma et al.'s CoCoA with adding, where
σ = K is safe and smaller values are faster on sparse rows; a dual value that falls takes σ towards K. What a
thread sees of u counts its own changes K-fold, in place of the others' that it cannot see. Nothing depends on timing.

C.-J. Hsieh, K.-W. Chang, C.-J. Lin, S. S. Keerthi, S. Sundararajan: A Dual Coordinate Descent Method for Large-scale
Linear SVM. ICML 2008. S. Shalev-Shwartz, T. Zhang: Stochastic Dual Coordinate Ascent Methods for Regularized Loss
Minimization. JMLR 14 (2013). H.-F. Yu, F.-L. Huang, C.-J. Lin: Dual Coordinate Descent Methods for Logistic Regression
and Maximum Entropy Models. Machine Learning 85 (2011). M. Jaggi et al.: Communication-Efficient Distributed Dual
Coordinate Ascent. NIPS 2014. C. Ma et al.: Adding vs. Averaging in Distributed Primal-Dual Optimization. ICML 2015.
"""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from ..core import losses
from ..core.dispatch import borrow, compiled, flat, generic
from ..core.losses import EpsilonInsensitive, Hinge, Log, SquaredEpsilon, SquaredHinge
from ..core.rows import borrowed, prefetch_rows, row_add, row_norm2, row_scores, row_size, touch
from ..core.shuffling import shuffle
from ..history import Counters
from ..models import LinearModel
from ..problem import Certificate, Problem, sum_of_squares
from ..running import Solver

#: Share of the common direction that is answered late.
THETA = 0.95
#: v follows r within about a quarter of an epoch: η = RATE/n.
RATE = 4.0
#: Most passes an example rests.
LONGEST_REST = 31
#: One visit in this many (a power of two) enters the running estimate of the gap.
SAMPLED = 8
#: Rows whose mean is the common direction.
MEAN_ROWS = 4096
#: Weights of float32 data are kept in float64 up to this many bytes; beyond, the cache holds twice as many in float32.
WIDE_WEIGHTS = 2**20
#: float32 weights are computed anew from α once in this many passes.
REFRESH = 64
#: Merges of the threads' copies in a pass.
MERGES = 2
#: A curvature of zero, that of a row of zeros, is taken for this: the step then runs to the bound.
FLAT = 1e-100

# ---------------------------------------------------------------- one coordinate


@generic
def dual_step(loss, a, z, y, q, cap):
    """argmax over α of −cap ℓ*(−α/cap) − (α − a) z − ½ q (α − a)²: the new value of a dual variable a; cap = C sᵢ."""


@dual_step.case(Hinge)
def _(loss, a, z, y, q, cap):
    return y * min(max(y * a + (1.0 - y * z) / q, 0.0), cap)


@dual_step.case(SquaredHinge)
def _(loss, a, z, y, q, cap):
    flatness = 0.5 / cap
    return y * max(y * a + (1.0 - y * z - flatness * y * a) / (q + flatness), 0.0)


@dual_step.case(EpsilonInsensitive)
def _(loss, a, z, y, q, cap):
    free = a + (y - z) / q
    tube = loss.epsilon / q
    return min(max(min(max(0.0, free - tube), free + tube), -cap), cap)


@dual_step.case(SquaredEpsilon)
def _(loss, a, z, y, q, cap):
    pull = q * a + y - z
    return min(max(0.0, pull - loss.epsilon), pull + loss.epsilon) / (q + 0.5 / cap)


@dual_step.case(Log)
def _(loss, a, z, y, q, cap):
    # with ya = cap·p and p = 1/(1 + exp(−t)) the derivative vanishes where h(t) = t + offset + q·cap·p is zero;
    # h grows at a rate between 1 and 1 + q·cap/4, so Newton steps that stay in the bracket find it in a few rounds
    start = y * a
    offset = y * z - q * start
    low = -offset - q * cap
    high = -offset
    t = -y * z
    if 0.0 < start < cap:
        t = math.log(start / (cap - start))
    t = min(max(t, low), high)
    p = 0.5
    for _ in range(100):
        if t > 0.0:
            p = 1.0 / (1.0 + math.exp(-t))
        else:
            e = math.exp(t)
            p = e / (1.0 + e)
        h = t + offset + q * cap * p
        if h > 0.0:
            high = t
        else:
            low = t
        newton = t - h / (1.0 + q * cap * p * (1.0 - p))
        if not low <= newton <= high:
            newton = 0.5 * (low + high)
        moved = abs(newton - t)
        t = newton
        if moved <= 1e-9 * (1.0 + abs(t)):
            break
    # the last round moved t by next to nothing, and p with it
    return y * cap * p


# ---------------------------------------------------------------- the compiled loops


class Examples(NamedTuple):
    """What belongs to the examples.

    ``alpha`` (n × outputs) are the dual variables; q = ‖xᵢ‖² and m = ⟨u, xᵢ⟩ are filled at the first visit and q is
    −1 before; an idle example rests for ``rest`` passes, ``wait`` of them still to come.
    """

    alpha: np.ndarray
    q: np.ndarray
    m: np.ndarray
    rest: np.ndarray
    wait: np.ndarray


class Weights(NamedTuple):
    """Weights as K threads see them, one copy each along the first axis.

    W (K × d × outputs) and b are w with the thread's own changes since the last merge σ-fold; r is its own change of
    ⟨u, w⟩ since then, as it is; v is the late answer.
    """

    W: np.ndarray
    b: np.ndarray
    r: np.ndarray
    v: np.ndarray


class Merged(NamedTuple):
    """W, b and r = ⟨u, w⟩ at the last merge; W is empty for one thread, which has nothing to merge."""

    W: np.ndarray
    b: np.ndarray
    r: np.ndarray


class Sums(NamedTuple):
    """Sums of W, b and v − r over ``taken[0]`` samples; W is empty where weights are not averaged."""

    W: np.ndarray
    b: np.ndarray
    lag: np.ndarray
    taken: np.ndarray


class Rule(NamedTuple):
    """What shapes a visit: C, the squared constant feature, ⟨u, constant feature⟩, θ, σ, K, visits between samples."""

    C: float
    constant: float
    along: float
    theta: float
    sigma: float
    threads: int
    stride: int


@compiled
def visit(X, target, y, s, order, t, rule, examples, U, w, r0, eta, sums, z, g):
    """Visit the examples listed in ``order``, changing examples, w and sums in place; t visits were made before.

    U (d × 1) is u without its constant feature, or empty. z and g (outputs) are working space. Returns (visits that
    changed something, entries of X read, a sample of the gap in units of λ).
    """
    X, y, s, order, U = borrowed(X), borrow(y), borrow(s), borrow(order), borrow(U)
    alpha, q, m = flat(examples.alpha), borrow(examples.q), borrow(examples.m)
    rest, wait = borrow(examples.rest), borrow(examples.wait)
    W, b, r, v = borrow(w.W), borrow(w.b), borrow(w.r), borrow(w.v)
    r0, eta, z, g = borrow(r0), borrow(eta), borrow(z), borrow(g)
    outputs = losses.output_count(target, z)
    loss = losses.output_loss(target)
    updates, reads, gap = 0, 0, 0.0
    until_sample = rule.stride - t % max(rule.stride, 1)
    for p in range(order.size):
        prefetch_rows(X, order, p, order.size)
        touch(y, s, order, p, order.size)
        touch(q, m, order, p, order.size)
        i = order[p]
        reads += row_size(X, i)
        if q[i] < 0.0:
            q[i] = row_norm2(X, i) + rule.constant
            m[i] = rule.along
            if U.shape[0]:
                row_scores(X, i, U, z)
                m[i] += z[0]
        row_scores(X, i, W, z)
        weight = rule.C * s[i] if s.size else rule.C
        moved = False
        for c in range(outputs):
            cap = weight * losses.output_weight(target, y[i], c)
            label = losses.output_label(target, y[i], c)
            own = r[c]
            # ⟨u, w⟩ as the step sees it, less what W and b have of it
            lag = rule.theta * v[c] + (1.0 - rule.theta) * (r0[c] + rule.threads * own) - r0[c] - rule.sigma * own
            score = z[c] + b[c] + lag * m[i]
            along2 = m[i] * m[i]
            late = rule.threads * (1.0 - rule.theta * (1.0 - eta[c]))
            curvature = max(rule.sigma * (q[i] - along2) + late * along2, FLAT)
            before = alpha[i * outputs + c]
            after = 0.0
            if cap > 0.0:
                after = dual_step(loss, before, score, label, curvature, cap)
                if (t + p) & (SAMPLED - 1) == 0:
                    gap += cap * (losses.value(loss, score, label) + losses.conjugate(loss, -before / cap, label))
                    gap += before * score
            change = after - before
            g[c] = rule.sigma * change
            if change != 0.0:
                moved = True
                alpha[i * outputs + c] = after
                b[c] += rule.constant * g[c]
                r[c] += change * m[i]
            v[c] += rule.threads * eta[c] * (r0[c] + rule.threads * r[c] - v[c])
        if moved:
            row_add(X, i, g, W)
            updates += 1
            rest[i] = 0
        else:
            rest[i] = min(2 * rest[i] + 1, LONGEST_REST)
            wait[i] = rest[i]
        until_sample -= 1
        if until_sample == 0:
            until_sample = rule.stride
            total, weights = flat(sums.W), flat(W)
            for j in range(weights.size):
                total[j] += weights[j]
            for c in range(outputs):
                sums.b[c] += b[c]
                sums.lag[c] += rule.theta * (v[c] - r0[c] - r[c])
            sums.taken[0] += 1.0
    return updates, reads, gap


@compiled
def list_awake(wait, order):
    """order[:k] ← the k examples that wait no more; the others wait one pass less."""
    wait, order = borrow(wait), borrow(order)
    k = 0
    for i in range(wait.size):
        order[k] = i
        if wait[i] == 0:
            k += 1
        else:
            wait[i] -= 1
    return k


@compiled
def merge(W, base, sigma, low, high):
    """base[low:high] and every copy of it in W (threads × size) ← base + Σ (W[k] − base)/σ."""
    W, base = borrow(W), borrow(base)
    threads = W.shape[0]
    share = base.dtype.type(1.0 / sigma)
    kept = base.dtype.type(1.0 - threads / sigma)
    for start in range(low, high, 1024):
        end = min(start + 1024, high)
        for j in range(start, end):
            base[j] *= kept
        for k in range(threads):
            for j in range(start, end):
                base[j] += share * W[k, j]
        for k in range(threads):
            for j in range(start, end):
                W[k, j] = base[j]


@compiled
def combine(X, alpha, g, W):
    """W += Σ xᵢαᵢᵀ for α of shape (n, outputs); returns the entries of X read."""
    X, alpha, g, W = borrowed(X), borrow(alpha), borrow(g), borrow(W)
    reads = 0
    for i in range(alpha.shape[0]):
        some = False
        for c in range(g.size):
            g[c] = alpha[i, c]
            some = some or g[c] != 0.0
        if some:
            reads += row_size(X, i)
            row_add(X, i, g, W)
    return reads


@compiled
def add_rows(X, n, step, g, U):
    """U += g Σ xᵢ over i = 0, step, 2 step … < n; returns the entries of X read."""
    X, g, U = borrowed(X), borrow(g), borrow(U)
    reads = 0
    for i in range(0, n, step):
        reads += row_size(X, i)
        row_add(X, i, g, U)
    return reads


@compiled
def fit_box(target, y, s, C, old_C, alpha):
    """Take α from the box of old_C to that of C, in place: what stood at a bound stands at the new one."""
    loss = losses.output_loss(target)
    for i in range(alpha.shape[0]):
        for c in range(alpha.shape[1]):
            cap = losses.output_weight(target, y[i], c) * (s[i] if s.size else 1.0)
            label = losses.output_label(target, y[i], c)
            alpha[i, c] = boxed(loss, alpha[i, c], label, cap * C, cap * old_C)


@generic
def boxed(loss, a, y, cap, old_cap):
    """a in the domain of the conjugate for ``cap``; an a at the bound old_cap goes to the bound."""


@boxed.case(Hinge)
def _(loss, a, y, cap, old_cap):
    if y * a >= old_cap:
        return y * cap
    return y * min(max(y * a, 0.0), cap)


@boxed.case(SquaredHinge)
def _(loss, a, y, cap, old_cap):
    if cap > 0.0:
        return y * max(y * a, 0.0)
    return 0.0


@boxed.case(Log)
def _(loss, a, y, cap, old_cap):
    if old_cap > 0.0:
        return y * min(max(y * a * cap / old_cap, 0.0), cap)
    return 0.0


@boxed.case(EpsilonInsensitive)
def _(loss, a, y, cap, old_cap):
    if abs(a) >= old_cap:
        return math.copysign(cap, a) if a != 0.0 else 0.0
    return min(max(a, -cap), cap)


@boxed.case(SquaredEpsilon)
def _(loss, a, y, cap, old_cap):
    if cap > 0.0:
        return a
    return 0.0


@compiled
def add_conjugates(target, y, s, C, alpha, out):
    """out[c] −= Σ C sᵢ ℓ*(−αᵢ/(C sᵢ))."""
    y, s, alpha, out = borrow(y), borrow(s), borrow(alpha), borrow(out)
    loss = losses.output_loss(target)
    for i in range(alpha.shape[0]):
        weight = C * s[i] if s.size else C
        for c in range(out.size):
            cap = weight * losses.output_weight(target, y[i], c)
            if cap > 0.0:
                out[c] -= cap * losses.conjugate(loss, -alpha[i, c] / cap, losses.output_label(target, y[i], c))


# ---------------------------------------------------------------- state and solver


@dataclass
class State:
    """All that a run of SDCA knows; see :class:`Examples`, :class:`Weights`, :class:`Merged` and :class:`Sums`.

    Attributes
    ----------
    C : the box that α lives in
    U, along, theta : the common direction without and on its constant feature; θ, zero if there is none
    eta : η of each output
    sigma : how far a thread's changes act on its own copy
    order, awake, position : the examples of this pass, how many, and how many of them were visited
    passes : completed passes
    dual, checked : −Σ … ℓ* − ½‖w‖² of each output when last looked at, and the visits made by then
    gap_sample, gap : Σ over this pass's sampled visits, and an estimate of (P − D)/λ from the last pass
    """

    examples: Examples
    w: Weights
    merged: Merged
    sums: Sums
    previous: Sums
    C: float
    U: np.ndarray
    along: float
    theta: float
    eta: np.ndarray
    sigma: float
    order: np.ndarray
    rng: np.random.Generator
    awake: int = 0
    position: int = 0
    passes: int = 0
    dual: np.ndarray = field(default_factory=lambda: np.empty(0))
    checked: int = 0
    gap_sample: float = 0.0
    gap: float = math.inf
    counters: Counters = field(default_factory=Counters)

    @property
    def alpha(self) -> np.ndarray:
        """The dual variables, of shape (n, outputs)."""
        return self.examples.alpha


@dataclass
class SDCA(Solver):
    """Stochastic dual coordinate ascent: exact steps in one dual variable at a time, and a duality gap.

    Parameters
    ----------
    shrinking : bool
        Let examples rest whose visits change nothing.
    lag : bool
        Answer changes along the direction that all rows share late; ``False`` is plain ascent.
    n_jobs : int
        Threads. They pay on wide sparse data; where there are no more features than examples, one is used.

    Notes
    -----
    ``SDCA(shrinking=False, lag=False)`` is Algorithm 1 of Hsieh et al. with random permutations: the dual value never
    falls. Losses: hinge, squared hinge, log, (squared) ε-insensitive; intercepts: "regularized" and "none".
    """

    shrinking: bool = True
    lag: bool = True
    n_jobs: int = 1

    needs = ("rows", "conjugate")

    def check(self, problem: Problem) -> None:
        """Refuse what this method cannot do, in one sentence each."""
        if not isinstance(problem, Problem) or problem.is_joint:
            raise ValueError(
                "SDCA moves the dual variables of separate outputs and the loss ties them: "
                "use multi_class='ovr', or the solver 'pegasos'"
            )
        if problem.intercept not in ("none", "regularized"):
            raise ValueError(
                f"SDCA has the intercepts 'regularized' and 'none', got {problem.intercept!r}: "
                "use one of them, or the solver 'pegasos'"
            )
        if isinstance(self.n_jobs, bool) or not isinstance(self.n_jobs, (int, np.integer)) or self.n_jobs < 1:
            raise ValueError(f"n_jobs must be an integer ≥ 1, got {self.n_jobs!r}")
        for name in ("shrinking", "lag"):
            if not isinstance(getattr(self, name), (bool, np.bool_)):
                raise TypeError(f"{name} must be True or False, got {getattr(self, name)!r}")

    def steps_per_epoch(self, problem: Problem) -> int:
        """n visits."""
        return problem.n

    # -- starting

    def init(self, problem: Problem, rng: np.random.Generator, alpha: np.ndarray | None = None) -> State:
        """The state before the first visit: α = 0, or the α given, clipped into the box.

        ``alpha`` has shape (n, n_outputs) or (n,), signs as in w = Σ αᵢxᵢ.
        """
        self.check(problem)
        n, d, outputs = problem.n, problem.d, problem.n_outputs
        threads = int(self.n_jobs) if d > n else 1
        dtype = problem.dtype if 8 * d * outputs * threads > WIDE_WEIGHTS else np.dtype(np.float64)
        averaged = d if d <= n else 0
        state = State(
            examples=Examples(
                np.zeros((n, outputs)), np.full(n, -1.0), np.zeros(n), np.zeros(n, np.uint8), np.zeros(n, np.uint8)
            ),
            w=Weights(np.zeros((threads, d, outputs), dtype), *(np.zeros((threads, outputs)) for _ in range(3))),
            merged=Merged(np.zeros((d if threads > 1 else 0, outputs), dtype), np.zeros(outputs), np.zeros(outputs)),
            sums=Sums(np.zeros((averaged, outputs)), np.zeros(outputs), np.zeros(outputs), np.zeros(1)),
            previous=Sums(np.zeros((averaged, outputs)), np.zeros(outputs), np.zeros(outputs), np.zeros(1)),
            C=problem.C,
            U=np.empty((0, 1), dtype),
            along=0.0,
            theta=0.0,
            eta=np.ones(outputs),
            sigma=(threads + 2.0) / 3.0,
            order=np.empty(n, np.int32 if n < 2**31 else np.int64),
            rng=rng,
        )
        if alpha is not None:
            alpha = np.asarray(alpha, np.float64).reshape(n, -1)
            if alpha.shape[1] != outputs or not np.isfinite(alpha).all():
                raise ValueError(f"alpha must be finite and of shape ({n}, {outputs}), got shape {alpha.shape}")
            state.alpha[:] = alpha
        self.bind(problem, state)
        return state

    def bind(self, problem: Problem, state: State, in_order: bool = False) -> None:
        """Point a state at a problem with as many examples, perhaps of another λ: α is kept and w computed from it.

        α moves into the new box; what stood at the bound C sᵢ of the old one stands at the bound of the new one.
        """
        shape, known = (problem.n, problem.d, problem.n_outputs), (len(state.alpha), *state.w.W.shape[1:])
        if in_order or shape != known:
            raise ValueError(
                f"SDCA keeps a dual variable for each example and goes on with the same ones only: the state has "
                f"{known} (examples, features, outputs), the data {shape}; fit anew, or use the solver 'pegasos'"
            )
        fit_box(problem.target, problem.y, problem.sample_weight, problem.C, state.C, state.alpha)
        state.C = problem.C
        state.examples.q[:] = -1.0
        for part in (state.examples.rest, state.examples.wait, *state.sums, *state.previous):
            part[:] = 0
        self._find_common_direction(problem, state)
        state.eta[:] = min(1.0, RATE / problem.n) if state.theta else 1.0
        state.awake = state.position = 0
        state.gap_sample, state.gap, state.dual = 0.0, math.inf, np.full(problem.n_outputs, -math.inf)
        state.checked = state.counters.visits
        self._refresh(problem, state)
        state.w.v[:] = state.merged.r + state.w.r.sum(axis=0)

    def _find_common_direction(self, problem: Problem, state: State) -> None:
        """Set u to the direction of the mean row and the constant feature, or of the latter alone."""
        constant = float(problem.intercept == "regularized")
        n, d = problem.n, problem.d
        mean = np.zeros((d if self.lag and d <= n else 0, 1), state.w.W.dtype)
        if mean.size:
            step = -(-n // MEAN_ROWS)
            share = np.full(1, 1.0 / len(range(0, n, step)))
            state.counters.feature_reads += int(add_rows(problem.X, n, step, share, mean))
        length = math.sqrt(sum_of_squares(mean) + constant)
        state.theta = THETA if self.lag and length > 0.0 else 0.0
        state.U = mean / mean.dtype.type(length) if state.theta else mean[:0]
        state.along = constant / length if state.theta else 0.0

    def _refresh(self, problem: Problem, state: State) -> None:
        """w ← w(α), for all threads."""
        W, b = self._combined(problem, state)
        state.w.W[:] = W
        state.w.b[:] = b
        state.w.r[:] = 0.0
        if state.merged.W.size:
            state.merged.W[:] = W
        state.merged.b[:] = b
        state.merged.r[:] = state.along * b
        if state.U.size:
            state.merged.r[:] += state.U[:, 0].astype(np.float64) @ W

    def _combined(self, problem: Problem, state: State) -> tuple[np.ndarray, np.ndarray]:
        """(W, b) = Σ αᵢ(xᵢ, 1), in float64."""
        W = np.zeros(state.w.W.shape[1:])
        state.counters.feature_reads += int(combine(problem.X, state.alpha, np.empty(problem.n_outputs), W))
        b = state.alpha.sum(axis=0) if problem.intercept == "regularized" else np.zeros(problem.n_outputs)
        return W, b

    # -- stepping

    def advance(self, problem: Problem, state: State, n_steps: int) -> None:
        """Make n_steps visits, in place. advance(a) then advance(b) is advance(a + b), bit for bit."""
        if n_steps == 0:
            self._visit(problem, state, 0, state.order[:0])
        while n_steps > 0:
            if state.position == state.awake:
                self._next_pass(problem, state)
            count = min(n_steps, self._segment_end(state) - state.position)
            self._visit_all(problem, state, state.order[state.position : state.position + count])
            state.position += count
            n_steps -= count
            if len(state.w.W) > 1 and state.position == self._segment_end(state, state.position - 1):
                self._merge(state)
            if state.position == state.awake:
                self._end_pass(problem, state)

    def _segment_end(self, state: State, position: int | None = None) -> int:
        """The place of the order at which the threads' copies are merged next."""
        if len(state.w.W) == 1:
            return state.awake
        length = -(-state.awake // MERGES)
        position = state.position if position is None else position
        return min(state.awake, (position // length + 1) * length)

    def _visit_all(self, problem: Problem, state: State, order: np.ndarray) -> None:
        """Visit the examples of a slice of the order, each thread those at its places."""
        threads = len(state.w.W)
        if threads == 1:
            results = [self._visit(problem, state, 0, order)]
        else:
            parts = [np.ascontiguousarray(order[(k - state.position) % threads :: threads]) for k in range(threads)]
            with ThreadPoolExecutor(threads - 1) as pool:
                others = [pool.submit(self._visit, problem, state, k, parts[k]) for k in range(1, threads)]
                results = [self._visit(problem, state, 0, parts[0]), *(other.result() for other in others)]
        counters = state.counters
        counters.steps += order.size
        counters.visits += order.size
        for updates, reads, gap in results:
            counters.updates += int(updates)
            counters.feature_reads += int(reads)
            state.gap_sample += gap

    def _visit(self, problem: Problem, state: State, thread: int, order: np.ndarray) -> tuple[int, int, float]:
        outputs = problem.n_outputs
        constant = float(problem.intercept == "regularized")
        stride = max(8, problem.d // 4) if state.sums.W.size else 0
        rule = Rule(problem.C, constant, state.along, state.theta, state.sigma, len(state.w.W), stride)
        w = Weights(*(part[thread] for part in state.w))
        return visit(
            problem.X, problem.target, problem.y, problem.sample_weight, order, state.counters.visits, rule,
            state.examples, state.U, w, state.merged.r, state.eta, state.sums, np.empty(outputs), np.empty(outputs),
        )  # fmt: skip

    def _merge(self, state: State) -> None:
        """Bring the threads' copies together, in place."""
        w, merged, threads = state.w, state.merged, len(state.w.W)
        copies, base = w.W.reshape(threads, -1), merged.W.reshape(-1)
        cuts = [base.size * k // threads for k in range(threads + 1)]
        with ThreadPoolExecutor(threads - 1) as pool:
            others = [pool.submit(merge, copies, base, state.sigma, cuts[k], cuts[k + 1]) for k in range(1, threads)]
            merge(copies, base, state.sigma, cuts[0], cuts[1])
            for other in others:
                other.result()
        merged.b[:] += (w.b - merged.b).sum(axis=0) / state.sigma
        w.b[:] = merged.b
        merged.r[:] += w.r.sum(axis=0)
        w.r[:] = 0.0
        w.v[:] = w.v.mean(axis=0)

    def _next_pass(self, problem: Problem, state: State) -> None:
        """List the examples awake, in a new order."""
        if not self.shrinking:
            state.examples.wait[:] = 0
        state.awake = 0
        while state.awake == 0:  # all may rest: then passes without visits go by
            state.awake = int(list_awake(state.examples.wait, state.order))
        state.position = 0
        shuffle(state.order[: state.awake], state.rng)

    def _end_pass(self, problem: Problem, state: State) -> None:
        """Close a pass: its mean becomes the previous one, its gap is known, and once an epoch D is looked at."""
        state.passes += 1
        for old, new in zip(state.previous, state.sums, strict=True):
            old[:] = new
            new[:] = 0.0
        state.gap, state.gap_sample = SAMPLED * state.gap_sample, 0.0
        if state.w.W.dtype == np.float32 and state.passes % REFRESH == 0:
            self._refresh(problem, state)
        if state.counters.visits - state.checked >= problem.n:
            state.checked = state.counters.visits
            dual = self._dual(problem, state, state.w.W[0], state.w.b[0])
            fell = dual < state.dual
            state.eta[fell] = np.minimum(1.0, 4.0 * state.eta[fell])
            if fell.any():
                state.sigma = min(len(state.w.W), 1.25 * state.sigma)
            state.dual = dual

    def _dual(self, problem: Problem, state: State, W: np.ndarray, b: np.ndarray) -> np.ndarray:
        """D/λ of each output for weights w(α)."""
        out = np.zeros(problem.n_outputs)
        add_conjugates(problem.target, problem.y, problem.sample_weight, problem.C, state.alpha, out)
        return out - 0.5 * (np.array([sum_of_squares(W[:, c]) for c in range(problem.n_outputs)]) + b**2)

    # -- output

    def weights(self, problem: Problem, state: State) -> tuple[np.ndarray, np.ndarray]:
        """(W, b) that the solver stands for now: of shape (d, n_outputs) and (n_outputs,)."""
        count = state.sums.taken[0] + state.previous.taken[0]
        if count > 0.0:
            W, b, lag = ((new + old) / count for new, old in zip(state.sums[:3], state.previous[:3], strict=True))
        else:
            w, merged = state.w, state.merged
            W, b = w.W[0].astype(np.float64), w.b[0].copy()
            if len(w.W) > 1:
                W = merged.W + (w.W - merged.W).sum(axis=0, dtype=np.float64) / state.sigma
                b = merged.b + (w.b - merged.b).sum(axis=0) / state.sigma
            lag = state.theta * (w.v.mean(axis=0) - merged.r - w.r.sum(axis=0))
        if state.U.size:
            W = W + state.U * lag
        return W.astype(problem.dtype), b + state.along * lag

    def model(self, problem: Problem, state: State) -> LinearModel:
        """A finished copy."""
        W, b = self.weights(problem, state)
        return LinearModel(W.T, b)

    def gap_estimate(self, problem: Problem, state: State) -> float:
        """The relative gap as the last pass saw it, at no cost: for deciding when a certificate is worth its pass.

        It takes each score at the moment of its visit, and so overstates the gap of the averaged weights.
        """
        dual = float(state.dual.sum())
        return state.gap / (state.gap + dual) if math.isfinite(state.gap) and state.gap + dual > 0.0 else math.inf

    def evaluate(self, problem: Problem, state: State, model: LinearModel) -> dict[str, float]:
        """Objective and gap of the current point."""
        certificate = self.certificate(problem, state)
        return {"objective": certificate.primal, "gap": certificate.gap}

    def certificate(self, problem: Problem, state: State) -> Certificate:
        """Primal value of the weights, dual value of α itself, and their difference."""
        reads = state.counters.feature_reads
        dual = problem.lam * float(self._dual(problem, state, *self._combined(problem, state)).sum())
        state.counters.feature_reads = reads  # an evaluation is no part of the training
        primal = problem.primal(*self.weights(problem, state))
        return Certificate(primal, dual, primal - dual)
