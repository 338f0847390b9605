"""Readouts on some columns of X, such as one layer of an encoder."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, clone

from sklearn_mdl._core.base.estimator import RandomState
from sklearn_mdl._core.base.regressor import OnlineRegressor
from sklearn_mdl._core.sklearn_compat import Constraints, StrOptions
from sklearn_mdl._core.stream.learner import Learner
from sklearn_mdl._core.unsupported import unsupported
from sklearn_mdl._core.validation import invalid
from sklearn_mdl.readouts._base import BaseReadout, Readout, check_readout, learners_in
from sklearn_mdl.readouts._build import Context, Members, grouped
from sklearn_mdl.readouts._finetune.base import ImageReadout
from sklearn_mdl.readouts._lists import NAMES

Columns = slice | Sequence[int]


@dataclass(eq=False, repr=False)
class ViewSettings(Readout):
    """Base class of readouts on some columns of X."""

    readout: BaseEstimator | str | None
    columns: Columns
    name: str | None = None
    _: KW_ONLY
    batch_size: int = 32
    device: str = "auto"
    random_state: RandomState = None

    scaling = None  # not a parameter; the readout has its own scaling
    takes_raw_rows = True

    _parameter_constraints: ClassVar[Constraints] = {
        **Readout._parameter_constraints,
        "readout": [BaseEstimator, StrOptions(set(NAMES)), None],
        "columns": [slice, "array-like"],
        "name": [str, None],
    }

    def _validate_params(self) -> None:
        super()._validate_params()
        if self.is_list:
            return  # a switcher replaces it, and checks the readouts of the list
        self._check_readout(self.inner)
        if isinstance(self, BaseReadout):
            check_readout(self.inner)
        self.inner._validate_params()

    def _begin(self, *args: Any, **options: Any) -> None:
        if self.is_list:
            required = "one readout, not a list, to fit the view itself"
            cure = f"pass readouts=[{self!r}] to a switcher"
            raise invalid("readout", required, self.readout, cure)
        super()._begin(*args, **options)

    def _check_readout(self, readout: Any) -> None:
        """Raise unless the readout can be restricted to some columns."""
        if isinstance(readout, ImageReadout):
            cure = "pass readouts=[readout], without a view"
            raise unsupported("images", "views", cure, TypeError)
        if isinstance(readout, ViewSettings):
            raise TypeError(
                f"readout must not be a view itself, got {readout!r}; pass the inner "
                f"readout, {readout.readout!r}"
            )
        is_real = isinstance(self, OnlineRegressor)
        if isinstance(readout, OnlineRegressor) != is_real:
            noun, cure = "classes", "ViewReadoutRegressor(readout, columns)"
            if is_real:
                noun, cure = "real numbers", "KernelReadoutRegressor(), for example"
            raise TypeError(
                f"readout must predict {noun} in {type(self).__name__}, got "
                f"{readout!r}; pass {cure}"
            )

    @property
    def is_list(self) -> bool:
        """True if ``readout`` is None or a name, and so stands for a list."""
        return self.readout is None or isinstance(self.readout, str)

    @property
    def inner(self) -> Any:
        """The readout of the view."""
        return self.readout

    @property
    def view(self) -> str:  # type: ignore[override]
        """Name of the view."""
        columns: Any = self.columns
        if not isinstance(columns, slice | range | list | tuple):
            columns = np.asarray(columns).tolist()  # of which NumPy writes only some
        return str(columns) if self.name is None else self.name

    @property
    def architecture(self) -> str:
        """Name of the view and short name of the readout: "layer1: linear"."""
        return f"{self.view}: {self.inner.architecture}"

    @property
    def pool_kind(self) -> str:
        """Name of the view and kind of the readout."""
        return f"{self.view}: {self.inner.pool_kind}"

    @property
    def computation(self) -> str:
        """Name of the view and of the computation."""
        return f"{self.view}: {self.inner.computation}"

    def places(self, n_features: int) -> tuple[int, ...]:
        """Return the columns of the view, given the number of features.

        Raises
        ------
        ValueError
            If the columns are not one or more distinct columns of X.
        """
        columns: Any = self.columns
        if isinstance(columns, slice):
            ends = [end for end in (columns.start, columns.stop) if end is not None]
            fit = all(-n_features <= end <= n_features for end in ends)
        else:
            columns = np.asarray(columns)
            fit = columns.ndim == 1 and columns.dtype.kind in "iu"
            fit = fit and ((-n_features <= columns) & (columns < n_features)).all()
        places = np.arange(n_features)[columns].tolist() if fit else []
        if not 0 < len(places) == len(set(places)):
            required = f"one or more distinct positions from 0 to {n_features - 1}"
            cure = f"for example, pass columns=slice(0, {n_features})"
            raise invalid("columns", required, self.columns, cure)
        return tuple(places)

    @classmethod
    def learners_of(cls, members: Members[Self], context: Context) -> list[Learner]:
        """Make learners view by view; readouts of a view share them if possible."""
        n_features = context.n_features
        views = grouped((m.places(n_features), (c, m.inner)) for c, m in members)
        learners: list[Learner] = []
        for places, pairs in views.items():
            view = context.view._replace(columns=places)
            narrowed = context._replace(view=view, n_features=len(places))
            learners += learners_in(narrowed, dict(pairs))
        return learners


@dataclass(eq=False, repr=False)
class ViewReadout(ViewSettings, BaseReadout):
    """Readout on some columns of X, such as the features of one layer.

    Results, including scaling, whitening and kernels, are the same as for the readout
    on a table with only these columns. Readouts on one view share work as they would on
    such a table. :func:`view_readouts` creates the readouts for several views.

    Parameters
    ----------
    readout : readout, str or None
        Any readout of features except views. In a view that you pass to a switcher,
        ``readout`` may also be the name of a list ("linear", "closed-form", "nets",
        "mixed", "drift" or "stream"), or None for the default list. The view then
        stands for all readouts in that list, chosen for the number of columns in the
        view.
    columns : slice or sequence of int
        Columns of X.
    name : str, default=None
        Name of the view. If None, ``str(columns)``, with arrays written as lists.
    batch_size : int, default=32
        Number of rows in a minibatch. A switcher overrides this.
    device : str, default="auto"
        Torch device. "auto" uses a GPU if one is available. A switcher overrides this.
    random_state : int, RandomState instance or None, default=None
        Seed to use outside a switcher if the readout's ``random_state`` is None.

    Attributes
    ----------
    codelength_ : float
        Codelength of all labels seen, in nats.
    codelengths_ : ndarray of shape (n_samples_seen_,)
        Codelength of every example, in nats.
    classes_ : ndarray of shape (n_classes,)
    n_features_in_ : int
        Number of columns of X, including columns outside the view.
    n_samples_seen_ : int
    order_ : ndarray of shape (n_samples,)
        Order in which ``fit`` evaluated the rows.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.utils import shuffle
    >>> from sklearn_mdl import KernelReadout
    >>> from sklearn_mdl.readouts import ViewReadout
    >>> X, y = shuffle(*load_wine(return_X_y=True), random_state=0)
    >>> readout = ViewReadout(KernelReadout(), slice(0, 6)).fit(X, y)
    >>> alone = KernelReadout().fit(X[:, :6], y)
    >>> readout.codelength_ == alone.codelength_
    True
    """


@dataclass(eq=False, repr=False)
class ViewReadoutRegressor(ViewSettings, OnlineRegressor):
    """Regressor on some columns of X, like :class:`ViewReadout` for classification.

    Parameters
    ----------
    readout : regressor, str or None
        Any regressor of ``sklearn_mdl.readouts`` except views. In a view that you pass
        to a switcher, ``readout`` may also be the name of a list ("closed-form",
        "nets", "drift" or "stream"), or None for the default list.
    columns : slice or sequence of int
        Columns of X.
    name : str, default=None
        Name of the view. If None, ``str(columns)``, with arrays written as lists.
    batch_size : int, default=32
        Number of rows in a minibatch. A switcher overrides this.
    device : str, default="auto"
        Torch device. "auto" uses a GPU if one is available. A switcher overrides this.
    random_state : int, RandomState instance or None, default=None
        Seed to use outside a switcher if the readout's ``random_state`` is None.

    Attributes
    ----------
    codelength_ : float
        Codelength of all labels seen, in nats.
    codelengths_ : ndarray of shape (n_samples_seen_,)
        Codelength of every example, in nats.
    n_features_in_ : int
        Number of columns of X, including columns outside the view.
    n_samples_seen_ : int
    order_ : ndarray of shape (n_samples,)
        Order in which ``fit`` evaluated the rows.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn_mdl.readouts import ViewReadoutRegressor, KernelReadoutRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> readout = ViewReadoutRegressor(KernelReadoutRegressor(), slice(0, 5)).fit(X, y)
    >>> alone = KernelReadoutRegressor().fit(X[:, :5], y)
    >>> readout.codelength_ == alone.codelength_
    True
    """

    @property
    def prior_location(self) -> float:  # type: ignore[override]
        """Parameter ``prior_location`` of the readout."""
        return float(self.inner.prior_location)

    @property
    def prior_scale(self) -> float:  # type: ignore[override]
        """Parameter ``prior_scale`` of the readout."""
        return float(self.inner.prior_scale)


def view_readouts(
    views: Mapping[str, Columns],
    readouts: Sequence[BaseEstimator] | BaseEstimator | str | None = "closed-form",
) -> list[ViewSettings]:
    """Create a list of readouts to compare several views (sets of columns).

    Each view gets copies of the same readouts. A switcher's prior is uniform over views
    and within each view. To compare the views, read the switcher's ``view_posterior_``.

    Parameters
    ----------
    views : mapping of str to slice or sequence of int
        Columns of X, keyed by the name of the view, such as a layer, a pooling or a
        crop. For example, pass ``view_slices_`` of a fitted
        :class:`~sklearn_mdl.encoders.TimmEncoder` or
        :class:`~sklearn_mdl.encoders.TorchEncoder`.
    readouts : readout, list, name of a list, or None
        Readouts of each view, as in :class:`~sklearn_mdl.MDLReadoutSwitcher` or
        :class:`~sklearn_mdl.MDLReadoutSwitcherRegressor`.

    Returns
    -------
    readouts : list of ViewReadout or ViewReadoutRegressor
        Readouts, view by view. If `readouts` is a name or None, a switcher pools and
        races them as it does for that list.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn_mdl import MDLReadoutSwitcher
    >>> from sklearn_mdl.readouts import view_readouts
    >>> X, y = load_wine(return_X_y=True)
    >>> views = {"first": slice(0, 6), "second": slice(6, 13)}
    >>> readouts = view_readouts(views)
    >>> switcher = MDLReadoutSwitcher(readouts, shuffle=True, random_state=0).fit(X, y)
    >>> switcher.view_names_, switcher.view_posterior_.shape
    (['first', 'second'], (178, 2))
    """
    if not isinstance(views, Mapping):
        raise TypeError(
            f"views must be a mapping from names to columns, got {views!r}; for "
            "example, write view_readouts({'first': slice(0, 6)})"
        )
    is_single = readouts is None or isinstance(readouts, str | BaseEstimator)
    given: Sequence[Any] = [readouts] if is_single else readouts  # type: ignore[assignment]
    if not views or not given:
        raise ValueError(
            "views and readouts must hold at least one entry each, got views: "
            f"{len(views)}, readouts: {len(given)}; for example, write "
            "view_readouts({'first': slice(0, 6)})"
        )
    return [_view(r, columns, name) for name, columns in views.items() for r in given]


def expanded(
    readouts: Sequence[Any], n_features: int, listed: Callable[[Any, int], list[Any]]
) -> list[Any]:
    """Replace each view of a named list by views of the readouts in that list.

    ``listed`` returns the readouts for a name and a number of features.
    """
    flat: list[Any] = []
    for given in readouts:
        if isinstance(given, ViewSettings) and given.is_list:
            inner = listed(given.readout, len(given.places(n_features)))
            flat += [_view(readout, given.columns, given.name) for readout in inner]
        else:
            flat.append(given)
    return flat


def _view(readout: Any, columns: Columns, name: str | None) -> ViewSettings:
    """Create a view of a copy of a readout, or of a named list."""
    kind = ViewReadoutRegressor if isinstance(readout, OnlineRegressor) else ViewReadout
    return kind(clone(readout, safe=False), columns, name)
