"""Views of activations: a table with columns for each layer and position."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import accumulate, product
from numbers import Integral
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from sklearn_mdl._core.io.append_array import GrowingArray
from sklearn_mdl._core.io.whole_files import refuse_foreign
from sklearn_mdl._core.numerics import as_array
from sklearn_mdl._core.validation import invalid

AXES = ("example", "layer", "position", "feature")
POSITIONS = ("first", "last", "mean", "max")
NUMBERS: dict[str | int, str | int] = {"first": 0, "last": -1}
READ_AT_ONCE = 2**24  # values
Positions = Sequence[str | int] | str | int


class Views(NamedTuple):
    """Views joined in one table, and the columns of each view.

    Attributes
    ----------
    X : ndarray of shape (n_examples, n_views * n_features), float32
        Read-only. It is a memory map if a path was given.
    columns : dict of str to slice
        Columns keyed by view name, such as ``layer 3|last``, for
        :func:`~sklearn_mdl.readouts.view_readouts`.
    """

    X: NDArray[np.float32]
    columns: dict[str, slice]


def views_of(
    activations: Any,
    axes: Sequence[str] = AXES,
    *,
    mask: ArrayLike | None = None,
    layers: Sequence[int] | None = None,
    positions: Positions = ("last", "mean"),
    path: str | PathLike[str] | None = None,
) -> Views:
    """Create a view for each combination of layer and position.

    A view is one way to turn an example into a vector, such as the last token of layer
    3 or the mean over all tokens of layer 7.

    Parameters
    ----------
    activations : array, torch.Tensor, or list of arrays
        Hidden states with the given axes. Memory maps and h5py datasets are read in
        parts. A list contains one array per example, and examples may have different
        numbers of tokens.
    axes : sequence of str, default=("example", "layer", "position", "feature")
        Names of the axes, in the order of `activations`. "layer" and "position" may be
        missing. For a list, "example" is the list itself and not an axis of its arrays.
    mask : array-like of shape (n_examples, n_positions), default=None
        True or 1 for real tokens, like the attention mask of a tokenizer. Padding may
        be on either side. If None, all tokens are real.
    layers : sequence of int, default=None
        Layers to use, counted from 0, or from the end if negative. If None, all layers.
    positions : str, int or sequence of them, default=("last", "mean")
        "first", "last", "mean" and "max" refer to the real tokens of an example. An
        integer is the index of a real token, counted from the end if it is negative.
    path : path-like, default=None
        A new ``.npy`` file for the table, which may then exceed memory. The file is
        written completely or not at all.

    Returns
    -------
    views : Views
        The table ``X`` and the ``columns`` of each view, layer by layer.

    Raises
    ------
    ValueError
        If axes, mask, layers or positions do not fit the activations, or if an example
        is too short for a position. Also if a value is not finite as float32, or if the
        file already exists.

    See Also
    --------
    sklearn_mdl.encoders.HiddenStatesEncoder : Run a model and create the views.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_mdl.encoders import views_of
    >>> states = np.random.default_rng(0).normal(size=(8, 3, 5, 4))
    >>> views = views_of(states, positions=["last", "max"])
    >>> views.X.shape, list(views.columns)[:3]
    ((8, 24), ['layer 0|last', 'layer 0|max', 'layer 1|last'])
    """
    if hasattr(activations, "to_numpy"):  # a data frame
        activations = activations.to_numpy()
    names = _checked_axes(axes)
    sizes = _sizes(activations, names)
    taken = _checked_layers(layers, sizes["layer"], "layer" in names)
    wanted = checked_positions(positions) if "position" in names else ["last"]
    shown = taken if "layer" in names else [None]
    places = wanted if "position" in names else [None]
    views = [view_name(layer, position) for layer, position in product(shown, places)]
    columns = slices_of(views, [sizes["feature"]] * len(views))
    place = None if path is None else Path(path)
    if place is not None:
        refuse_foreign(place)

    def blocks() -> Iterator[np.ndarray]:
        start = 0
        for states, real in _parts(activations, names, sizes, mask):
            rows = pooled_positions(states[:, taken], real, wanted, start).flatten(1)
            check_views(rows, columns, start)
            yield rows.numpy()
            start += len(rows)

    table = GrowingArray(len(views) * sizes["feature"], place, dtype="<f4")
    table.extend(blocks())
    return Views(table.rows, columns)


def slices_of(names: Sequence[str], widths: Sequence[int]) -> dict[str, slice]:
    """Return the columns of each view in the joined table, keyed by view name."""
    ends = list(accumulate(widths))
    return dict(zip(names, map(slice, [0, *ends[:-1]], ends), strict=True))


def view_name(layer: int | str | None, position: str | int | None) -> str:
    """Return the name of a view, without a layer or position that is None."""
    layer = f"layer {layer}" if isinstance(layer, Integral) else layer
    name = "|".join(str(part) for part in (layer, position) if part is not None)
    return name or "features"


def checked_positions(positions: Positions) -> list[str | int]:
    """Return positions as a list, or raise ValueError for unknown or repeated ones."""
    given = [positions] if isinstance(positions, str | int) else list(positions)
    known = [p in POSITIONS if isinstance(p, str) else _is_whole(p) for p in given]
    if not given or not all(known) or len(set(given)) < len(given):
        required = f"one or more different values, from {POSITIONS} and the integers"
        raise invalid("positions", required, positions, "pass positions='last'")
    return [p if isinstance(p, str) else int(p) for p in given]


def pooled_positions(
    states: Tensor, real: Tensor, positions: Sequence[str | int], start: int = 0
) -> Tensor:
    """Reduce the tokens of each example to one vector for each position.

    Parameters
    ----------
    states : Tensor of shape (n, n_layers, n_tokens, width)
    real : Tensor of shape (n, n_tokens), bool
        True for real tokens.
    positions : sequence of str or int
    start : int, default=0
        Index of the first example, used in messages.

    Returns
    -------
    vectors : Tensor of shape (n, n_layers, n_positions, width)

    Raises
    ------
    ValueError
        If an example has too few tokens.
    """
    counts = real.sum(1)
    shown = real[:, None, :, None]
    # Move real tokens to the front, in order, since padding may be on either side.
    order = torch.argsort((~real).to(torch.int8), dim=1, stable=True)
    vectors = []
    for position in positions:
        number = NUMBERS.get(position, position)
        needed = 1 if isinstance(number, str) else max(number + 1, -number)
        if bool((counts < needed).any()):
            row = int((counts < needed).nonzero()[0])
            other = ", or use another position such as 'mean'" * int(counts[row] > 0)
            raise ValueError(
                f"Example {start + row} must have {needed} or more tokens for position "
                f"{position!r}, got {int(counts[row])}; omit the example{other}"
            )
        if not isinstance(number, str):
            places = number if number >= 0 else counts + number
            rows = torch.arange(len(states), device=states.device)
            vectors.append(states[rows, :, order[rows, places]])
        elif number == "mean":
            vectors.append(states.where(shown, 0.0).sum(2) / counts[:, None, None])
        else:
            vectors.append(states.where(shown, -math.inf).amax(2))
    return torch.stack(vectors, 2)


def check_views(rows: Tensor, columns: dict[str, slice], start: int) -> None:
    """Raise ValueError if float32 rows (n, width) contain a non-finite value."""
    if bool(rows.isfinite().all()):
        return
    row, place = (~rows.isfinite()).nonzero()[0].tolist()
    name = next(k for k, view in columns.items() if view.start <= place < view.stop)
    raise ValueError(
        f"Activations must be finite float32 numbers, got {rows[row, place].item()} in "
        f"example {start + row}, view {name!r}; if the model runs in float16, run "
        "model.bfloat16(), otherwise omit the example or the view"
    )


def _checked_axes(axes: Sequence[str]) -> list[str]:
    names = list(axes)
    known = set(names) <= set(AXES) and len(set(names)) == len(names)
    if not known or not {"example", "feature"} <= set(names):
        required = f"distinct names among {AXES}, including 'example' and 'feature'"
        raise invalid("axes", required, axes, f"name each axis, as in axes={AXES}")
    return names


def _checked_layers(
    layers: Sequence[int] | None, n_layers: int, named: bool
) -> list[int]:
    if layers is None:
        return list(range(n_layers))
    if not named:
        raise invalid("layers", "None if axes omit 'layer'", layers, "pass layers=None")
    given = list(layers)
    fits = all(_is_whole(n) and -n_layers <= n < n_layers for n in given)
    numbers = [int(layer) % n_layers for layer in given] if fits else []
    if not numbers or len(set(numbers)) < len(given):
        required = f"None or different layers from {-n_layers} to {n_layers - 1}"
        raise invalid("layers", required, layers, "pass layers=[-1]")
    return numbers


def _is_whole(value: object) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _sizes(activations: Any, names: list[str]) -> dict[str, int]:
    """Return the length of each axis, which is 1 if the axis is missing.

    For a list, all lengths except the number of examples come from its first array.
    """
    is_list = isinstance(activations, list | tuple)
    if is_list and not activations:
        raise invalid("activations", "non-empty", activations, "pass [array]")
    axes = [name for name in names if not (is_list and name == "example")]
    first, what = activations, "activations"
    if is_list:
        first, what = activations[0], "Example 0 of activations"
    shape = _shape(first, axes, what)
    sizes = dict.fromkeys(AXES, 1) | dict(zip(axes, shape, strict=True))
    return sizes | {"example": len(activations)} if is_list else sizes


def _parts(
    activations: Any, names: list[str], sizes: dict[str, int], mask: ArrayLike | None
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield blocks of examples (n, layers, tokens, width) and masks of real tokens."""
    n = sizes["example"]
    if isinstance(activations, list | tuple):
        if mask is not None:
            words = "pass mask=None and each example without padding"
            raise ValueError(f"mask must be None for a list, got a mask; {words}")
        axes = [name for name in names if name != "example"]
        fixed = {name: sizes[name] for name in axes if name != "position"}
        for number, example in enumerate(activations):
            what = f"Example {number} of activations"
            lengths = dict(zip(axes, _shape(example, axes, what), strict=True))
            if any(lengths[name] != size for name, size in fixed.items()):
                cure = f"omit activations[{number}]"
                raise invalid(what, f"like the first, {fixed}", lengths, cure)
            states = _in_order(example, axes)[None]
            yield states, torch.ones(1, states.shape[2], dtype=torch.bool)
        return
    real = _checked_mask(mask, (n, sizes["position"]))
    step = max(1, READ_AT_ONCE // max(1, math.prod(activations.shape) // n))
    before = (slice(None),) * names.index("example")
    for start in range(0, n, step):
        part = activations[(*before, slice(start, start + step))]
        yield _in_order(part, names), real[start : start + step]


def _checked_mask(mask: ArrayLike | None, shape: tuple[int, int]) -> Tensor:
    if mask is None:
        return torch.ones(shape, dtype=torch.bool)
    real = np.asarray(mask)
    required = f"of shape {shape}, 1 for real tokens and 0 for padding"
    known = np.isin(real, (0, 1))
    if real.shape != shape or not known.all():
        given = real.shape if real.shape != shape else real[~known][0].item()
        raise invalid("mask", required, given, "pass the tokenizer's attention_mask")
    return torch.as_tensor(real.astype(bool))


def _shape(array: Any, names: Sequence[str], what: str) -> tuple[int, ...]:
    shape = tuple(getattr(array, "shape", ()))
    kind = str(getattr(array, "dtype", ""))
    if len(shape) != len(names) or 0 in shape or "complex" in kind:
        required = f"an array of real numbers with the non-empty axes {tuple(names)}"
        given = f"shape {shape} of {kind}" if kind else type(array).__name__
        cure = "pass such an array, and list its axes in axes"
        raise ValueError(f"{what} must be {required}, got {given}; {cure}")
    return shape


def _in_order(array: Any, names: Sequence[str]) -> Tensor:
    """Return a float32 tensor with axes in the order of `AXES`.

    Missing axes get length 1, except for "example", which stays missing.
    """
    if not isinstance(array, Tensor):
        with np.errstate(over="ignore"):  # check_views rejects infinities later
            array = torch.from_numpy(np.array(as_array(array), dtype=np.float32))
    tensor: Tensor = array.detach().cpu().float()
    tensor = tensor.permute([names.index(axis) for axis in AXES if axis in names])
    for place, axis in enumerate(AXES[1:], start=int("example" in names)):
        if axis not in names:
            tensor = tensor.unsqueeze(place)
    return tensor
