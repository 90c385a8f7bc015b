"""What LIBSVM's and LIBLINEAR's programs do with their model text, in plain NumPy."""

from itertools import combinations

import numpy as np


def parsed(path, last):
    """(header, rows of words) of a model text."""
    lines = [line.split() for line in path.read_text().splitlines()]
    place = next(k for k, words in enumerate(lines) if words[0] == last)
    return {words[0]: words[1:] for words in lines[:place]}, lines[place + 1 :]


def libsvm(path, X):
    """(labels or numbers, decision values) of rows, by ``svm_predict_values``."""
    header, lines = parsed(path, "SV")
    k = int(header["nr_class"][0])
    is_class = header["svm_type"][0].endswith("svc")
    coef = np.array([[float(word) for word in words if ":" not in word] for words in lines]).T
    Z = np.zeros((len(lines), X.shape[1] + 1))
    for row, words in zip(Z, lines, strict=True):
        for index, value in (word.split(":") for word in words if ":" in word):
            row[int(index)] = float(value)
    number = {key: float(header[key][0]) for key in ("gamma", "coef0", "degree") if key in header}
    inner = X @ Z[:, 1:].T
    K = {
        "linear": lambda: inner,
        "polynomial": lambda: (number["gamma"] * inner + number["coef0"]) ** number["degree"],
        "rbf": lambda: np.exp(-number["gamma"] * ((X[:, None] - Z[None, :, 1:]) ** 2).sum(axis=2)),
        "sigmoid": lambda: np.tanh(number["gamma"] * inner + number["coef0"]),
        "precomputed": lambda: X[:, Z[:, 0].astype(int) - 1],
    }[header["kernel_type"][0]]()
    rho = np.array(header["rho"], float)
    if not is_class:
        return K @ coef[0] - rho[0], K @ coef.T - rho
    labels, ends = np.array(header["label"], int), np.cumsum(np.array(header["nr_sv"], int))
    blocks = [slice(a, b) for a, b in zip([0, *ends[:-1]], ends, strict=True)]
    pairs = list(combinations(range(k), 2))
    scores = np.stack(
        [K[:, blocks[i]] @ coef[j - 1, blocks[i]] + K[:, blocks[j]] @ coef[i, blocks[j]] for i, j in pairs]
    )
    scores = scores.T - rho
    votes = sum(np.eye(k)[np.where(scores[:, p] > 0, i, j)] for p, (i, j) in enumerate(pairs))
    return labels[votes.argmax(axis=1)], scores


def liblinear(path, X):
    """(labels or numbers, decision values) of rows, by ``predict_values``."""
    header, lines = parsed(path, "w")
    W, bias = np.array(lines, float), float(header["bias"][0])
    scores = (np.hstack([X, np.full((len(X), 1), bias)]) if bias >= 0 else X) @ W
    if "label" not in header:
        return scores[:, 0], scores
    labels = np.array(header["label"], int)
    return labels[np.where(scores[:, 0] > 0, 0, 1) if scores.shape[1] == 1 else scores.argmax(axis=1)], scores
