"""Priors over expert sequences, and a forward pass for all of them.

A switching prior is a distribution over sequences of experts, one expert per step. It
is fixed before any label is seen. A prior is a hidden Markov model over pairs (row
``j``, expert ``k``), or a mixture of such models. The Bayesian mixture, the elementwise
mixture and fixed share have one row. Priors with more memory have several rows. At each
step after the first, the expert is kept or redrawn from the prior weights ``w``. The
probability of a redraw depends only on the row and the step. Let ``L_t(k)`` be the loss
of expert ``k`` at step ``t`` in nats. The pass over the steps ``t = 1, 2, ...``
computes

    s_1(j,k) = rows(j) w(k)
    q_t(k)   = sum_j s_t(j, k)                     p(expert k at t | labels before t)
    c_t      = -log sum_jk s_t(j, k) exp(-L_t(k))  cost of label t, in nats
    r_t      = s_t exp(-L_t) exp(c_t)              the state, conditioned on label t
    s_{t+1}  = transition(t + 1) applied to r_t

The codelength is the sum of the ``c_t``. This is Algorithm 1 and Eq. (1) of the paper:
Li, Bornschein and Hutter, 2023, Evaluating Representations with Readout Model
Switching, ICLR. There are two differences. The first step has no transition and uses
the prior weights. The rate of fixed share is clipped at one.
"""

from sklearn_mdl.switching._checks import (
    are_numbers_in as are_numbers_in,
    check_integer as check_integer,
    invalid as invalid,
    is_number_in as is_number_in,
)
from sklearn_mdl.switching._durations import RunLength, SwitchDistribution
from sklearn_mdl.switching._forward import (
    ForwardPass as ForwardPass,
    ForwardTrace,
    filled_losses as filled_losses,
    forward,
)
from sklearn_mdl.switching._inputs import (
    group_columns as group_columns,
    kind_weights,
    normalised_weights as normalised_weights,
)
from sklearn_mdl.switching._prior import MarkovPrior, SwitchingPrior, Transition
from sklearn_mdl.switching._race import Race
from sklearn_mdl.switching._registry import (
    PriorLike as PriorLike,
    PriorName as PriorName,
    as_prior as as_prior,
)
from sklearn_mdl.switching._sequences import (
    ExpertSequence,
    best_segments,
    best_sequence,
    sequence_cost,
)
from sklearn_mdl.switching._shares import (
    GroupedShare as GroupedShare,
    LearnedGroupedShare as LearnedGroupedShare,
)
from sklearn_mdl.switching._sharing import (
    BayesMixture,
    ElementwiseMixture,
    FixedShare,
    LearnedShare,
    UniversalShare,
)
from sklearn_mdl.switching._smoothing import smoothed_posterior

__all__ = [
    "BayesMixture",
    "ElementwiseMixture",
    "ExpertSequence",
    "FixedShare",
    "ForwardTrace",
    "LearnedShare",
    "MarkovPrior",
    "Race",
    "RunLength",
    "SwitchDistribution",
    "SwitchingPrior",
    "Transition",
    "UniversalShare",
    "best_segments",
    "best_sequence",
    "forward",
    "kind_weights",
    "sequence_cost",
    "smoothed_posterior",
]
