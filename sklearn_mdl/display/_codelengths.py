"""Cumulative codelengths and regrets against the number of examples."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from sklearn_mdl._core.tables import short_names
from sklearn_mdl._core.validation import invalid
from sklearn_mdl.display import _base as base
from sklearn_mdl.display._regret_split import Strategies, best_blocks, mix
from sklearn_mdl.metrics import regret, uniform_codelength
from sklearn_mdl.switching import filled_losses

Reference = str | ArrayLike | Mapping[str, ArrayLike] | None

# Widths of main lines and of thin lines behind them.
_WEIGHTS = ({"linewidth": 2.0, "zorder": 2.5}, {"linewidth": 1.0, "zorder": 2.0})
_NAMED, _OTHERS = "named", "others"  # kinds of lines in a legend, stored in the lines
_LONG_NAMES = {"best": "best readout", "gaussian": "Gaussian"}


class CodelengthDisplay(base.Display):
    """Cumulative codelengths, or regrets, against the number of examples.

    The paper shows data efficiency as the regret of encoders or readouts, for example
    relative to learning from scratch. It also compares switching strategies by regret
    (Li, Bornschein and Hutter, 2023, Section 4 and Appendix A.6).

    Parameters
    ----------
    curves : mapping of str to array-like of shape (n_samples,)
        Codelength of each example, in nats, keyed by the curve's name.
    reference : array-like of shape (n_samples,), optional
        Codelength of each example, in nats, under the code to compare with. The curves
        then show regrets, which are negative where the curve's code is shorter.
    reference_name : str, optional
        Name of the reference on the vertical axis.
    thin_curves : mapping of str to str, optional
        Curves to draw as thin lines. Keys are names of curves, and values their legend
        entries. Curves may share an entry.
    retired_at : mapping of str to int, optional
        Number of examples after which a readout retired, keyed by the curve's name. The
        curve is drawn up to there, and ends with a cross.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Axes and figure of the last drawing.
    lines_ : dict of str to matplotlib Line2D
        The drawn curves, keyed by name.
    """

    def __init__(
        self,
        curves: Mapping[str, ArrayLike],
        *,
        reference: ArrayLike | None = None,
        reference_name: str | None = None,
        thin_curves: Mapping[str, str] | None = None,
        retired_at: Mapping[str, int] | None = None,
    ) -> None:
        self.curves = {n: base.vector(c, f"curve {n!r}") for n, c in curves.items()}
        codes = list(self.curves.values())
        if not codes:
            raise invalid("curves", "non-empty", curves, "pass {'raw': codelengths}")
        self.reference = None
        if reference is not None:
            self.reference = base.vector(reference, "reference")
            codes.append(self.reference)
        self.reference_name = reference_name or "reference"
        self.thin_curves = dict(thin_curves or {})
        self.retired_at = dict(retired_at or {})
        lengths = sorted({len(code) for code in codes})
        if len(lengths) > 1:
            cure = "pass codelengths of the same examples"
            raise invalid("curves and reference", "of equal length", lengths, cure)

    @classmethod
    def from_estimator(
        cls,
        estimator: base.Switcher,
        *,
        reference: Reference = "auto",
        readouts: str | None = "best",
        name: str | None = None,
        **plot_options: Any,
    ) -> Self:
        """Draw the curve of a switcher, and thin curves of its readouts.

        Parameters
        ----------
        estimator : MDLReadoutSwitcher or MDLReadoutSwitcherRegressor
            A fitted estimator.
        reference : {"auto", "uniform", "gaussian", "best"}, array-like, mapping or None
            ``"uniform"`` is the uniform code of classes and ``"gaussian"`` the Gaussian
            code of real-valued labels. Both ignore the features. ``"auto"`` means
            "uniform" for classes and "gaussian" for real-valued labels. ``"best"`` is
            the best readout in hindsight. Pass an array of shape (n_samples,) for any
            other code, or a mapping from its name to the array. If None, the curves are
            codelengths instead of regrets.
            For label frequencies, pass
            ``{"label frequencies": frequency_codelengths(y[estimator.order_])}``.
        readouts : {"best", "all"} or None
            Draw the best readout of each architecture, all readouts, or none. The
            legend names each architecture once, without settings. ``lines_`` and
            ``frame`` use full names.
        name : str, optional
            Name of the switcher's curve (by default the name of its class).
        **plot_options : optional
            Passed to `plot`.
        """
        base.check_fitted(estimator, "readout_losses_", base.CURVE)
        losses = np.asarray(estimator.readout_losses_, dtype=np.float64)
        costs = estimator.switching_codelengths_[:, np.newaxis]
        losses = np.where(np.isnan(losses), costs, losses)  # NaN after retirement
        if hasattr(estimator, "classes_"):
            codes = _uniform_code(len(losses), len(estimator.classes_))
        else:
            codes = {"gaussian": estimator.reference_codelengths_}
        if isinstance(reference, str) and reference == "auto":
            (reference,) = codes
        codes["best"] = losses[:, losses.sum(axis=0).argmin()]
        compared = _reference_code(reference, codes, "auto")
        if isinstance(reference, str):
            compared["reference_name"] = _LONG_NAMES.get(reference, reference)
        name = name or type(estimator).__name__
        thin, columns = _readout_curves(estimator, losses, readouts, name)
        curves = {name: estimator.codelengths_}
        curves |= {label: losses[:, k] for label, k in columns.items()}
        starts = {label: int(estimator.retired_at_[k]) for label, k in columns.items()}
        ends = {label: start for label, start in starts.items() if start >= 0}
        display = cls(curves, **compared, thin_curves=thin, retired_at=ends)
        return display.plot(**plot_options)

    @classmethod
    def from_codelengths(
        cls,
        curves: Mapping[str, ArrayLike],
        *,
        reference: Reference = None,
        n_classes: int | None = None,
        **plot_options: Any,
    ) -> Self:
        """Draw codelengths, for example one curve per encoder.

        Parameters
        ----------
        curves : mapping of str to array-like of shape (n_samples,)
            Codelength of each example, in nats, keyed by the curve's name.
        reference : str, array-like of shape (n_samples,), mapping or None
            The name of a curve, ``"uniform"`` together with `n_classes`, or an array
            with any other code. To name this code, pass ``{"from scratch":
            codelengths}``. If None, the curves are codelengths instead of regrets.
        n_classes : int, optional
            Number of classes of the uniform code.
        **plot_options : optional
            Passed to `plot`.
        """
        n_samples = max((np.size(curve) for curve in curves.values()), default=0)
        codes = {**_uniform_code(n_samples, n_classes), **curves}
        if _is_uniform(reference) and "uniform" not in codes:
            cure = "for ten classes, pass n_classes=10"
            raise invalid("n_classes", "given for reference='uniform'", None, cure)
        return cls(curves, **_reference_code(reference, codes)).plot(**plot_options)

    @classmethod
    def from_scorer(
        cls,
        scorer: base.Ranking,
        dataset: str | None = None,
        *,
        reference: Reference = "uniform",
        **plot_options: Any,
    ) -> Self:
        """Draw the encoders of a ranking on one dataset, averaged over orders.

        Parameters
        ----------
        scorer : RepresentationScorer or Ranking
            A fitted estimator.
        dataset : str, optional
            Name of the dataset (not needed if there is only one).
        reference : str, array-like of shape (n_samples,), mapping or None
            The name of an encoder, ``"uniform"``, or an array with any other code,
            optionally as ``{name: codelengths}``. If None, the curves are codelengths
            instead of regrets. For real-valued labels, "uniform" is treated as None.
        **plot_options : optional
            Passed to `plot`.
        """
        dataset = base.dataset_of(scorer, dataset)
        curves = dict(base.codelengths_of(scorer, dataset))
        n_classes = next(c.n_classes for c in scorer.cells_ if c.dataset == dataset)
        plot_options = {"styles": base.encoder_styles(scorer)} | plot_options
        if _is_uniform(reference) and not n_classes:  # real labels
            reference = None
        return cls.from_codelengths(
            curves, reference=reference, n_classes=n_classes or None, **plot_options
        )

    @classmethod
    def from_losses(
        cls,
        losses: ArrayLike,
        strategies: Strategies | None = None,
        *,
        weights: ArrayLike | None = None,
        reference: Reference = "best readout",
        **plot_options: Any,
    ) -> Self:
        """Draw the codelengths of switching strategies on the same losses.

        Parameters
        ----------
        losses : array-like of shape (n_samples, n_readouts)
            In nats: ``readout_losses_`` of a switcher, or losses from a file.
        strategies : mapping of str to SwitchingPrior, optional
            Priors, or names of priors, keyed by the names in the legend. By default the
            paper's priors, the learned share and the run-length prior.
        weights : array-like of shape (n_readouts,), optional
            Prior weights of the readouts (uniform if not given).
        reference : str, array-like of shape (n_samples,), mapping or None
            ``"best readout"`` is the best readout in hindsight. ``"best blocks"`` is
            the best sequence with at most three blocks, each with one readout. The
            regret is then what switching costs a strategy compared with this sequence,
            and may be negative. You can also pass the name of a strategy, an array with
            any other code (optionally as ``{name: codelengths}``), or None to draw
            codelengths. The uniform code is ``np.full(len(losses), np.log(n_classes))``
            for ``n_classes`` classes.
        **plot_options : optional
            Passed to `plot`.
        """
        curves = mix(losses, strategies, weights)
        array = filled_losses(losses, weights=weights)
        codes: dict[str, ArrayLike] = {"best readout": array[:, array.sum(0).argmin()]}
        if isinstance(reference, str) and reference == "best blocks":
            codes[reference] = best_blocks(losses, 3)[1]
        compared = _reference_code(reference, {**codes, **curves}, "best blocks")
        return cls(curves, **compared).plot(**plot_options)

    def plot(
        self,
        ax: base.Axes | None = None,
        *,
        log_x: bool = False,
        symlog_y: bool = False,
        max_points: int = 2000,
        max_named: int = 12,
        styles: Mapping[str, int] | None = None,
    ) -> Self:
        """Draw the curves. In the legend, the highest final value comes first.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw. By default a new figure.
        log_x : bool, default=False
            If True, the x-axis is logarithmic.
        symlog_y : bool, default=False
            If True, the y-axis is linear from -10 to 10 nats and logarithmic outside
            this range, so one bad curve does not flatten the others.
        max_points : int, default=2000
            Longer curves are thinned to at most this many points, including the last
            one.
        max_named : int, default=12
            Largest number of legend entries with a name and a colour. If there are more
            entries, thick curves are named before thin ones. Of the thin curves (or of
            all curves, if none is thin), those that are the lowest at some drawn point
            are named first, then those with the lowest last values. The other curves
            are grey, and the legend counts their entries.
        styles : mapping of str to int, optional
            Line style number of each legend entry, to give a name the same colour in
            several figures. By default the numbers start at zero, or at the number of
            lines that the legend of ``ax`` already contains.

        Returns
        -------
        display : CodelengthDisplay
            The display itself.
        """
        values = self._values()
        n_samples = len(next(iter(values.values())))
        rows = base.thinned(n_samples, max_points, log_x)
        drawn = {name: nats[rows] for name, nats in values.items()}
        entries = {name: self.thin_curves.get(name, name) for name in self.curves}
        named = self._entries_to_name(drawn, entries, max_named)
        n_others = len(set(entries.values())) - len(named)
        others = f"and {n_others} other{'s' * (n_others > 1)}"
        ax = self._use_axes_beside_legend(ax, [*named, others] if n_others else named)
        # Skip the colours of lines that are already in the axes.
        n_taken = sum(_mark(line) != _OTHERS for line in _labelled_lines(ax))
        self.lines_: dict[str, base.Line2D] = {}
        labelled: set[str] = set()  # entries that already have a line in the legend
        for name in values:
            entry, mark, style = others, _OTHERS, base.OTHERS
            if entries[name] in named:
                entry, mark = entries[name], _NAMED
                number = n_taken + named.index(entry)
                style = base.line_style((styles or {}).get(entry, number))
                style |= _WEIGHTS[name in self.thin_curves]
            end = self.retired_at.get(name, n_samples)
            shown = np.union1d(rows[rows < end], end - 1)
            (line,) = ax.plot(shown + 1, values[name][shown])
            line.set(**style)
            if name in self.retired_at:
                line.set(marker="x", markevery=[-1], markersize=4.0)
            self.lines_[name] = line
            if entry not in labelled:
                line.set_label(entry)
                line.__dict__["sklearn_mdl_entry"] = mark
            labelled.add(entry)
        self._label_axes(log_x, symlog_y)
        lines = sorted(_labelled_lines(ax), key=_place_in_legend)
        base.put_legend(ax, lines, [str(line.get_label()) for line in lines])
        return self

    def _entries_to_name(
        self,
        drawn: Mapping[str, base.Floats],
        entries: Mapping[str, str],
        max_named: int,
    ) -> list[str]:
        """Return at most ``max_named`` legend entries, in their original order."""
        labels = list(dict.fromkeys(entries.values()))
        is_thin = np.array([label in self.thin_curves.values() for label in labels])
        members = {label: [n for n in drawn if entries[n] == label] for label in labels}
        lowest = np.stack([np.min([drawn[n] for n in m], 0) for m in members.values()])
        rivals = is_thin if is_thin.any() else ~is_thin
        compared = np.where(rivals[:, None], lowest, np.inf)
        first = np.isclose(compared, compared.min(axis=0))
        is_best = (first & (first.sum(axis=0) == 1)).any(axis=1)  # ties do not count
        group = np.where(rivals, np.where(is_best, 1, 2), 0)
        chosen = base.named_lines(group, lowest[:, -1], max_named)
        return [labels[i] for i in sorted(chosen)]

    def _values(self) -> dict[str, base.Floats]:
        """Return the values of the curves in nats, keyed by name."""
        if self.reference is None:
            return {name: np.cumsum(curve) for name, curve in self.curves.items()}
        return {name: regret(c, self.reference) for name, c in self.curves.items()}

    def _label_axes(self, log_x: bool, symlog_y: bool) -> None:
        """Set the scales and labels of the axes, and draw a zero line for regrets."""
        if log_x:
            self.ax_.set_xscale("log")
        if symlog_y:
            self.ax_.set_yscale("symlog", linthresh=10.0)
        self.ax_.set(xlabel="examples", ylabel="cumulative codelength (nats)")
        if self.reference is not None:
            label = f"regret relative to {self.reference_name} (nats)"
            self.ax_.set_ylabel(label, parse_math=False, wrap=True)
            self.ax_.axhline(0.0, color="0.6", linewidth=0.8, zorder=0)

    def frame(self) -> base.DataFrame:
        """Return the complete curves as a DataFrame: one row per example.

        After a readout of a switcher retires, its column continues with the costs of
        the switcher's mixture.
        """
        table = base.plot_extra("pandas").DataFrame(self._values())
        return table.set_axis(np.arange(1, len(table) + 1)).rename_axis("examples")


def _readout_curves(
    estimator: base.Switcher, losses: base.Floats, readouts: str | None, taken: str
) -> tuple[dict[str, str], dict[str, int]]:
    """Return the legend entry and the column of each readout, keyed by curve name."""
    base.check_choice(readouts, "readouts", ("best", "all", None))
    columns: dict[str, int] = {}
    entries: dict[str, str] = {}
    for architecture, members in base.architectures(estimator).items():
        best = [members[losses[:, members].sum(axis=0).argmin()]]
        for k in {"all": members, "best": best, None: []}[readouts]:
            name = estimator.readout_names_[k]
            if name in (taken, *columns):
                name = f"{name} [{k}]"  # otherwise one curve would replace the other
            columns[name] = k
            entries[name] = architecture if readouts == "all" else name
    return dict(zip(entries, short_names(list(entries.values())), strict=True)), columns


def _is_uniform(reference: Reference) -> bool:
    return isinstance(reference, str) and reference == "uniform"


def _uniform_code(n_samples: int, n_classes: int | None) -> dict[str, ArrayLike]:
    """Return the uniform code as ``{"uniform": nats}``, or {} without `n_classes`."""
    if n_classes is None:
        return {}
    return {"uniform": np.full(n_samples, uniform_codelength(1, n_classes))}


def _reference_code(
    reference: Reference, codes: Mapping[str, ArrayLike], *others: str
) -> base.Style:
    """Return the reference as arguments of `CodelengthDisplay`.

    Messages also list ``others``, which are valid names that ``codes`` may lack.
    """
    if isinstance(reference, Mapping):
        if len(reference) != 1:
            required, names = "a mapping of one name to one code", list(reference)
            raise invalid("reference", required, names, "pass {'raw': codelengths}")
        ((name, code),) = reference.items()
        return {"reference": code, "reference_name": str(name)}
    if not isinstance(reference, str):
        return {"reference": reference}
    if reference not in codes:
        names = list(dict.fromkeys([*others, *codes]))
        required = f"None, an array, a mapping or one of {names}"
        near = [repr(n) for n in get_close_matches(reference, names, 1)] or ["an array"]
        raise invalid("reference", required, reference, f"pass {near[0]}")
    return {"reference": codes[reference], "reference_name": reference}


def _mark(line: base.Line2D) -> str | None:
    """Return ``_NAMED`` or ``_OTHERS``, or None if no display drew the line."""
    return getattr(line, "sklearn_mdl_entry", None)


def _place_in_legend(line: base.Line2D) -> tuple[bool, float]:
    """Return a key that sorts lines: named first, then by descending last value."""
    return _mark(line) == _OTHERS, -np.asarray(line.get_ydata())[-1]


def _labelled_lines(ax: base.Axes) -> list[base.Line2D]:
    """Return the lines with a legend entry, including lines that no display drew."""
    lines = ax.get_lines()
    return [x for x in lines if _mark(x) or not str(x.get_label()).startswith("_")]
