"""Pegasos: linear machines by primal stochastic sub-gradient steps."""

from .pegasos import Bottou, Constant, InverseTime, Norma, Pegasos

__all__ = ["Bottou", "Constant", "InverseTime", "Norma", "Pegasos"]
