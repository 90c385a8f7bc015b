"""An estimator that never ends, for a process that is to be killed; the process imports it from here."""

import threading

from sklearn.base import BaseEstimator, ClassifierMixin


class Endless(ClassifierMixin, BaseEstimator):
    def fit(self, X, y):
        threading.Event().wait()
