"""
On a GPU
========

One parameter moves a kernel machine to the GPU. Where there is none, ``device="auto"`` trains on the CPU.

This page was built without a GPU, and the script runs there, too. The times below were measured on one.
"""

# %%
# One parameter
# -------------
#
# ``pip install 'widemargin[gpu]'`` brings torch. Nothing imports it until a device is asked for.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons

from widemargin import SVC, svm_grid

X, y = make_moons(2000, noise=0.2, random_state=0)
X = X.astype(np.float32)

model = SVC(C=10.0, gamma=2.0, device="auto").fit(X, y)
print(
    f"stopped by {model.stop_reason_}, relative gap at most {model.tol}: {model.certificate_.relative_gap <= model.tol}"
)

# %%
# ``device="cuda"`` asks for the GPU, and says what is missing where there is none.

try:
    SVC(device="cuda").fit(X[:200], y[:200])
    print("trained on the GPU")
except Exception as error:
    print(error)

# %%
# The same machine
# ----------------
#
# The certificate is the same proof on both: the objective is within ``tol`` of the least one. A machine from a GPU has
# NumPy arrays, saves and loads as any other, and predicts where there is no GPU.

moved = model.set_params(device="cpu")
print(moved.predict(X[:5]), type(moved.support_vectors_).__name__)

# %%
# Many machines at once
# ---------------------
#
# On a GPU the folds of a cross-validation and the values of C are trained side by side, and share every kernel row.
# The call is the same without one.

grid = svm_grid(X, y, Cs=[0.1, 1.0, 10.0, 100.0], gammas=[0.5, 2.0], cv=3, device="auto")
print(grid.best_params)

# %%
# How much quicker
# ----------------
#
# One H200, a relative gap of 1e-3, float32 tensors that lie on the GPU, medians of three fits; the CPU is one core of
# the same machine. :doc:`/notes/gpu` has all lines, and the command that measures them.

measured = {
    "mnist, 8 against the rest\n60,000 × 784": (0.067, 16.0),
    "a9a\n32,561 × 123": (0.104, 3.9),
}
figure, ax = plt.subplots(figsize=(6.4, 3.2), layout="constrained")
places = np.arange(len(measured))
for shift, (name, colour) in zip((-0.2, 0.2), (("GPU", "#1f5f8b"), ("one core", "#c8553d"))):
    seconds = [pair[name != "GPU"] for pair in measured.values()]
    bars = ax.barh(places + shift, seconds, 0.36, color=colour, label=name)
    ax.bar_label(bars, [f"{value:g} s" for value in seconds], padding=3)
ax.set(xscale="log", xlim=(0.03, 60), xlabel="seconds of fit", title="The same gap on a GPU and on one core")
ax.set_yticks(places, measured)
ax.legend(frameon=False, loc="lower right")
plt.show()

# %%
# .. list-table:: Larger ones, on the GPU alone
#    :header-rows: 1
#
#    * - data
#      - rows × features
#      - gap
#      - seconds
#    * - mnist, ten classes in pairs
#      - 60,000 × 784
#      - 1e-3
#      - 0.28
#    * - mnist, 8 against the rest, 8 values of C and 5 folds by ``svm_grid``
#      - 60,000 × 784
#      - 1e-3
#      - 1.0, one run
#    * - covtype, class 2
#      - 464,810 × 54
#      - 1e-3
#      - 3.8, second fit
#    * - generated
#      - 5,000,000 × 100
#      - 1e-2
#      - 52, one fit
#
# Linear and budgeted machines learn on the CPU. Budgeted and incremental ones predict on the GPU.
#
# What to read next
# -----------------
#
# - Tensors, memory, what runs where: :doc:`/guide/gpu`.
# - The grid without a GPU: :doc:`plot_07_grid_search`.
