"""Cumulative codelengths and regrets against examples."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sklearn_mdl.codelength import regret
from sklearn_mdl.display import canvas
from sklearn_mdl.display.cells import codelengths_of, dataset_of
from sklearn_mdl.display.references import (
    Reference,
    featureless_code,
    reference_code,
    uniform_code,
)
from sklearn_mdl.display.strategies import Strategies, best_blocks, mix

# Of main lines and, in their back, of thin ones.
_WEIGHTS = (
    {"linewidth": 2.0, "zorder": 2.5},
    {"linewidth": 1.0, "zorder": 2.0},
)
_NAMED, _OTHERS = "named", "others"  # what lines that stand in a legend are told by
_LONG_NAMES = {"best": "best readout", "gaussian": "Gaussian"}


class CodelengthDisplay:
    """Cumulative codelengths, or regrets to a reference, against examples.

    The regret of encoders or readouts to learning from scratch, or to another one, is
    the paper's figure of data efficiency; that of switching strategies to one of them
    its comparison of strategies (Li, Bornschein and Hutter, 2023, Section 4 and
    Appendix A.6).

    Parameters
    ----------
    curves : mapping of str to array-like of shape (n_samples,)
        Codelength of each example, in nats, under each name.
    reference : array-like of shape (n_samples,), optional
        Codelength of each example, in nats, under the code to compare with: the curves
        become regrets, which are below zero where the curve is the better code.
    reference_name : str, optional
        What the vertical axis calls the reference.
    thin : mapping of str to str, optional
        The curves to draw thin, each with the legend entry that it shares with others.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Where the curves were drawn last.
    lines_ : dict of str to matplotlib Line2D
        The drawn curves.
    """

    def __init__(
        self,
        curves: Mapping[str, ArrayLike],
        *,
        reference: ArrayLike | None = None,
        reference_name: str | None = None,
        thin: Mapping[str, str] | None = None,
    ) -> None:
        self.curves = {
            name: canvas.vector(c, f"curve {name!r}") for name, c in curves.items()
        }
        codes = list(self.curves.values())
        if not codes:
            raise ValueError("`curves` must hold a curve, got none: give one or more.")
        self.reference = None
        if reference is not None:
            self.reference = canvas.vector(reference, "reference")
            codes.append(self.reference)
        self.reference_name = reference_name or "reference"
        self.thin = dict(thin or {})
        lengths = sorted({len(code) for code in codes})
        if len(lengths) > 1:
            raise ValueError(
                "The curves and the reference must be of one length, got lengths "
                f"{lengths}: take them from the same examples."
            )

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        reference: Reference = "auto",
        readouts: str | None = "best",
        name: str | None = None,
        ax: Any = None,
        **plot_options: Any,
    ) -> CodelengthDisplay:
        """Draw the curve of a switcher and, as thin lines, those of its readouts.

        Parameters
        ----------
        estimator : MDLReadoutSwitcher or MDLReadoutSwitcherRegressor
            A fitted one.
        reference : {"auto", "uniform", "gaussian", "best"}, array-like, mapping or None
            The uniform code of classes, or the Gaussian that looks at no feature of
            real labels ("auto" takes the one of the two that there is); the readout
            that is best in hindsight, the code given of shape (n_samples,), that under
            its name, or none. What label frequencies cost is
            ``{"label frequencies": frequency_codelengths(y)}``, with the labels in the
            order walked.
        readouts : {"best", "all"} or None
            The best readout of each architecture, all readouts, or none.
        name : str, optional
            Name of the switcher's curve; by default that of its class.
        ax, **plot_options : optional
            Passed to `plot`.
        """
        codelengths = canvas.fitted(estimator, "codelengths_")
        losses = np.asarray(estimator.readout_losses_, dtype=np.float64)
        codes = featureless_code(estimator, len(losses))
        if isinstance(reference, str) and reference == "auto":
            (reference,) = codes
        codes["best"] = losses[:, losses.sum(axis=0).argmin()]
        code, code_name = reference_code(reference, codes)
        if isinstance(reference, str):
            code_name = _LONG_NAMES.get(reference, reference)
        name = name or type(estimator).__name__
        thin_curves, thin = _readout_curves(estimator, losses, readouts, name)
        curves = {name: codelengths, **thin_curves}
        display = cls(curves, reference=code, reference_name=code_name, thin=thin)
        return display.plot(ax, **plot_options)

    @classmethod
    def from_codelengths(
        cls,
        curves: Mapping[str, ArrayLike],
        *,
        reference: Reference = None,
        n_classes: int | None = None,
        ax: Any = None,
        **plot_options: Any,
    ) -> CodelengthDisplay:
        """Draw given codelengths, for example one curve per encoder.

        Parameters
        ----------
        curves : mapping of str to array-like of shape (n_samples,)
            Codelength of each example, in nats, under each name.
        reference : str, array-like of shape (n_samples,), mapping or None
            The name of a curve, ``"uniform"`` together with `n_classes`, the code
            given, that under its name as in ``{"from scratch": codelengths}``, or none.
        n_classes : int, optional
            Number of classes of the uniform code.
        ax, **plot_options : optional
            Passed to `plot`.
        """
        n_samples = max((np.size(curve) for curve in curves.values()), default=0)
        codes = {**uniform_code(n_samples, n_classes), **curves}
        code, code_name = reference_code(reference, codes)
        display = cls(curves, reference=code, reference_name=code_name)
        return display.plot(ax, **plot_options)

    @classmethod
    def from_scorer(
        cls,
        scorer: Any,
        dataset: str | None = None,
        *,
        reference: Reference = "uniform",
        ax: Any = None,
        **plot_options: Any,
    ) -> CodelengthDisplay:
        """Draw the encoders of a ranking on one dataset, means over its orders.

        Parameters
        ----------
        scorer : RepresentationScorer or Ranking
            A fitted one.
        dataset : str, optional
            Its name; not needed if there is only one.
        reference : str, array-like of shape (n_samples,), mapping or None
            The name of an encoder, ``"uniform"``, the code given, that under its name,
            or none.
        ax, **plot_options : optional
            Passed to `plot`.
        """
        dataset = dataset_of(scorer, dataset)
        courses = codelengths_of(scorer, dataset)
        n_classes = next(c.n_classes for c in scorer.cells_ if c.dataset == dataset)
        return cls.from_codelengths(
            {name: orders.mean(axis=0) for name, orders in courses.items()},
            reference=reference,
            n_classes=n_classes,
            ax=ax,
            **plot_options,
        )

    @classmethod
    def from_losses(
        cls,
        losses: ArrayLike,
        strategies: Strategies | None = None,
        *,
        weights: ArrayLike | None = None,
        reference: Reference = "best readout",
        ax: Any = None,
        **plot_options: Any,
    ) -> CodelengthDisplay:
        """Draw switching strategies that read the same losses.

        Parameters
        ----------
        losses : array-like of shape (n_samples, n_readouts)
            In nats: ``readout_losses_`` of a switcher, or losses out of a file.
        strategies : mapping of str to SwitchingPrior, optional
            Priors, or their names, under the names that the legend shows; by default
            those of the paper, the learned share and the run-length prior.
        weights : array-like of shape (n_readouts,), optional
            Prior weights of the readouts; uniform if not given.
        reference : str, array-like of shape (n_samples,), mapping or None
            ``"best readout"`` in hindsight, ``"best blocks"`` (the best sequence of at
            most three blocks of one readout each, so that what remains is the cost of
            switching), the name of a strategy, the code given, that under its name, or
            none.
        ax, **plot_options : optional
            Passed to `plot`.
        """
        curves = mix(losses, strategies, weights)
        array = np.asarray(losses)
        codes: dict[str, ArrayLike] = {
            "best readout": array[:, array.sum(axis=0).argmin()]
        }
        if isinstance(reference, str) and reference == "best blocks":
            codes[reference] = best_blocks(array, 3).losses
        code, code_name = reference_code(reference, {**codes, **curves})
        display = cls(curves, reference=code, reference_name=code_name)
        return display.plot(ax, **plot_options)

    def plot(
        self,
        ax: Any = None,
        *,
        log_x: bool = False,
        symlog_y: bool = False,
        max_points: int = 2000,
        max_named: int = 12,
    ) -> CodelengthDisplay:
        """Draw the curves; the legend lists them in their order at the last example.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; by default on a new figure.
        log_x : bool, default=False
            Whether examples are spaced logarithmically.
        symlog_y : bool, default=False
            Whether nats beyond ten are spaced logarithmically on both sides of zero, so
            that one bad curve does not press the others flat.
        max_points : int, default=2000
            Longer curves are thinned to at most so many points, the last one kept.
        max_named : int, default=12
            Of more legend entries only so many are named and have a colour: what is
            not thin, what is below all others at any example, and what ends lowest.
            The others are drawn grey, and the legend counts them.

        Returns
        -------
        display : CodelengthDisplay
            The display itself.
        """
        values = self._values()
        n_samples = len(next(iter(values.values())))
        rows = canvas.thinned(n_samples, max_points, log_x)
        drawn = {name: nats[rows] for name, nats in values.items()}
        entries = {name: self.thin.get(name, name) for name in self.curves}
        named = self._named(drawn, entries, max_named)
        n_others = len(set(entries.values())) - len(named)
        others = f"and {n_others} other{'s' * (n_others > 1)}"
        self.ax_ = ax = canvas.axes_beside_legend(
            ax, [*named, others] if n_others else named
        )
        self.figure_ = ax.figure
        # An earlier display keeps its colours.
        n_taken = sum(_kind(line) != _OTHERS for line in _labelled_lines(ax))
        self.lines_: dict[str, Any] = {}
        labelled: set[str] = set()  # the first line of an entry speaks for all of them
        for name, nats in drawn.items():
            entry, kind, style = others, _OTHERS, canvas.OTHERS
            if entries[name] in named:
                entry, kind = entries[name], _NAMED
                style = canvas.line_style(n_taken + named.index(entry))
                style |= _WEIGHTS[name in self.thin]
            (self.lines_[name],) = ax.plot(rows + 1, nats, **style)
            if entry not in labelled:
                self.lines_[name].set_label(entry)
                self.lines_[name].sklearn_mdl_entry = kind
            labelled.add(entry)
        self._label_axes(log_x, symlog_y)
        lines = sorted(_labelled_lines(ax), key=_place_in_legend)
        canvas.put_legend(ax, lines, [line.get_label() for line in lines])
        return self

    def _named(
        self,
        drawn: Mapping[str, NDArray[np.float64]],
        entries: Mapping[str, str],
        max_named: int,
    ) -> list[str]:
        """Return the legend entries that are named, in their order."""
        labels = list(dict.fromkeys(entries.values()))
        is_thin = np.array([label in self.thin.values() for label in labels])
        lowest = np.stack(
            [
                np.min([y for name, y in drawn.items() if entries[name] == label], 0)
                for label in labels
            ]
        )
        rivals = is_thin if is_thin.any() else ~is_thin
        race = np.where(rivals[:, None], lowest, np.inf)
        first = np.isclose(race, race.min(axis=0))
        leads = (first & (first.sum(axis=0) == 1)).any(axis=1)  # early on, all tie
        place = np.where(rivals, np.where(leads, 1, 2), 0)
        chosen = canvas.named_lines(place, lowest[:, -1], max_named)
        return [labels[i] for i in sorted(chosen)]

    def _values(self) -> dict[str, NDArray[np.float64]]:
        """Return what is drawn under each name, in nats."""
        if self.reference is None:
            return {name: np.cumsum(curve) for name, curve in self.curves.items()}
        return {name: regret(c, self.reference) for name, c in self.curves.items()}

    def _label_axes(self, log_x: bool, symlog_y: bool) -> None:
        """Give the axes their scale, their labels and the zero line of a regret."""
        if log_x:
            self.ax_.set_xscale("log")
        if symlog_y:
            self.ax_.set_yscale("symlog", linthresh=10.0)
        self.ax_.set(xlabel="examples", ylabel="cumulative codelength (nats)")
        if self.reference is not None:
            label = f"regret to {self.reference_name} (nats)"
            self.ax_.set_ylabel(label, parse_math=False, wrap=True)
            self.ax_.axhline(0.0, color="0.6", linewidth=0.8, zorder=0)
        self.ax_.spines[["top", "right"]].set_visible(False)

    def frame(self) -> Any:
        """Return the curves, not thinned, as a DataFrame: one row per example."""
        table = canvas.plot_extra("pandas").DataFrame(self._values())
        return table.set_axis(np.arange(1, len(table) + 1)).rename_axis("examples")


def _readout_curves(
    estimator: Any, losses: NDArray[np.float64], readouts: str | None, taken: str
) -> tuple[dict[str, NDArray[np.float64]], dict[str, str]]:
    """Return the readouts' curves by name, and the legend entry of each."""
    if readouts not in ("best", "all", None):
        raise ValueError(
            f"`readouts` must be 'best', 'all' or None, got {readouts!r}: choose one."
        )
    curves: dict[str, NDArray[np.float64]] = {}
    entries: dict[str, str] = {}
    if readouts is None:
        return curves, entries
    for architecture, members in canvas.architectures(estimator).items():
        best = members[losses[:, members].sum(axis=0).argmin()]
        for k in members if readouts == "all" else [best]:
            name = estimator.readout_names_[k]
            if name in (taken, *curves):
                name = f"{name} [{k}]"  # or one curve would take the other's place
            curves[name] = losses[:, k]
            entries[name] = architecture if readouts == "all" else name
    return curves, entries


def _kind(line: Any) -> str | None:
    """Return what a display of ours has said of a line."""
    kind: str | None = getattr(line, "sklearn_mdl_entry", None)
    return kind


def _labelled_lines(ax: Any) -> list[Any]:
    """Return the lines that stand in a legend, ours and those of others."""
    return [
        line
        for line in ax.get_lines()
        if _kind(line) or not line.get_label().startswith("_")
    ]


def _place_in_legend(line: Any) -> tuple[bool, float]:
    """Return a key that sorts lines from the top, those without a name last."""
    return _kind(line) == _OTHERS, -line.get_ydata()[-1]
