"""The Stochastic Batch Perceptron, on examples in one place and in parts."""
