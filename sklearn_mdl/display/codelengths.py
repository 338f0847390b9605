"""Cumulative codelengths and regrets against examples."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sklearn_mdl.codelength import regret, uniform_codelength
from sklearn_mdl.display import canvas
from sklearn_mdl.display.cells import codelengths_of, dataset_of
from sklearn_mdl.display.strategies import Strategies, best_blocks, mix

# Of main lines and, in their back, of thin ones.
_WEIGHTS = (
    {"linewidth": 2.0, "zorder": 2.5},
    {"linewidth": 1.0, "zorder": 2.0},
)
_LONG_NAMES = {"best": "best readout", "gaussian": "Gaussian"}
Reference = str | ArrayLike | Mapping[str, ArrayLike] | None


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
        codes = _featureless_code(estimator, len(losses))
        if isinstance(reference, str) and reference == "auto":
            (reference,) = codes
        codes["best"] = losses[:, losses.sum(axis=0).argmin()]
        code, code_name = _reference(reference, codes)
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
        codes = {**_uniform_code(n_samples, n_classes), **curves}
        code, code_name = _reference(reference, codes)
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
        code, code_name = _reference(reference, {**codes, **curves})
        display = cls(curves, reference=code, reference_name=code_name)
        return display.plot(ax, **plot_options)

    def plot(
        self,
        ax: Any = None,
        *,
        log_x: bool = False,
        symlog_y: bool = False,
        max_points: int = 2000,
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

        Returns
        -------
        display : CodelengthDisplay
            The display itself.
        """
        entries = {name: self.thin.get(name, name) for name in self.curves}
        labels = list(dict.fromkeys(entries.values()))
        self.ax_ = ax = canvas.axes_beside_legend(ax, labels)
        self.figure_ = ax.figure
        n_taken = len(_labelled_lines(ax))  # an earlier display keeps its colours
        self.lines_: dict[str, Any] = {}
        for name, values in self._values().items():
            rows, entry = canvas.thinned(len(values), max_points, log_x), entries[name]
            # The first line of an entry speaks for all of them in the legend.
            label = None if entry in map(entries.get, self.lines_) else entry
            style = canvas.line_style(n_taken + labels.index(entry))
            style |= _WEIGHTS[name in self.thin]
            (line,) = ax.plot(rows + 1, values[rows], label=label, **style)
            self.lines_[name] = line
        self._label_axes(log_x, symlog_y)
        lines = sorted(_labelled_lines(ax), key=lambda line: -line.get_ydata()[-1])
        canvas.put_legend(ax, lines, [line.get_label() for line in lines])
        return self

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


def _featureless_code(estimator: Any, n_samples: int) -> dict[str, ArrayLike]:
    """Return the code without features that goes with the labels of a switcher."""
    if hasattr(estimator, "classes_"):
        return _uniform_code(n_samples, len(estimator.classes_))
    return {"gaussian": estimator.reference_codelengths_}


def _uniform_code(n_samples: int, n_classes: int | None) -> dict[str, ArrayLike]:
    """Return the uniform code, in nats per example, if the classes are counted."""
    if n_classes is None:
        return {}
    return {"uniform": np.full(n_samples, uniform_codelength(1, n_classes))}


def _reference(
    reference: Reference, codes: Mapping[str, ArrayLike]
) -> tuple[ArrayLike | None, str | None]:
    """Return the code to compare with, in nats per example, and its name."""
    if isinstance(reference, Mapping):
        if len(reference) != 1:
            raise ValueError(
                "`reference` must map one name to one code, got "
                f"{list(reference)}: compare with one of them."
            )
        ((name, code),) = reference.items()
        return code, str(name)
    if not isinstance(reference, str):
        return reference, None
    if reference not in codes:
        counted = {"uniform", "gaussian"} & set(codes)
        hint = "" if counted else " ('uniform' needs `n_classes`)"
        raise ValueError(
            f"`reference` must be an array or one of {list(codes)}, got {reference!r}: "
            f"name one of these{hint}."
        )
    return codes[reference], reference


def _labelled_lines(ax: Any) -> list[Any]:
    """Return the lines that a legend names."""
    return [line for line in ax.get_lines() if not line.get_label().startswith("_")]
