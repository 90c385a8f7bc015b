"""Losses as objects, for ``loss=`` of the linear machines.

>>> from widemargin import LinearSVC
>>> from widemargin.losses import Huberized
>>> model = LinearSVC(loss=Huberized(delta=0.5)).fit([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1])
>>> model.set_params(loss__delta=0.25).loss
Huberized(delta=0.25)

For the score z of an example with label y = ±1 (``LinearSVC``):

Hinge()                 max(0, 1 − yz), ``loss="hinge"``
SquaredHinge()          max(0, 1 − yz)², ``loss="squared_hinge"``
Log()                   log(1 + exp(−yz)), ``loss="log"``: logistic regression
Huberized(delta)        the hinge with a rounded corner, ``loss="huberized"`` at delta=1: 0 for yz ≥ 1, a parabola of
                        width δ below, (1 − yz)²/(2δ), then the line 1 − yz − δ/2

For the score z of an example with target y (``LinearSVR``), with the distance r = |z − y|:

EpsilonInsensitive(epsilon)         max(0, r − ε), ``loss="epsilon_insensitive"``
SquaredEpsilon(epsilon)             max(0, r − ε)², ``loss="squared_epsilon_insensitive"``
HuberizedEpsilon(epsilon, delta)    ``loss="huberized_epsilon_insensitive"`` at delta=1: 0 for r ≤ ε, a parabola of
                                    width δ beyond, (r − ε)²/(2δ), then the line r − ε − δ/2; Huber's loss at ε = 0

An object has its own ε: leave ``epsilon=`` of ``LinearSVR`` out.

>>> from widemargin import LinearSVR
>>> from widemargin.losses import HuberizedEpsilon
>>> LinearSVR(loss=HuberizedEpsilon(epsilon=0.1, delta=0.5)).get_params()["loss__epsilon"]
0.1
"""

from .core.losses.losses import EpsilonInsensitive as EpsilonInsensitive
from .core.losses.losses import Hinge as Hinge
from .core.losses.losses import Huberized as Huberized
from .core.losses.losses import HuberizedEpsilon as HuberizedEpsilon
from .core.losses.losses import Log as Log
from .core.losses.losses import SquaredEpsilon as SquaredEpsilon
from .core.losses.losses import SquaredHinge as SquaredHinge
