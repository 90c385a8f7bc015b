"""The base of all estimators: few ancestors, and calls that leave the old model or the new one."""

import pytest

from widemargin import SVC, SVR, BudgetedSVC, BudgetedSVR, IncrementalSVC, LinearSVC, LinearSVR
from widemargin.estimators.fit.fitting import all_or_nothing

ESTIMATORS = [SVC, SVR, LinearSVC, LinearSVR, BudgetedSVC, BudgetedSVR, IncrementalSVC]


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_an_estimator_has_at_most_six_ancestors_before_those_of_scikit_learn(estimator):
    own = [cls.__name__ for cls in estimator.__mro__[1:] if cls.__module__.startswith("widemargin")]
    assert len(own) <= 6, own


class Learner(LinearSVC):
    """Learns a number, and may fail before or after."""

    @all_or_nothing
    def learn(self, value, undo=None, error=None):
        if undo is not None:
            self._undo = undo
        self.learnt_ = value
        if error is not None:
            raise error
        return self


@pytest.mark.parametrize(("undo", "left"), [(None, 1), ("restore", 1), ("keep", 2), ("forget", None)])
def test_after_an_error_there_is_the_old_model_or_the_new_one_or_none(undo, left):
    model = Learner(C=3.0).learn(1)
    with pytest.raises(OSError, match="no room"):
        model.learn(2, undo, OSError("no room"))
    assert getattr(model, "learnt_", None) == left
    assert model.C == 3.0
    assert "_undo" not in vars(model)
