"""The names by which the usual priors go."""

from __future__ import annotations

from sklearn_mdl.switching.durations import RunLength, SwitchDistribution
from sklearn_mdl.switching.learned import LearnedShare, UniversalShare
from sklearn_mdl.switching.prior import SwitchingPrior
from sklearn_mdl.switching.sharing import (
    BayesMixture,
    ElementwiseMixture,
    FixedShare,
)

_PRIORS: dict[str, type[SwitchingPrior]] = {
    "bayes": BayesMixture,
    "elementwise": ElementwiseMixture,
    "fixed-share": FixedShare,
    "learned-share": LearnedShare,
    "run-length": RunLength,
    "switch-distribution": SwitchDistribution,
    "universal-share": UniversalShare,
}


def as_prior(switching: SwitchingPrior | str | None) -> SwitchingPrior:
    """Return the switching prior that a name, a prior or None stands for.

    Parameters
    ----------
    switching : SwitchingPrior, str or None
        A prior is returned as it is. ``"bayes"``, ``"elementwise"``,
        ``"fixed-share"``, ``"learned-share"``, ``"run-length"``,
        ``"switch-distribution"`` and ``"universal-share"`` name a prior with its
        default parameters. None is ``LearnedShare()``, the default by measurement
        (``benchmarks/bench_switching.py``).

    Returns
    -------
    prior : SwitchingPrior
        The prior; its parameters are not checked here.

    Raises
    ------
    ValueError
        If a string names no prior.
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
        f"`switching` must be one of {sorted(_PRIORS)}, a SwitchingPrior or None, got "
        f"{switching!r}; name a known prior or pass one."
    )
