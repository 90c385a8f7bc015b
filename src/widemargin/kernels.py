"""Kernels as objects, for ``kernel=`` of the kernel machines.

>>> from widemargin import SVC
>>> from widemargin.kernels import RBF
>>> model = SVC(kernel=RBF(gamma=0.5)).fit([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1])
>>> model.set_params(kernel__gamma=0.25).kernel
RBF(gamma=0.25)

Linear()                            ⟨x, z⟩, ``kernel="linear"``
RBF(gamma)                          exp(−γ‖x − z‖²), ``kernel="rbf"``
Laplacian(gamma)                    exp(−γ‖x − z‖₁), ``kernel="laplacian"``
Polynomial(gamma, coef0, degree)    (γ⟨x, z⟩ + coef0)^degree, ``kernel="poly"``
Sigmoid(gamma, coef0)               tanh(γ⟨x, z⟩ + coef0), ``kernel="sigmoid"``; not positive semi-definite
Precomputed()                       the data matrix is the kernel matrix, ``kernel="precomputed"``
BlackBox(function, rows_per_call)   a Python function of two sets of rows, which is called with so many rows at a time

An object has its own parameters: leave ``gamma=``, ``coef0=`` and ``degree=`` of the estimator out. γ is a number,
"auto", or "scale" (the default), as ``gamma=`` of the estimators. Objects that are equal as tuples may be of different
kernels: ``RBF(0.5) == Laplacian(0.5)``.
"""

from .core.kernels.kernels import RBF as RBF
from .core.kernels.kernels import BlackBox as BlackBox
from .core.kernels.kernels import Laplacian as Laplacian
from .core.kernels.kernels import Linear as Linear
from .core.kernels.kernels import Polynomial as Polynomial
from .core.kernels.kernels import Precomputed as Precomputed
from .core.kernels.kernels import Sigmoid as Sigmoid
