"""BudgetedSVC and BudgetedSVR: scikit-learn's contract, streams, files, announced classes, running weights."""

from sklearn.utils.estimator_checks import parametrize_with_checks

from widemargin import BudgetedSVC, BudgetedSVR

STOCHASTIC = (
    "steps are stochastic: an example of weight 2 is one step of twice the length, a repeated one is two steps, in "
    "other places of the order"
)


@parametrize_with_checks(
    [BudgetedSVC(budget=50, lam=0.02, max_iter=5), BudgetedSVR(budget=50, max_iter=5)],
    expected_failed_checks=lambda estimator: {
        "check_sample_weight_equivalence_on_dense_data": STOCHASTIC,
        "check_sample_weight_equivalence_on_sparse_data": STOCHASTIC,
    },
)
def test_scikit_learn_finds_nothing_to_complain_about(estimator, check):
    check(estimator)
