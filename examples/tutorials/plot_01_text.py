"""
Text classification
===================

Eight thousand short texts, four topics, one linear machine, and a proof of how good it is.

The texts are made in the script, so that it runs without a download. Put your own list of strings in their place.
"""

# %%
# The texts
# ---------
#
# Each text has 12 to 30 words. One word in six belongs to the topic. One in ten comes from any topic, and the
# rest say nothing.

import matplotlib.pyplot as plt
import numpy as np

TOPICS = {
    "cooking": "oven butter garlic simmer whisk dough pepper recipe onion flour sauce roast knead spice pan bake",
    "football": "goal striker penalty referee league keeper corner tackle midfield derby header coach kick pitch cup",
    "sailing": "mast keel harbour tack anchor spinnaker hull jib tide knots rudder crew boom mooring deck buoy",
    "weather": "storm drizzle forecast humid frost thunder cloud breeze heatwave sleet sunny fog gale hail snow rain",
}
COMMON = (
    "the a of and to in it was for on with as at by this that from have they we good long day people time much "
    "little found great again never after before while under over best last first new old week hour side part year"
)


def make_texts(n, rng):
    """So many texts, and their topics."""
    names, everyday = list(TOPICS), COMMON.split()
    words = {name: text.split() for name, text in TOPICS.items()}

    def one_of(choices):
        return choices[int(rng.random() * len(choices))]

    topics = [one_of(names) for _ in range(n)]
    texts = []
    for topic in topics:
        drawn = rng.random(rng.integers(12, 31))
        own, other = drawn < 1 / 6, drawn > 9 / 10
        texts.append(
            " ".join(
                one_of(words[topic] if mine else words[one_of(names)] if others else everyday)
                for mine, others in zip(own, other)
            )
        )
    return texts, np.array(topics)


texts, topics = make_texts(8_000, np.random.default_rng(0))
print(topics[0], "|", texts[0])
print(topics[1], "|", texts[1])

# %%
# Fit
# ---
#
# ``TfidfVectorizer`` makes a sparse matrix of the texts, and ``LinearSVC`` takes it as it is: nothing is copied,
# nothing is made dense. The pipeline is scikit-learn's.

from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline

from widemargin import LinearSVC

seen, new, y_seen, y_new = train_test_split(texts, topics, test_size=0.25, random_state=0)
model = make_pipeline(TfidfVectorizer(), LinearSVC(C=1.0, random_state=0))
model.fit(seen, y_seen)
print(f"wrong on new texts: {1 - model.score(new, y_new):.1%}")

# %%
# Read the certificate
# --------------------
#
# ``stop_reason_`` says why training ended. ``"tol"`` means that the goal was reached: the objective is proven to be
# within a thousandth of the least one that any linear machine has. There are four machines here, one for each topic
# against the rest, and the certificate speaks of their sum.

svm = model[-1]
print("stopped by", svm.stop_reason_)
print(f"objective {svm.certificate_.primal:.5f}, least possible {svm.certificate_.dual:.5f}")
print(f"relative gap {svm.certificate_.relative_gap:.5f}, asked for {svm.tol}")

# %%
# What it has learnt
# ------------------
#
# ``coef_`` has a row for each topic. The largest weights are the words that speak for it.

vocabulary = model[0].get_feature_names_out()
figure, axes = plt.subplots(1, 4, figsize=(10, 3.2), layout="constrained", sharex=True)
for ax, name, weights in zip(axes, svm.classes_, svm.coef_):
    top = np.argsort(weights)[-8:]
    ax.barh(vocabulary[top], weights[top], color="#1f5f8b")
    ax.set_title(name)
figure.suptitle("The words with the largest weights")
plt.show()

# %%
# Which topics it takes for which
# -------------------------------
#
# The confusion matrix is scikit-learn's: every estimator here is one of scikit-learn's too.

from sklearn.metrics import ConfusionMatrixDisplay

shown = ConfusionMatrixDisplay.from_estimator(model, new, y_new, cmap="Blues", colorbar=False)
shown.ax_.set_title("True and predicted topics of 2,000 new texts")
shown.figure_.set_layout_engine("constrained")
plt.show()

# %%
# Probabilities
# -------------
#
# A hinge machine has scores, not probabilities. ``loss="log"`` has both.

unsure = make_pipeline(TfidfVectorizer(), LinearSVC(C=10.0, loss="log", random_state=0)).fit(seen, y_seen)
for name, probability in zip(
    unsure.classes_, unsure.predict_proba(["a long day under cloud, then fog in the harbour"])[0]
):
    print(f"{name:10}{probability:6.1%}")

# %%
# What to read next
# -----------------
#
# - Texts that do not fit in memory: ``HashingVectorizer`` and ``partial_fit``, as in
#   :doc:`plot_03_drifting_stream`.
# - Choose ``C``: :doc:`plot_07_grid_search`.
# - How the solver works: :doc:`/methods/sdca`.
