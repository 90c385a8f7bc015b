"""Budgeted SGD, its step sizes, and its policies: one file each, which enters its policies under their names.

A policy of your own takes one file, and a line here if it is to be known without an import of that file.
"""

from .forget import Forget as Forget
from .merge import Merge as Merge
from .merge import MultiMerge as MultiMerge
from .nearest import Nearest as Nearest
from .policy import MAINTENANCES as MAINTENANCES
from .policy import Policy as Policy
from .project import Project as Project
from .project import Projectron as Projectron
from .remove import Remove as Remove
from .remove import Stop as Stop
from .sgd import BudgetedSGD as BudgetedSGD
from .steps import STEPS as STEPS
from .steps import ImplicitStep as ImplicitStep
from .steps import MarginPerceptronStep as MarginPerceptronStep
from .steps import NormaStep as NormaStep
from .steps import PassiveAggressiveStep as PassiveAggressiveStep
from .steps import PegasosStep as PegasosStep
