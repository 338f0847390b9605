"""A race of encoders that removes clear losers as labels arrive."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from numbers import Integral, Real
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, clone

from sklearn_mdl._core.io.parameters import as_json
from sklearn_mdl._core.numerics import as_array, dense
from sklearn_mdl._core.sklearn_compat import Constraints, Interval, Seed, StrOptions
from sklearn_mdl._core.validation import check_positive, invalid
from sklearn_mdl.encoders import keeps_data, protected
from sklearn_mdl.model_selection import _race_input as inputs
from sklearn_mdl.model_selection._encoding import check_features
from sklearn_mdl.model_selection._race_folder import RaceFolder, Step
from sklearn_mdl.model_selection._race_html import html_of_race
from sklearn_mdl.model_selection._tasks import (
    Switcher,
    on_equal_terms,
    settings_of_cells,
)
from sklearn_mdl.ranking import LossRace, forecast_interval
from sklearn_mdl.readouts import grouped
from sklearn_mdl.switcher import MDLReadoutSwitcher, MDLReadoutSwitcherRegressor

LAST = "A race compares predictions of these labels, not accuracies on new rows."
RULES = ("alpha", "within", "method", "start")  # parameters passed to LossRace
LARGEST_LOG = 700.0  # the exponential of a larger log would overflow


class RaceForecast(NamedTuple):
    """Forecast of how many more labels a race needs before it stops.

    Attributes
    ----------
    labels, low, high : float
        Median number of further labels, and the bounds of an 80 % interval. Infinity
        replaces numbers over `max_labels`.
    max_labels : int
        Largest number of further labels simulated.
    """

    labels: float
    low: float
    high: float
    max_labels: int

    def __str__(self) -> str:
        """Return the forecast as a phrase."""
        if not np.isfinite(self.low):
            return f"more than {self.max_labels} more labels"
        known = np.isfinite(self.high)
        high = f"{self.high:.0f}" if known else f"over {self.max_labels}"
        if not np.isfinite(self.labels):
            return f"at least {self.low:.0f} more labels, possibly many more"
        plural = "" if self.labels == 1 else "s"
        return f"about {self.labels:.0f} more label{plural} ({self.low:.0f} to {high})"


class RaceHistory(NamedTuple):
    """Logs of e-values, and bounds, of a race after each of its labels.

    Attributes
    ----------
    log_e_values : ndarray of shape (n_labels, n_encoders)
        Log of each encoder's largest e-value, which is evidence that the encoder is
        behind one of its rivals.
    lower, upper : ndarray of shape (n_labels, n_encoders)
        Bounds on the mean loss of each encoder minus that of the final leader, in nats
        per label.
    """

    log_e_values: np.ndarray
    lower: np.ndarray
    upper: np.ndarray


@dataclass(eq=False, repr=False)
class EncoderRace(BaseEstimator):
    """Comparison of encoders while you label, which shows when you can stop.

    For every encoder, a :class:`~sklearn_mdl.MDLReadoutSwitcher` predicts each label
    before learning it. You may look at the results after every label and stop whenever
    you like. The probability that the race is ever wrong is at most `alpha` with
    ``method="exact"``, and about `alpha` otherwise. An encoder that is clearly behind
    another one is eliminated and no longer runs.

    A race shows that an encoder has predicted the labels of this stream worse than
    another one, on average over all labels after the first `start`. It does not compare
    accuracies, and another sample of labelled rows may favour another encoder.

    Parameters
    ----------
    encoders : mapping of str to transformer, or sequence of str
        Transformers, fitted without the labels of the race. Do not refit transformers
        during the race. None or "passthrough" instead of a transformer keeps X. If you
        pass features to `update`, a list of names is enough.
    n_classes : int, default=None
        Number of classes that can occur. You need not know in advance which classes
        these are. None if `switcher` is a regressor.
    alpha : float, default=0.05
        Largest probability of an error. It is an error to eliminate the encoder that
        predicts best. With `within`, it is also an error to stop while the leader is
        behind another encoder by more than `within`.
    within : float, default=None
        Negligible difference in nats per label. The race also stops once no encoder can
        be ahead of the leader by more than this. If None, the race only stops when one
        encoder is left.
    method : {"asymptotic", "exact"}, default="asymptotic"
        "exact" is valid for any number of labels. It clips losses and needs about twice
        as many labels to stop. "asymptotic" uses a normal approximation, and eliminates
        no encoder before 30 labels were compared. If labels are classes, ten of these
        must be outside the most common class. "asymptotic" can fail if a few labels
        have large losses, as wrong labels do. Once the race stops, `certified_` shows
        if "exact" would also stop it.
    start : int, default=32
        Number of initial labels that are learned but not compared.
    switcher : MDLReadoutSwitcher or MDLReadoutSwitcherRegressor, default=None
        Copied for each encoder. If None, ``MDLReadoutSwitcher("linear")`` is used. If
        an encoder has fewer features than there are classes, pass
        ``MDLReadoutSwitcher("closed-form")``.
    folder : path-like, default=None
        Folder in which every update is saved immediately. If you create an EncoderRace
        with the same settings and folder again, it resumes the saved race. After
        ``race.resume()``, continue with row ``race.n_labels_``.
    random_state : int, default=0
        Seed of all switchers.

    Attributes
    ----------
    encoder_names_ : list of str
    alive_ : list of str
        Encoders still in the race. Reading this starts the race if necessary.
    leader_ : str
        The encoder in `alive_` with the smallest mean loss.
    eliminated_at_ : dict of str to int
        Number of labels after which each eliminated encoder left the race.
    e_values_ : ndarray of shape (n_encoders, n_encoders)
        ``e_values_[i, j]`` is the evidence that encoder i is behind encoder j. An
        encoder is eliminated once a value in its row reaches `threshold_`.
    threshold_ : float
        ``(n_encoders - 1) / alpha``, or twice that with `within`.
    bounds_ : ndarray of shape (n_encoders, 2)
        Lower and upper bound on the mean loss of each encoder minus that of the leader,
        in nats per label.
    should_stop_ : bool
        True if one encoder is left or, with `within`, if no other encoder can be ahead
        of the leader by more than `within`.
    certified_ : bool
        True if the race should stop and ``method="exact"`` would also stop it.
    n_labels_ : int
    labels_ : ndarray of shape (n_labels,)
    losses_ : ndarray of shape (n_labels, n_encoders)
        Log-losses in nats. NaN for each encoder after it was eliminated.
    classes_ : ndarray
        Classes in the order in which they appeared.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn_mdl.model_selection import EncoderRace
    >>> X, y = load_digits(return_X_y=True)
    >>> features = {"all pixels": X, "first two rows": X[:, :16]}
    >>> race = EncoderRace(list(features), n_classes=10)
    >>> for i in range(0, 120, 10):
    ...     rows = slice(i, i + 10)
    ...     race.update({name: F[rows] for name, F in features.items()}, y[rows])
    ...     if race.should_stop_:
    ...         break
    EncoderRace(...)
    >>> race.alive_
    ['all pixels']
    """

    encoders: Mapping[str, object] | Sequence[str]
    n_classes: int | None = None
    _: KW_ONLY
    alpha: float = 0.05
    within: float | None = None
    method: str = "asymptotic"
    start: int = 32
    switcher: Switcher | None = None
    folder: str | PathLike[str] | None = None
    random_state: int = 0

    _parameter_constraints: ClassVar[Constraints] = {
        "encoders": [Mapping, list, tuple],
        "n_classes": [Interval(Integral, 2, None, closed="left"), None],
        "alpha": [Interval(Real, 0, 1, closed="neither")],
        "within": [Interval(Real, 0, None, closed="neither"), None],
        "method": [StrOptions({"asymptotic", "exact"})],
        "start": [Interval(Integral, 0, None, closed="left")],
        "switcher": [MDLReadoutSwitcher, MDLReadoutSwitcherRegressor, None],
        "folder": [str, PathLike, None],
        "random_state": [Seed(Integral, 0, None, closed="left")],
    }

    def resume(self) -> Self:
        """Start the race, or resume it from the folder.

        The first :meth:`update` calls this method.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            If a parameter is invalid or an encoder is not fitted. Also if a parameter
            has changed since this race, or the race in the folder, began, since a
            change would void the guarantee.
        TypeError
            If an encoder is not a transformer or, with a folder, cannot be pickled.
        """
        if hasattr(self, "_race"):
            self._check_unchanged()
            return self
        self._validate_params()
        base = inputs.base_switcher(self.switcher, self.n_classes, self.method)
        base.set_params(random_state=self.random_state)
        encoders = inputs.encoders_by_name(self.encoders)
        race, folder = self._new_race(), None
        steps: list[Step] = []
        if self.folder is not None:
            folder = RaceFolder(Path(self.folder), self._about(base, encoders))
            steps = list(folder.steps())
        for step in steps:
            for losses, label in zip(step.losses, step.labels, strict=True):
                race.add(losses, label)
        self._race, self._folder, self._base = race, folder, base
        self._began_with = self.get_params(deep=False)
        if isinstance(self.encoders, Mapping):  # else replaced encoders go unnoticed
            self._began_with["encoders"] = dict(self.encoders)
        self._fitted: dict[str, Any] = {}  # fitted copies of LEARN_NOTHING encoders
        self._switchers: dict[str, Switcher] = {}
        self._columns: dict[str, list[Any]] = {}  # column names of data frames
        self._steps = steps
        self.encoder_names_ = list(encoders)
        self._publish()
        return self

    @property
    def alive_(self) -> list[str]:
        """Encoders still in the race."""
        self.resume()
        return [self.encoder_names_[i] for i in np.flatnonzero(self._race.alive)]

    @property
    def features_(self) -> dict[str, np.ndarray]:
        """Features of the labelled rows by encoder, up to its elimination."""
        self.resume()
        parts = grouped(item for step in self._steps for item in step.features.items())
        return {name: np.concatenate(rows) for name, rows in parts.items()}

    def update(self, X: Any, y: ArrayLike) -> Self:
        """Add the next labels.

        The result does not depend on how you split labels into calls. However, an
        eliminated encoder runs until the end of the call, so calls with few labels save
        time.

        Parameters
        ----------
        X : images or array-like, or mapping of str to array-like
            Input of the encoders, or a mapping from each encoder still in the race to
            its features, of shape (n_labels, width).
        y : array-like of shape (n_labels,)

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            If features of an encoder are missing or not finite, or if the numbers of
            rows and labels differ. Also if the number, names or order of columns differ
            from earlier calls, if there are more than `n_classes` classes, or if
            another EncoderRace has written to the folder. After an error, no label of
            this call is added.
        """
        self.resume()
        labels, classes = inputs.checked_labels(y, self.classes_, self.n_classes)
        columns = inputs.checked_columns(X, self._columns)
        features = self._features(X)
        for name, rows in features.items():
            check_features(rows, labels, f"encoder {name!r}")
            self._check_width(name, rows)
        step = Step(labels, np.empty(0), features, classes)
        race, before = self._race.copy(), dict(vars(self))
        try:
            losses = self._losses_of([*self._steps, step])
            for row, label in zip(losses, labels, strict=True):
                row[~race.alive] = np.nan
                race.add(row, label)
            step = step._replace(losses=losses)
            if self._folder is not None:
                self._folder.append(self._race.n_labels, step)
            self._race, self._steps = race, [*self._steps, step]
            self._columns = {**self._columns, **columns}
            self._publish()
        except BaseException:
            # The next update rebuilds the switchers from all earlier rows.
            self.__dict__.update(before, _switchers={})
            if self._folder is not None:
                self._folder.keep(len(self._steps))
            raise
        return self

    def forecast(self, max_labels: int = 2000) -> RaceForecast:
        """Forecast how many more labels the race needs before it stops.

        The rest of the race is simulated with losses drawn from the second half of the
        losses compared so far. Real races take longer than such simulations, so the
        median and the upper bound are multiplied by two. The forecast is rough, and the
        guarantee does not cover it.

        Parameters
        ----------
        max_labels : int, default=2000
            Largest number of further labels to simulate.

        Returns
        -------
        forecast : RaceForecast
            Use ``print(forecast)`` to show it in words.

        Raises
        ------
        ValueError
            If `max_labels` is not a positive integer, or if fewer than 10 labels were
            compared.
        """
        self.resume()
        check_positive("max_labels", max_labels, 2000)
        n_compared = max(self.n_labels_ - self.start, 0)
        if n_compared < 10:
            title = f"The number of labels after the first {self.start}"
            raise invalid(title, "at least 10", n_compared, "call update until it is")
        if self.should_stop_:
            return RaceForecast(0.0, 0.0, 0.0, max_labels)
        given: dict[str, Any] = {"labels": self._labels, "most": max_labels}
        low, median, high = forecast_interval(self._race, self.losses_, **given)
        return RaceForecast(median, low, high, max_labels)

    def verdict(self) -> str:
        """Return sentences on whether you can stop and on which encoder leads."""
        self.resume()
        n, alive = self.n_labels_, [e for e in self.alive_ if e != self.leader_]
        out = [f"{e!r} (after {n} labels)" for e, n in self.eliminated_at_.items()]
        if self.should_stop_:
            certified = "certified" if self.certified_ else "not certified"
            lines = [f"Stopped; {certified}. {self.leader_!r} leads after {n} labels."]
        else:
            left = len(alive) + 1
            lines = [f"Not stopped. After {n} labels, {left} encoders are left."]
            if n > self.start:
                lines.append(f"{self.leader_!r} leads.")
        if alive and n > self.start:
            worst = max(-self.bounds_[self.encoder_names_.index(e), 0] for e in alive)
            others = ", ".join(map(repr, alive))
            behind = f"up to {max(0.0, worst):.3g} nats per label"
            behind = "an unknown amount" if np.isinf(worst) else behind
            lines.append(f"It may be behind {others} by {behind}.")
        if out:
            lines.append(f"Out: {', '.join(out)}.")
        if self.should_stop_ and not self.certified_:
            shown = int((self._race.certified & ~self._race.alive).sum())
            also = f" rules out {shown} of {len(out)}, and" if out else ""
            lines.append(
                'A normal approximation stopped the race. method="exact"'
                f"{also} would need more labels to stop."
            )
        share = f"most {100 * self.alpha:g} % of races err, whenever you look"
        how = "At" if self.method == "exact" else "By a normal approximation, at"
        return "\n".join([*lines, f"{how} {share}. {LAST}"])

    def history(self) -> RaceHistory:
        """Return logs of e-values, and bounds, after each label, for a plot."""
        self.resume()
        race = self._new_race()
        leader = self.encoder_names_.index(self.leader_)
        states = []
        for losses, label in zip(self.losses_, self._labels, strict=True):
            race.add(losses, label)
            with np.errstate(invalid="ignore"):
                states.append((race.log_values().max(-1), *race.bounds(leader=leader)))
        parts = np.reshape(states, (len(states), 3, len(self.encoder_names_)))
        return RaceHistory(parts[:, 0], parts[:, 1], parts[:, 2])

    def _html_repr(self) -> str:
        """Return HTML for notebooks, with results once the race has begun."""
        return html_of_race(self) if hasattr(self, "_race") else super()._html_repr()

    def _new_race(self) -> LossRace:
        rules = {name: getattr(self, name) for name in RULES}
        return LossRace((len(self.encoders),), self.n_classes, **rules)

    def _check_unchanged(self) -> None:
        """Raise if parameters were changed after the race began."""
        for name, value in self.get_params(deep=False).items():
            before = self._began_with[name]
            if value is not before and value != before:
                required = f"{before!r}, as when this race began"
                cure = f"create EncoderRace(..., {name}=...) for the new value"
                raise invalid(name, required, value, cure)

    def _about(self, base: Switcher, encoders: Mapping[str, object]) -> dict[str, Any]:
        """Return the settings with which the folder's race can be resumed, as JSON."""
        names, digest = ("n_classes", *RULES, "random_state"), inputs.digest_of_encoder
        return {
            # In this order, since losses are stored without names.
            "encoders": [[name, digest(name, e)] for name, e in encoders.items()],
            **{name: as_json(getattr(self, name), name) for name in names},
            "switcher": {"class": type(base).__name__, **settings_of_cells(base)},
        }

    def _features(self, X: Any) -> dict[str, np.ndarray]:
        """Return the features from each encoder still in the race."""
        if not isinstance(X, Mapping):
            if not isinstance(self.encoders, Mapping):
                raise TypeError(
                    "X must be a mapping {encoder: rows} if encoders are names, got "
                    f"{type(X).__name__}; write update({{name: rows}}, y)"
                )
            return {e: self._encoded(e, self.encoders[e], X) for e in self.alive_}
        return inputs.rows_by_name(X, self.encoder_names_, self.alive_)

    def _encoded(self, name: str, encoder: Any, X: Any) -> np.ndarray:
        if keeps_data(encoder):
            return np.array(as_array(X))
        if isinstance(encoder, inputs.LEARN_NOTHING):
            if name not in self._fitted:
                self._fitted[name] = clone(encoder).fit(protected(X, encoder))
            encoder = self._fitted[name]
        return np.array(dense(as_array(encoder.transform(protected(X, encoder)))))

    def _check_width(self, name: str, rows: np.ndarray) -> None:
        if self._steps:
            width = self._steps[0].features[name].shape[1]
            if rows.shape[1] != width:
                required = f"{width} columns wide, as in the first call"
                cure = f"pass the same {width} columns in every call"
                raise invalid(f"Rows of {name!r}", required, rows.shape[1], cure)

    def _losses_of(self, steps: Sequence[Step]) -> np.ndarray:
        """Return losses on the last step's labels, with NaN for eliminated encoders."""
        n_labels = len(steps[-1].labels)
        losses = np.full((n_labels, len(self.encoder_names_)), np.nan)
        widest = max(rows.shape[1] for rows in steps[0].features.values())
        for name in self.alive_:
            switcher, new, named = self._switchers.get(name), steps[-1:], {}
            if switcher is None:
                switcher, new = clone(self._base), steps
                switcher = on_equal_terms(switcher, widest, self.n_classes or 0)
                if self.n_classes is not None:
                    named = {"classes": np.arange(self.n_classes)}
            X = np.concatenate([step.features[name] for step in new])
            y = np.concatenate([step.labels for step in new])
            self._switchers[name] = switcher.partial_fit(X, y, **named)
            place = self.encoder_names_.index(name)
            losses[:, place] = switcher.codelengths_[-n_labels:]
        return losses

    def _publish(self) -> None:
        """Set the public attributes after an update."""
        race, names = self._race, self.encoder_names_
        for i in np.flatnonzero(~race.alive):
            self._switchers.pop(names[i], None)
        parts = [step.labels for step in self._steps]
        self._labels = np.concatenate(parts) if parts else np.empty(0)
        self.classes_ = self._steps[-1].classes if parts else np.empty(0)
        self.n_labels_ = race.n_labels
        is_real = self.n_classes is None or not parts
        self.labels_ = self._labels if is_real else self.classes_[self._labels]
        empty = np.empty((0, len(names)))
        self.losses_ = np.concatenate([empty, *(step.losses for step in self._steps)])
        out = sorted(np.flatnonzero(~race.alive), key=lambda i: race.out_at[i])
        self.eliminated_at_ = {names[i]: int(race.out_at[i]) for i in out}
        self.leader_ = names[int(race.leader)]
        self.threshold_ = 1 / race.level
        self.e_values_ = np.exp(np.minimum(race.log_values(), LARGEST_LOG))
        self.bounds_ = np.stack(race.bounds(), axis=-1)
        self.should_stop_ = bool(race.could_stop())
        self.certified_ = self.should_stop_ and bool(race.is_certified())
