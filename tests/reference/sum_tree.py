"""A textbook sum-tree: every inner node holds the sum of its two children."""

import numpy as np


class SumTree:
    """Weights in the leaves of a complete binary tree."""

    def __init__(self, weights):
        self.leaves = 1 << max(0, int(np.ceil(np.log2(len(weights)))))
        self.node = np.zeros(2 * self.leaves)
        for i, weight in enumerate(weights):
            self.change(i, weight)

    def change(self, i, weight):
        k = self.leaves + i
        self.node[k] = weight
        while k > 1:
            k //= 2
            self.node[k] = self.node[2 * k] + self.node[2 * k + 1]

    def draw(self, u):
        goal, k = u * self.node[1], 1
        while k < self.leaves:
            k *= 2
            if goal >= self.node[k]:
                goal -= self.node[k]
                k += 1
        return k - self.leaves
