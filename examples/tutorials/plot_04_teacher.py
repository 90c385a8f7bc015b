"""
Labelling with a teacher
========================

Examples are cheap, and labels are not. A teacher chooses which example is labelled next.
"""

# %%
# A pool without labels
# ---------------------
#
# 1,078 digits lie in a pool. Somebody would have to look at each to name it. Here the labels are known, and play that
# part.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from widemargin import IncrementalSVC
from widemargin.teaching import ActiveTeacher, RandomTeacher, teach

X, y = load_digits(return_X_y=True)
pool, X_test, labels, y_test = train_test_split(X / 16.0, y, test_size=0.4, random_state=0)

# %%
# Two teachers
# ------------
#
# ``RandomTeacher`` draws. ``ActiveTeacher`` draws 50 and asks for the one of which the learner is least sure. Both
# begin with the same ten labels, and the learner learns each label when it comes.

lessons = {}
for name, teacher in (("at random", RandomTeacher()), ("by the teacher", ActiveTeacher())):
    learner = IncrementalSVC(C=10.0, gamma=0.2, random_state=0)
    lessons[name] = teach(learner, pool, teacher, labels, labels=240, every=10, test=(X_test, y_test), random_state=0)
    history = lessons[name].history_
    reached = history["labels"][np.argmax(history["test_error"] < 0.05)]
    print(f"chosen {name}: {history.last('test_error'):.1%} wrong after 240 labels, below 5 % after {reached:.0f}")

# %%
# What it saves
# -------------

from widemargin import plots

ax = plots.convergence({name: lesson.history_ for name, lesson in lessons.items()}, x="labels", y="test_error")
ax.set(xscale="linear", ylim=0, title="Test error against labels")
plt.show()

# %%
# What it asks for
# ----------------
#
# The first row are digits that were drawn, the second those of which the learner was least sure. Many of those would
# make people think twice, too.

figure, axes = plt.subplots(2, 14, figsize=(10, 2.1), layout="constrained")
for row, lesson in zip(axes, lessons.values()):
    for ax, k in zip(row, lesson.indices[-14:]):
        ax.imshow(pool[k].reshape(8, 8), cmap="gray_r")
        ax.set_title(labels[k], fontsize=8, pad=2)
        ax.axis("off")
figure.suptitle("The last digits labelled: drawn at random (above), chosen by the teacher (below)")
plt.show()

# %%
# With a person
# -------------
#
# Give a function instead of the labels. It is called with the place of an example in the pool and returns its label:
# a dialogue, a measurement, another program. ``classes`` then names all labels there are.


def ask(place):
    """Where a person would be asked."""
    return labels[place]


learner = IncrementalSVC(C=10.0, gamma=0.2, random_state=0)
lesson = teach(learner, pool, ActiveTeacher(), ask, labels=20, classes=range(10), random_state=0)
print(f"asked for {len(lesson.labels)} labels, the last ones {[int(label) for label in lesson.labels[-5:]]}")

# %%
# What to read next
# -----------------
#
# - Teachers for streams, and teachers of your own: :doc:`/guide/teaching`.
# - The learner: :doc:`/methods/incremental`.
# - Streams whose labels all come: :doc:`plot_03_drifting_stream`.
