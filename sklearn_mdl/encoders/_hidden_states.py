"""Encoder that pools the hidden states of a model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import KW_ONLY, dataclass
from functools import partial
from numbers import Integral
from typing import Any, ClassVar, Self, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from sklearn_mdl._core.io.content_hash import content_hash
from sklearn_mdl._core.numerics import default_torch, evaluation_mode
from sklearn_mdl._core.sklearn_compat import Constraints, Interval, fit_context
from sklearn_mdl._core.validation import invalid
from sklearn_mdl.encoders._base import attributes_fingerprint, weights_fingerprint
from sklearn_mdl.encoders._layers import check_layers, watched_layers
from sklearn_mdl.encoders._view_encoder import ViewEncoder
from sklearn_mdl.encoders._views import (
    Positions,
    check_views,
    checked_positions,
    pooled_positions,
    slices_of,
    view_name,
)

MASK = "attention_mask"
Inputs = Mapping[str, Tensor]


@dataclass(eq=False, repr=False)
class HiddenStatesEncoder(ViewEncoder):
    """Hidden states of a language model, or of any module with tokens, as features.

    Hidden states are pooled after each minibatch, so those of all rows need not fit
    into memory. Wrap the encoder in a :class:`~sklearn_mdl.encoders.CachedEncoder` to
    store features in a file and to resume an interrupted run.

    Parameters
    ----------
    module : torch.nn.Module
        The model, which runs on its current device in evaluation mode and is not
        modified. It is called as ``module(**inputs)``, with
        ``output_hidden_states=True`` unless `layers` are names.
    tokenizer : callable, default=None
        A Hugging Face tokenizer, or any function from a list of rows to a mapping of
        tensors, such as "input_ids" and "attention_mask". If None, rows are non-empty
        sequences of token ids, which may differ in length.
    layers : sequence of int or str, default=None
        Numbers refer to the hidden states of a Hugging Face model: 0 is the embeddings
        and -1 is the last layer. Names refer to inner modules whose output is a tensor
        (B, tokens, width), or a tuple that begins with such a tensor. If None, all
        hidden states.
    positions : str, int or sequence of them, default=("last", "mean")
        As for :func:`~sklearn_mdl.encoders.views_of`.
    batch_size : int, default=16
        Number of rows in a minibatch. It affects the last bits of features.
    verbose : int, default=0
        If above 0, show a progress bar.

    Attributes
    ----------
    view_names_ : list of str
        Views, such as ``layer 3|last``.
    view_widths_ : list of int
        Number of features of each view.
    view_slices_ : dict of str to slice
        Columns of each view, for :func:`~sklearn_mdl.readouts.view_readouts`.

    Examples
    --------
    >>> import torch
    >>> from torch import nn
    >>> from sklearn_mdl.encoders import HiddenStatesEncoder
    >>> class Model(nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.embed, self.mix = nn.Embedding(9, 4), nn.Linear(4, 4)
    ...     def forward(self, input_ids, attention_mask):
    ...         return self.mix(self.embed(input_ids))
    >>> encoder = HiddenStatesEncoder(Model(), layers=["embed", "mix"])
    >>> X = encoder.fit_transform([[1, 2, 3], [4, 5]])
    >>> X.shape, encoder.view_names_
    ((2, 16), ['embed|last', 'embed|mean', 'mix|last', 'mix|mean'])
    """

    unit = "row"

    module: nn.Module
    tokenizer: Callable[..., Inputs] | None = None
    _: KW_ONLY
    layers: Sequence[int | str] | None = None
    positions: Positions = ("last", "mean")
    batch_size: int = 16
    verbose: int = 0

    _parameter_constraints: ClassVar[Constraints] = {
        "module": [nn.Module],
        "tokenizer": [callable, None],
        "layers": [list, tuple, range, None],
        "positions": [str, Integral, list, tuple, range],
        "batch_size": [Interval(Integral, 1, None, closed="left")],
        "verbose": ["verbose"],
    }

    def __sklearn_clone__(self) -> Self:
        """Copy the settings, but share the model and tokenizer."""
        return self._copy_sharing("module", "tokenizer")

    @fit_context
    def fit(self, X: object, y: object = None) -> Self:
        """Encode the first row to determine the widths of the views.

        Parameters
        ----------
        X : sequence of str, or other input of the tokenizer
        y : ignored

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            If `layers`, `positions` or X are invalid, or if the output of the model or
            the tokenizer is invalid.
        TypeError
            If the model cannot be called with these inputs.
        """
        positions = checked_positions(self.positions)
        if self.layers is not None:
            kinds = {isinstance(layer, str) for layer in self.layers}
            if len(kinds) != 1 or len(set(self.layers)) < len(self.layers):
                required = "None, or different integers, or different module names"
                once = f"layers={list(dict.fromkeys(self.layers))}"
                others = "only integers, only names, or layers=None"
                cure = once if len(kinds) == 1 else others
                raise invalid("layers", required, self.layers, f"pass {cure}")
            if kinds == {True}:
                check_layers(self.module, list(map(str, self.layers)), "layers=None")
        states, _ = self._states(self._inputs(self._items(X)[:1]))
        self.view_names_ = [view_name(name, p) for name in states for p in positions]
        self.view_widths_ = [s.shape[-1] for s in states.values() for _ in positions]
        return self

    def _items(self, X: object) -> list[Any]:
        """Return the rows of X as a list."""
        is_table = isinstance(X, Mapping) or hasattr(X, "columns")
        if is_table or isinstance(X, str | bytes) or not hasattr(X, "__len__"):
            cure = "pass [X] for one row, list(X) for several, or one column of a table"
            raise invalid("X", "a sequence of rows, such as texts", X, cure)
        rows = list(cast(Sequence[Any], X))
        if not rows:
            raise invalid("X", "non-empty", rows, "pass a list such as [row]")
        return rows

    def _content(self, items: list[Any]) -> object:
        """Return the number of rows and a digest of the model's inputs."""
        starts, size = range(0, len(items), self.batch_size), self.batch_size
        inputs = (dict(self._inputs(items[start : start + size])) for start in starts)
        return [len(items), content_hash([content_hash(batch) for batch in inputs])]

    def _encode(self, items: list[Any], start: int) -> Iterator[np.ndarray]:
        """Yield the features of one minibatch at a time."""
        positions = checked_positions(self.positions)
        for first in range(start, len(items), self.batch_size):
            inputs = self._inputs(items[first : first + self.batch_size])
            states, real = self._states(inputs)
            vectors = [
                pooled_positions(
                    state[:, None].float(), real.to(state.device), positions, first
                )
                for state in states.values()  # layers may be on different devices
            ]
            rows = torch.cat([vector.flatten(1).cpu() for vector in vectors], 1)
            check_views(rows, slices_of(self.view_names_, self.view_widths_), first)
            yield rows.numpy()

    def fingerprint(self) -> dict[str, object]:
        """Return a description of the encoder for keys of a cache. Call fit first.

        Returns
        -------
        fingerprint : dict
            JSON data about the model, its weights, the layers and the positions.
        """
        kind = type(self.module)
        return {
            "encoder": type(self).__name__,
            "model": f"{kind.__module__}.{kind.__qualname__}",
            "options": repr(self.module),
            "attributes": attributes_fingerprint(self.module),
            "weights": weights_fingerprint(self.module),
            "views": self.view_names_,
        }

    def _device(self) -> torch.device:
        """Return the device of the model's first tensor."""
        tensors = [*self.module.parameters(), *self.module.buffers()]
        return tensors[0].device if tensors else torch.device("cpu")

    def _inputs(self, rows: list[Any]) -> Inputs:
        """Return the model's inputs for a minibatch of rows."""
        if self.tokenizer is None:
            return _pad(rows)
        options: dict[str, object] = {}
        if hasattr(self.tokenizer, "pad_token"):  # a Hugging Face tokenizer
            options = {"padding": True, "truncation": True, "return_tensors": "pt"}
        output = self.tokenizer(rows, **options)
        inputs = dict(output) if isinstance(output, Mapping) else {}
        if not inputs or not all(isinstance(v, Tensor) for v in inputs.values()):
            kinds = {k: type(v).__name__ for k, v in inputs.items()} or output
            cure = 'make it return {"input_ids": torch.tensor(ids)}'
            raise invalid("The tokenizer's output", "a dict of tensors", kinds, cure)
        return inputs

    def _states(self, inputs: Inputs) -> tuple[dict[int | str, Tensor], Tensor]:
        """Return each layer's hidden states (B, tokens, width) and the token mask."""
        moved = {name: tensor.to(self._device()) for name, tensor in inputs.items()}
        is_named = self.layers is not None and isinstance(self.layers[0], str)
        names = list(cast(Sequence[str], self.layers)) if is_named else []
        outputs: dict[str, Any] = {}

        def keep(name: str, output: object) -> None:
            first = output[0] if isinstance(output, tuple) and output else output
            # Later layers may overwrite an output in place.
            outputs[name] = first.clone() if isinstance(first, Tensor) else copy(first)

        options = {} if is_named else {"output_hidden_states": True}
        with (
            default_torch(),
            torch.inference_mode(),
            evaluation_mode(self.module),
            watched_layers(self.module, names, keep),
        ):
            output = self.module(**moved, **options)
        states: dict[int | str, Any] = {name: outputs.get(name) for name in names}
        if not is_named:
            states = self._numbered(output)
        shape = tuple(next(iter(moved.values())).shape[:2])
        for name, out in states.items():
            if not isinstance(out, Tensor) or out.ndim != 3 or out.shape[:2] != shape:
                given = tuple(getattr(out, "shape", ())) or type(out).__name__
                given = "none, since it did not run" if out is None else given
                required = f"one tensor of shape ({', '.join(map(str, shape))}, width)"
                words = f"The output of layer {name!r} must be {required}, got {given}"
                raise ValueError(f"{words}; pass other layers")
        mask = moved.get(MASK)
        real = torch.ones(shape, dtype=torch.bool) if mask is None else mask.bool()
        return states, real

    def _numbered(self, output: object) -> dict[int | str, Tensor]:
        """Return the hidden states of the chosen layers, keyed by number from 0."""
        states = getattr(output, "hidden_states", None)
        if states is None:
            modules, kind = self.module.named_modules(), type(output).__name__
            inner = [n for n, m in modules if n and not [*m.children()]]
            cure = f"layers={inner[:1]}" if inner else "a Hugging Face model"
            what = f"an object with the attribute hidden_states, got {kind}"
            raise ValueError(f"The module must return {what}; for example, pass {cure}")
        n = len(states)
        numbers = range(n) if self.layers is None else self.layers
        if not all(isinstance(i, Integral) and -n <= i < n for i in numbers):
            required, cure = f"integers from {-n} to {n - 1}", "omit all others"
            raise invalid("layers", required, self.layers, cure)
        places = [int(i) % n for i in numbers]
        if len(set(places)) < len(places):
            cure = f"pass layers={list(dict.fromkeys(places))}"
            raise invalid("layers", "numbers of different layers", self.layers, cure)
        return {i: states[i] for i in places}


def _pad(rows: list[Any]) -> Inputs:
    """Return token ids padded on the right, and the mask of real tokens."""
    tokens = []
    for row in rows:
        ids = np.asarray(row)
        if ids.ndim != 1 or ids.dtype.kind not in "iu":
            required = "a non-empty list of token ids if tokenizer=None"
            raise invalid("A row of X", required, row, "pass a tokenizer, or omit it")
        tokens.append(torch.from_numpy(ids.astype(np.int64)))
    pad = partial(pad_sequence, batch_first=True)
    return {"input_ids": pad(tokens), MASK: pad([torch.ones_like(t) for t in tokens])}
