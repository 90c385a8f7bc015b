"""Structured outputs: a sequence labeller trained by Pegasos through an argmax oracle (Example 5 of the paper).

Sentences are sequences of words, labels are sequences of tags. The joint feature φ(x, y) counts (word, tag) and
(tag, next tag) pairs; the cost δ(ŷ, y) is the number of wrong tags; the oracle maximises cost + score by dynamic
programming (Viterbi). The solver is the same Pegasos as for classification.
"""

import numpy as np

from widemargin import Pegasos
from widemargin.problems.structured import StructuredProblem
from widemargin.running import run

WORDS, TAGS = 20, 4


def sentences(count, rng):
    """Sentences from a hidden Markov chain: each tag likes five words and one successor."""
    examples = []
    for _ in range(count):
        tags = [int(rng.integers(TAGS))]
        while len(tags) < 8:
            tags.append((tags[-1] + 1) % TAGS if rng.random() < 0.8 else int(rng.integers(TAGS)))
        words = [5 * tag + int(rng.integers(5)) if rng.random() < 0.6 else int(rng.integers(WORDS)) for tag in tags]
        examples.append((np.array(words), np.array(tags)))
    return examples


def feature(words, tags):
    """φ(x, y)."""
    phi = np.zeros(WORDS * TAGS + TAGS * TAGS)
    np.add.at(phi, words * TAGS + tags, 1.0)
    np.add.at(phi, WORDS * TAGS + tags[:-1] * TAGS + tags[1:], 1.0)
    return phi


def best_tags(w, words, local_cost=0.0):
    """The tags that maximise ⟨w, φ(x, y)⟩ + Σ local_cost, by dynamic programming."""
    emission = w[: WORDS * TAGS].reshape(WORDS, TAGS)[words] + local_cost
    transition = w[WORDS * TAGS :].reshape(TAGS, TAGS)
    score, back = emission[0], []
    for local in emission[1:]:
        paths = score[:, None] + transition
        back.append(paths.argmax(axis=0))
        score = paths.max(axis=0) + local
    tags = [int(score.argmax())]
    for pointers in reversed(back):
        tags.append(int(pointers[tags[-1]]))
    return np.array(tags[::-1])


def oracle(w, words, tags):
    """The tags ŷ with the largest cost + score: φ(x, y) − φ(x, ŷ), and the cost δ(ŷ, y)."""
    wrong = np.ones((len(tags), TAGS))
    wrong[np.arange(len(tags)), tags] = 0.0
    answer = best_tags(w, words, wrong)
    return feature(words, tags) - feature(words, answer), float(np.sum(answer != tags))


def main():
    rng = np.random.default_rng(0)
    training, test = sentences(300, rng), sentences(300, rng)
    problem = StructuredProblem(training, oracle, n_features=WORDS * TAGS + TAGS * TAGS, lam=0.01)
    outcome = run(Pegasos(step="pegasos"), problem, rng=rng, max_epochs=8)
    w = outcome.W[:, 0]
    print("epochs     ", *(f"{e:9.0f}" for e in outcome.history["epochs"]))
    print("objective  ", *(f"{o:9.4f}" for o in outcome.history["objective"]))
    tokens = sum(len(tags) for _, tags in test)
    errors = sum(int(np.sum(best_tags(w, words) != tags)) for words, tags in test)
    alone = w.copy()
    alone[WORDS * TAGS :] = 0.0
    without = sum(int(np.sum(best_tags(alone, words) != tags)) for words, tags in test)
    print(f"wrong tags on new sentences: {errors / tokens:.1%}; ignoring the transitions: {without / tokens:.1%}")
    return errors / tokens, without / tokens


if __name__ == "__main__":
    main()
