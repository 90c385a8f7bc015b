"""An estimator that never ends, for a process that is to be killed; the process imports it from here."""

import threading


class Endless:
    def fit(self, X, y):
        threading.Event().wait()
