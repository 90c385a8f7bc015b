"""
Text classification
===================

Four thousand short texts made of words, two topics, a linear machine with a proof.
"""

# %%
# PLACEHOLDER: to be written.
from widemargin import LinearSVC
from sklearn.datasets import make_classification

X, y = make_classification(2000, 20, random_state=0)
model = LinearSVC().fit(X, y)
print(model.certificate_)
