"""Votes: the machines of all pairs of classes decide by a vote, and their scores decide between equal votes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ...arguments import threads
from ...core.kernels.pairs import add_votes, first_pair
from ...core.rows.distant import local
from ...core.sharing import share_out
from ...models import PairsModel

#: Coefficients of all pairs, at most, for scores on a GPU.
ON_DEVICE = 2**25
#: Rows of a block, the class i, and the scores of the pairs (i, j) of all j > i.
Piece = tuple[slice, int, np.ndarray]


def has_many_pairs(model: Any) -> bool:
    """Whether a machine of pairs has too many coefficients for scores on a GPU."""
    return isinstance(model, PairsModel) and model.intercept.size * model.support.size > ON_DEVICE


def count_votes(pieces: Iterable[Piece], k: int, counted: np.ndarray) -> None:
    """counted[row] ← the votes for each of k classes, and the sums of the scores of its pairs, of shape (2, k)."""
    for rows, i, scores in pieces:
        if i == 0:
            own = np.zeros((2, k, scores.shape[1]))
        add_votes(scores, i, own[0], own[1])
        if i == k - 2:
            counted[rows] = own[:, :, : rows.stop - rows.start].transpose(2, 0, 1)


def pieces_of(scores: np.ndarray, k: int) -> Iterable[Piece]:
    """The scores of all pairs of k classes, of shape (pairs, n), class by class."""
    for i in range(k - 1):
        yield slice(0, scores.shape[1]), i, np.ascontiguousarray(scores[first_pair(i, k) : first_pair(i + 1, k)])


def votes_of(machine: Any, X: Any) -> np.ndarray:
    """The votes for each class, and beside them the sums of scores that decide between equals, of shape (n, 2k)."""
    k, n, model = machine.classes_.size, X.shape[0], machine._model
    counted = np.zeros((n, 2, k))
    pieces: Sequence[tuple[Iterable[Piece]]]
    here = has_many_pairs(model) or not machine._scores_there(model, X)
    if here and isinstance(model, PairsModel):
        rows = machine._preparation.rows(model.kernel, local(X))
        pieces = model.pieces(rows, threads=threads(machine.n_jobs))
    else:  # also a model whose pairs share merged vectors
        pieces = [(pieces_of(machine._scored(model, X).T, k),)]
    share_out(lambda own: count_votes(own, k, counted), pieces, threads(machine.n_jobs))
    return counted.reshape(n, 2 * k)


def with_scores(votes: np.ndarray, sums: np.ndarray) -> np.ndarray:
    """Votes with less than a third of a vote for the sum of a class's scores, which decides between equals."""
    return votes + sums / (3.0 * (np.abs(sums) + 1.0))
