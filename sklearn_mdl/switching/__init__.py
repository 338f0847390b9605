"""Priors over expert sequences, and one forward pass that serves them all.

Before any label is seen, a switching prior says which expert is likely to speak at
which step. It is a hidden Markov model over pairs (row ``j``, expert ``k``): one row
for the Bayesian mixture, the elementwise mixture and fixed share, several for priors
that remember more. Into each step the expert is kept, or drawn anew from the prior
weights ``w``, with probabilities that depend on the row and the step alone. With
``L_t(k)`` the loss of expert ``k`` at step ``t`` (nats), the pass over the steps ``t =
1, 2, ...`` is

    s_1(j,k) = rows(j) w(k)
    q_t(k)   = sum_j s_t(j, k)                     p(expert k at t | labels before t)
    c_t      = -log sum_jk s_t(j, k) exp(-L_t(k))  cost of label t, in nats
    r_t      = s_t exp(-L_t) exp(c_t)              the state, conditioned on label t
    s_{t+1}  = r_t moved by moves(t + 1)

and the codelength is the sum of the ``c_t``. This is Algorithm 1 and Eq. (1) of the
paper: Li, Bornschein and Hutter, 2023, Evaluating Representations with Readout Model
Switching, ICLR. Two things differ in the letter. There is no transition into the first
step, where the prior weights already hold; and the rate of fixed share is cut at one.
"""

from sklearn_mdl.switching.durations import RunLength, SwitchDistribution
from sklearn_mdl.switching.forward import ForwardPass, ForwardTrace, forward
from sklearn_mdl.switching.learned import LearnedShare, UniversalShare
from sklearn_mdl.switching.moves import Moves
from sklearn_mdl.switching.named import as_prior
from sklearn_mdl.switching.prior import MarkovPrior, SwitchingPrior
from sklearn_mdl.switching.sequences import (
    ExpertSequence,
    best_segments,
    best_sequence,
    sequence_cost,
)
from sklearn_mdl.switching.sharing import (
    BayesMixture,
    ElementwiseMixture,
    FixedShare,
)
from sklearn_mdl.switching.smoothing import smoothed_posterior
from sklearn_mdl.switching.weights import group_weights

__all__ = [
    "BayesMixture",
    "ElementwiseMixture",
    "ExpertSequence",
    "FixedShare",
    "ForwardPass",
    "ForwardTrace",
    "LearnedShare",
    "MarkovPrior",
    "Moves",
    "RunLength",
    "SwitchDistribution",
    "SwitchingPrior",
    "UniversalShare",
    "as_prior",
    "best_segments",
    "best_sequence",
    "forward",
    "group_weights",
    "sequence_cost",
    "smoothed_posterior",
]
