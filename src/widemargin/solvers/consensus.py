"""Consensus ADMM with SDCA inside: exact linear machines over examples in parts, for data with many features.

Problem, in the C-form, with parts k = 1 … K of the examples and one copy wₖ of the weights for each::

    min  ½‖z‖² + ½v² + C Σₖ Σ_{i in k} sᵢ ℓ(⟨wₖ, xᵢ⟩ + v, yᵢ)      so that all wₖ = z;   v is the regularised intercept.

Given: a :class:`widemargin.problems.parts.PartsProblem`.

State (:class:`ConsensusState`): z, v, c = Σ βᵢxᵢ, r = Σ βᵢ, ρ and the inertia of v; the parts keep their β and uₖ.

Step: a round (Boyd et al., Sec. 7.1 and 3.4.3), with scaled multipliers uₖ::

    wₖ ← argmin over w of  ρ/2 ‖w − (z − uₖ)‖² + C Σ sᵢ ℓ(⟨w, xᵢ⟩ + v, yᵢ)
    ŵₖ = θwₖ + (1 − θ)z,      z ← (ρ/(1 + Kρ)) Σ (ŵₖ + uₖ),      uₖ ← uₖ + ŵₖ − z.

The dual variables of a part's problem are the β of its examples: wₖ = z − uₖ + cₖ/ρ with cₖ = Σ βᵢxᵢ. So the part's
problem is a problem of SDCA with the box C/ρ and other first weights, and SDCA's loop makes some passes over the part,
from the β of the round before. Since Σ uₖ = z/ρ after every round, z follows from c = Σ cₖ alone::

    z ← (Kρz + (1 − θ)z + θc)/(1 + Kρ),

and a part sends cₖ and a few sums. All β are in their boxes at all times: with w(β) = c and r = Σ βᵢ their dual value
is a dual value of the whole problem, and P(z, v) less the dual value is a true gap. With θ = 1 and ρ = 1/K a round is
one of CoCoA+.

Cost of a round: ``passes`` + 1 passes over the examples, and K messages of the weights each way.

What differs from the papers, and why:

The intercept has no copies. Each part alone would answer a change of v by moving all its β, against the other parts:
copies of v would agree only after as many rounds as a part has examples. Since −½r² = min over v of ½v² − rv, v moves
towards r(v) by (r − v)/(1 + m) in each round, because r falls as v grows, at a rate that only shows later. The inertia
m doubles where r − v changed its sign, and falls by a tenth elsewhere. The first m is a quarter of the change of r by
the free β, each on its own, for a unit of v.

ρ grows where the copies disagree more than z moves, and falls where they disagree less (Boyd et al., Sec. 3.4.1). The
changes of ρ and m fade with the rounds. Without fading, a quarter of all runs over eight small parts cycled for ever.

S. Boyd, N. Parikh, E. Chu, B. Peleato, J. Eckstein: Distributed Optimization and Statistical Learning via the
Alternating Direction Method of Multipliers. Foundations and Trends in Machine Learning 3 (2011). C. Ma et al.: Adding
vs. Averaging in Distributed Primal-Dual Optimization. ICML 2015.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Annotated, Any

import numpy as np

from ..core.losses import losses
from ..files import savable
from ..history import Counters
from ..models import LinearModel
from ..problems.linear import Problem
from ..problems.objective import Certificate, sum_of_squares
from ..schemas import Array, Each, Row, blank
from . import sdca
from .parts import HeldByParts
from .protocol import Capabilities, Solver

# Measured by `python -m benchmarks.micro.consensus`.
FACTOR = 1.5  # ρ is multiplied or divided by this factor in a round
UNLIKE = 2.0  # ratio of the two residuals from which ρ changes
START = 1.0  # the first ρ
FIRST = 0.25  # the first inertia of the intercept, in units of the change of r by the free β for a unit of v
HEAVIER, LIGHTER = 2.0, 0.9  # factors of the inertia where r − v changed its sign, and elsewhere
LEAST, MOST = 1.0 / 64.0, 64.0  # bounds of the inertia, in units of the same change
LASTING = 32.0  # rounds after which changes of ρ and of the inertia have faded to their square roots
LONGEST = 0.25  # share of the targets' size by which the intercept moves at most in a round


class Part:
    """Some of the examples, their dual variables β, and uₖ + ŵₖ.

    Replies depend on messages and :meth:`state` alone, so a part that was lost can be made again.
    """

    def __init__(self, problem: Problem, number: int, C: float, seed: int) -> None:
        self.problem, self.number, self.C, self.seed = problem, number, C, seed
        n, outputs = problem.n, problem.n_outputs
        self.beta = np.zeros((n, outputs))
        self.sum = np.zeros((problem.d, outputs))
        self.q = np.full(n, -1.0)
        self.combined: np.ndarray | None = None

    def state(self) -> dict[str, np.ndarray]:
        """The arrays that the part cannot compute from its examples."""
        return {"beta": self.beta.copy(), "sum": self.sum.copy()}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Go back to a :meth:`state`."""
        problem = self.problem
        KEPT.hold(state, "part", n=problem.n, d=problem.d, outputs=problem.n_outputs)
        self.beta, self.sum, self.combined = np.array(state["beta"]), np.array(state["sum"]), None

    def _combine(self) -> np.ndarray:
        """Σ βᵢxᵢ, of shape (d, outputs)."""
        if self.combined is None:
            self.combined, _ = sdca.combination(self.problem, self.beta)
        return self.combined

    def round(self, z: np.ndarray, v: np.ndarray, rho: np.ndarray, theta: float, number: int, passes: int) -> tuple:
        """(cₖ, Σ β, ‖wₖ‖², the fall of Σ β for each unit of v by the free β alone, visits that changed a variable).

        ``rho`` is (ρ, the one before).
        """
        new, old = rho.tolist()
        u = (self.sum - z) * (old / new)
        centre = z - u
        w = centre + self._combine() / new
        changed = self._solve(w, v, 1.0 / new, np.random.default_rng([self.seed, number, self.number]), passes)
        self.combined = None
        combined = self._combine()
        w = centre + combined / new
        self.sum = theta * w + (1.0 - theta) * z + u
        free = (self.beta != 0.0) & (np.abs(self.beta) < self.C * self._caps() * (1.0 - 1e-9))
        slope = new * (free / np.maximum(self.q, sdca.FLAT)[:, None]).sum(axis=0)
        return combined, self.beta.sum(axis=0), sum_of_squares(w), slope, changed

    def _caps(self) -> np.ndarray:
        """The bounds of |β| over C, of shape (n, outputs); infinite for losses without one."""
        problem = self.problem
        if problem.loss.smoothness < math.inf and problem.loss.lipschitz == math.inf:
            return np.full(self.beta.shape, math.inf)
        return np.stack([problem.binary_part(c)[2] for c in range(problem.n_outputs)], axis=1)

    def _solve(self, w: np.ndarray, v: np.ndarray, scale: float, rng: np.random.Generator, passes: int) -> int:
        """Some passes of SDCA over the part's problem, changing β and w in place; v stays where it is."""
        problem, outputs = self.problem, self.problem.n_outputs
        self.beta *= scale
        unused = np.zeros(problem.n, np.uint8)
        examples = sdca.Examples(self.beta, self.q, np.zeros(problem.n), unused, unused.copy())
        weights = sdca.Weights(w, v.copy(), *np.zeros((2, outputs)))
        sums = sdca.Sums(np.empty((0, outputs)), np.zeros(outputs), np.zeros(outputs), np.zeros(1))
        rule = sdca.SDCARule(scale * self.C, np.ones(outputs))
        data = sdca.Data(problem.X, problem.y, problem.sample_weight, np.empty((0, 1)))
        order, changed = np.arange(problem.n, dtype=np.int32), 0
        space = np.zeros((2, outputs))
        for _ in range(passes):
            rng.shuffle(order)
            course = sdca.Course(order, problem.n, 0, 0, np.uint64(0), False, problem.n, 0, problem.n)
            done = sdca.visit_passes(data, problem.target, course, rule, examples, weights, sums, sums, space)
            changed += int(done[1])
        self.beta /= scale
        # rounding may have left the box
        sdca.fit_box(problem.target, problem.y, problem.sample_weight, self.C, self.C, self.beta)
        return changed

    def measure(self, W: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(Σ sᵢ × loss at the weights, −Σ C sᵢ ℓ*(−βᵢ/(C sᵢ))) of each output."""
        loss, gain, _ = sdca.measures(self.problem, self.C, self.beta, W, b)
        return loss, gain


#: The arrays of a part.
KEPT = Row({"beta": Array("n", "outputs"), "sum": Array("d", "outputs")})


PerWeight = Annotated[np.ndarray, Array("d", "outputs")]
PerOutput = Annotated[np.ndarray, Array("outputs")]


@savable("Consensus.State", kept=Each(KEPT, alone=True))
@dataclass
class ConsensusState(HeldByParts):
    """All that a run knows beside the parts, which keep the β.

    Attributes
    ----------
    z, c : weights and Σ βᵢxᵢ, of shape (d, outputs)
    v, r : intercepts and Σ βᵢ, of each output
    rho : (ρ, ρ of the round before)
    mass, ahead : the inertia of v, and r − v in the round before
    """

    z: PerWeight
    c: PerWeight
    v: PerOutput
    r: PerOutput
    rho: Annotated[np.ndarray, Array(2)]
    mass: PerOutput
    ahead: PerOutput
    seed: int
    counters: Counters = field(default_factory=Counters)

    def live(self) -> Any:
        """The parts in the workspace."""
        return self.workspace[1]

    def parts(self, problem: Any) -> Any:
        """The parts of the run, made if there are none."""
        found = self.work(problem, lambda: self.made(problem.place, PartMaker(problem.C, self.seed)))
        vars(self).pop("kept", None)
        return found


@dataclass(frozen=True)
class PartMaker:
    """Makes a part of its problem, in whatever process the examples are."""

    C: float
    seed: int

    #: Whether the state of a part is complete between any two messages.
    complete = True

    def __call__(self, problem: Problem, number: int) -> Part:
        return Part(problem, number, self.C, self.seed)


@savable()
@dataclass
class ConsensusADMM(Solver):
    """Consensus ADMM over parts of the examples, with passes of SDCA inside.

    Parameters
    ----------
    passes : int
        Passes of SDCA over a part's examples in a round.
    relaxation : float
        θ, between 1 and 2; 1 is ADMM as it was.

    Notes
    -----
    Losses: all but the joint ones; intercepts: "regularized" and "none".
    """

    passes: int = 3
    relaxation: float = 1.6

    state_class = ConsensusState
    capabilities = Capabilities(aim="optimum", steady=True)

    def check(self, problem: Any) -> None:
        """Refuse what the solver cannot solve, in one sentence each."""
        if problem.is_joint:
            raise ValueError("consensus ADMM has separate outputs and this loss ties them: use multi_class='ovr'")
        if problem.intercept not in ("regularized", "none"):
            raise ValueError(
                f"consensus ADMM has the intercepts 'regularized' and 'none', got {problem.intercept!r}: use one of "
                "them, or the solver 'interior'"
            )
        if self.passes < 1 or not 1.0 <= self.relaxation < 2.0:
            raise ValueError(
                f"consensus ADMM needs passes ≥ 1 and 1 ≤ relaxation < 2, got {self.passes} and {self.relaxation}"
            )

    def first_slice(self, problem: Any) -> int:
        """One round."""
        return 1

    def steps_per_epoch(self, problem: Any) -> int:
        """An epoch is a round."""
        return 1

    def init(self, problem: Any, rng: np.random.Generator) -> ConsensusState:
        """The state before the first round: all zero."""
        self.check(problem)
        zeros: dict[str, Any] = blank(ConsensusState, self.sizes(problem))
        state = ConsensusState(**zeros, seed=int(rng.integers(2**63)))
        state.rho[:] = START
        return state

    def advance(self, problem: Any, state: ConsensusState, n_steps: int) -> int:
        """Make so many rounds, in place."""
        parts = state.parts(problem)
        for _ in range(n_steps):
            self._round(problem, state, parts)
        return n_steps

    def _round(self, problem: Any, state: ConsensusState, parts: Any) -> None:
        """One round, in place."""
        theta, number = self.relaxation, state.counters.steps
        K, rho, z = len(parts), float(state.rho[0]), state.z
        message = z, state.v, state.rho, theta, number, self.passes
        state.c, state.r, norms, alone, updates = parts.sums("round", *message)
        state.z = ((K * rho + 1.0 - theta) * z + theta * state.c) / (1.0 + K * rho)
        # Σ‖wₖ − z‖² by Σ wₖ = Kz − z/ρ + c/ρ
        copies = K * z + (state.c - z) / rho
        apart = norms - 2.0 * float(np.vdot(copies, state.z)) + K * sum_of_squares(state.z)
        moved = rho**2 * K * sum_of_squares(state.z - z)
        fade = LASTING / (LASTING + number)
        more = FACTOR if apart > UNLIKE**2 * moved else 1.0 / FACTOR if moved > UNLIKE**2 * apart else 1.0
        more **= fade
        state.rho = np.array([rho * more, rho])
        if problem.intercept == "regularized":
            self._move_intercept(state, alone, problem.scale, fade)
        counters = state.counters
        counters.steps += 1
        counters.visits += self.passes * problem.n
        counters.updates += updates
        counters.feature_reads += self.passes * problem.entries

    def _move_intercept(self, state: ConsensusState, alone: np.ndarray, scale: float, fade: float) -> None:
        """A step of v towards r(v), in place; ``alone`` is the fall of r by the free β alone, for a unit of v."""
        ahead = state.r - state.v
        factor = np.where(ahead * state.ahead < 0.0, HEAVIER, LIGHTER**fade)
        mass = np.where(state.mass > 0.0, state.mass * factor, FIRST * alone)
        state.mass, state.ahead = np.clip(mass, LEAST * alone, MOST * alone), ahead
        state.v = state.v + np.clip(ahead / (1.0 + state.mass), -LONGEST * scale, LONGEST * scale)

    # -- output

    def model(self, problem: Any, state: ConsensusState) -> LinearModel:
        """A finished copy: z and v."""
        return LinearModel(state.z.T.astype(problem.dtype), state.v.copy())

    def duals(self, problem: Any, state: ConsensusState) -> np.ndarray:
        """The dual variables β, of shape (outputs, n), part after part."""
        state.parts(problem)
        return np.concatenate([each["beta"] for each in state.gathered()]).T

    def certificate(self, problem: Any, state: ConsensusState) -> Certificate:
        """Primal value of (z, v), dual value of the best multiple of β, and their difference."""
        parts = state.parts(problem)
        W = state.z.astype(problem.dtype).astype(np.float64)  # as the model rounds them
        hinges, linears = parts.sums("measure", W, state.v)
        primal = problem.penalty(W, state.v) + float(hinges.sum()) / problem.n
        linear = float(linears.sum())
        norm2 = sum_of_squares(state.c)
        if problem.intercept == "regularized":
            norm2 += sum_of_squares(state.r)
        share = 1.0
        if losses.scalar_loss(problem.target).smoothness == math.inf and norm2 > 0.0:
            share = min(1.0, max(0.0, linear / norm2))  # D of a multiple of β is a parabola unless the loss is squared
        dual = max(0.0, problem.lam * (share * linear - 0.5 * share**2 * norm2))
        return Certificate(primal, dual, primal - dual)
