"""Priors over expert sequences, and one forward pass that serves them all.

Before any label is seen, a switching prior says which expert is likely to speak at
which step. It is a hidden Markov model over pairs (row ``j``, expert ``k``): one row
for the Bayesian mixture, the elementwise mixture and fixed share, several for priors
that remember more. With ``w`` the prior weights of the experts and ``L_t(k)`` the loss
of expert ``k`` at step ``t`` (nats), the pass over the steps ``t = 1, 2, ...`` is

    s_1      = initial(w)
    q_t(k)   = sum_j s_t(j, k)                     p(expert k at t | labels before t)
    c_t      = -log sum_jk s_t(j, k) exp(-L_t(k))  cost of label t, in nats
    r_t      = s_t exp(-L_t) exp(c_t)              the state, conditioned on label t
    s_{t+1}  = transition(r_t, w, t + 1)

and the codelength is the sum of the ``c_t``. This is Algorithm 1 and Eq. (1) of the
paper: Li, Bornschein and Hutter, 2023, Evaluating Representations with Readout Model
Switching, ICLR. Two things differ in the letter. There is no transition into the first
step, where the prior weights already hold; and the rate of fixed share is cut at one.
"""

from sklearn_mdl.switching.filtering import ForwardPass, ForwardTrace, forward
from sklearn_mdl.switching.priors import (
    BayesMixture,
    ElementwiseMixture,
    FixedShare,
    SwitchingPrior,
    as_prior,
)

__all__ = [
    "BayesMixture",
    "ElementwiseMixture",
    "FixedShare",
    "ForwardPass",
    "ForwardTrace",
    "SwitchingPrior",
    "as_prior",
    "forward",
]
