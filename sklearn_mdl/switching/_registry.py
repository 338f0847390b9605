"""Names of the built-in priors, and the prior for each name."""

from __future__ import annotations

from typing import Literal, TypeAlias

from numpy.typing import ArrayLike

from sklearn_mdl.switching._durations import RunLength, SwitchDistribution
from sklearn_mdl.switching._inputs import normalised_weights
from sklearn_mdl.switching._prior import Component, SwitchingPrior
from sklearn_mdl.switching._sharing import (
    BayesMixture,
    ElementwiseMixture,
    FixedShare,
    LearnedShare,
    UniversalShare,
)

PriorName: TypeAlias = Literal[
    "bayes",
    "elementwise",
    "fixed-share",
    "learned-share",
    "run-length",
    "switch-distribution",
    "universal-share",
]
PriorLike: TypeAlias = SwitchingPrior | PriorName | None

_PRIORS: dict[str, type[SwitchingPrior]] = {
    "bayes": BayesMixture,
    "elementwise": ElementwiseMixture,
    "fixed-share": FixedShare,
    "learned-share": LearnedShare,
    "run-length": RunLength,
    "switch-distribution": SwitchDistribution,
    "universal-share": UniversalShare,
}


def checked_components(
    prior: PriorLike, n_steps: int, n_experts: int, weights: ArrayLike | None = None
) -> list[Component]:
    """Check a prior for a stream of known length, and return its components.

    Parameters
    ----------
    prior : SwitchingPrior, str or None
        As for `as_prior`.
    n_steps, n_experts : int
        Length of the stream and number of experts.
    weights : array-like of shape (K,), optional
        Prior weights of the experts (uniform if not given).

    Returns
    -------
    components : list of Component

    Raises
    ------
    ValueError
        If a parameter or weight is out of range, or the stream is too long for the
        prior.
    TypeError
        If `prior` is neither a prior, nor a name, nor None.
    """
    chosen = as_prior(prior)
    chosen.check_params()
    chosen.check_length(n_steps)
    return chosen.components(normalised_weights(weights, n_experts))


def as_prior(switching: SwitchingPrior | str | None) -> SwitchingPrior:
    """Return the switching prior for a name, a prior or None.

    Parameters
    ----------
    switching : SwitchingPrior, str or None
        A prior is returned unchanged. The names are ``"bayes"``, ``"elementwise"``,
        ``"fixed-share"``, ``"learned-share"``, ``"run-length"``,
        ``"switch-distribution"`` and ``"universal-share"``. Each stands for a prior
        with default parameters. None stands for ``LearnedShare()``.

    Returns
    -------
    prior : SwitchingPrior
        The prior. Its parameters are not checked here.

    Raises
    ------
    ValueError
        If a string is not the name of a prior.
    TypeError
        If `switching` is neither a prior, nor a string, nor None.

    Examples
    --------
    >>> as_prior("bayes")
    BayesMixture()
    """
    if switching is None:
        return LearnedShare()
    if isinstance(switching, SwitchingPrior):
        return switching
    if isinstance(switching, str) and switching in _PRIORS:
        return _PRIORS[switching]()
    error = ValueError if isinstance(switching, str) else TypeError
    raise error(
        f"A switching prior must be one of {sorted(_PRIORS)}, a SwitchingPrior or "
        f"None, got {switching!r}; for example, pass 'learned-share'"
    )
