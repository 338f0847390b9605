"""Readouts on frozen encoders for rows that are images."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator, clone
from torch import Tensor

from sklearn_mdl._core.images.rows import Shape, check_pixels, image_shape_of, pixels_of
from sklearn_mdl._core.sklearn_compat import Constraints
from sklearn_mdl._core.stream.learner import Batches, Learned, Learner, Report
from sklearn_mdl._core.stream.outcomes import ClassLabels
from sklearn_mdl._core.stream.samples import SampleStore
from sklearn_mdl._core.stream.scaling import ReExpression, ScaledRows
from sklearn_mdl._core.stream.steps import PassState, remaining, shown
from sklearn_mdl.encoders import (
    AnyEncoder,
    CachedEncoder,
    ImageEncoder,
    distinct_encoders,
    image_encoder_of,
)
from sklearn_mdl.readouts._base import Readout, check_readout, learners_in
from sklearn_mdl.readouts._build import Context, Members, grouped
from sklearn_mdl.readouts._finetune.base import ImageReadout

N_ENCODED = "n_encoded"


class EncodingLearner(Learner):
    """Learner for readouts on one encoder, with a separate pass over its features.

    Images are encoded when their labels are predicted, in whole blocks with zeros in
    place of unknown rows. Features are then stored, scaled and replayed as in a run
    over precomputed features. So codelengths are the same as in such a run, except for
    readouts that learn row by row.

    Parameters
    ----------
    members : sequence of (int, readout)
        Readouts, each with its position among all readouts of the run.
    encoder : TimmEncoder, TorchEncoder or CachedEncoder
        The fitted encoder.
    shape : (H, W, C)
        Shape of the images.
    context : Context
        Context of the run over images.

    Attributes
    ----------
    inner : list of Learner
        Learners of the readouts.
    """

    def __init__(
        self,
        members: Sequence[tuple[int, Readout]],
        encoder: BaseEstimator,
        shape: Shape,
        context: Context,
    ) -> None:
        self.view = context.view
        self.place = context.view.scalings.index(None)
        self.encoder = encoder
        self.shape = shape
        self.seed = context.seed
        self.outcome = ClassLabels(context.n_classes)
        self.width = sum(image_encoder_of(encoder).view_widths_)
        feature_context = context._replace(n_features=self.width, n_jobs=1)
        self.inner = learners_in(feature_context, dict(members))
        self.columns = [k for learner in self.inner for k in learner.columns]
        self.foreign = any(learner.foreign for learner in self.inner)
        self._last: tuple[Tensor, np.ndarray] | None = None  # rows and features

    def attach(self, rows: ScaledRows) -> None:
        """Begin the pass over features."""
        self.images = rows
        size, device = rows.batch_size, rows.device
        scalings = self.inner[0].view.scalings
        store = SampleStore(self.width)
        self.features = ScaledRows(store, scalings, size, device, first=rows.first)
        self.states = [
            PassState.attached(learner, self.features, self.seed)
            for learner in self.inner
        ]

    def __getstate__(self) -> dict[str, object]:
        """Leave out the last features, which can be recomputed."""
        return {**self.__dict__, "_last": None}

    def __deepcopy__(self, memo: dict[int, object]) -> EncodingLearner:
        """Return a copy that shares the encoder and the features stored so far."""
        store = self.features.store
        memo[id(store)] = store.branch()
        memo[id(self.encoder)] = self.encoder
        copied = object.__new__(EncodingLearner)
        memo[id(self)] = copied
        copied.__dict__.update(deepcopy(self.__getstate__(), memo))
        return copied

    def _encoded(self, rows: Tensor) -> np.ndarray:
        """Return features (n, width) of the rows (n, d) of a minibatch."""
        if self._last is None or not torch.equal(self._last[0], rows):
            size = self.features.block_size
            starts = range(0, len(rows), size)
            features = [self._transformed(rows[i : i + size]) for i in starts]
            self._last = rows, np.concatenate(features)
        return self._last[1]

    def _transformed(self, rows: Tensor) -> np.ndarray:
        block = rows.new_zeros(self.features.block_size, rows.shape[1])
        block[: len(rows)] = rows
        images = pixels_of(block, self.shape).cpu().numpy()
        # Copy the features, since an encoder may reuse its array.
        return np.array(self.encoder.transform(images))[: len(rows)]

    def predict(self, x: Tensor) -> Tensor:
        """Return log-probabilities (K, n, C), float64, of rows (n_scalings, n, d)."""
        scaled, n = self.features.scaled(self._encoded(x[self.place])), x.shape[1]
        return torch.cat([lr.predict(shown(lr, scaled, n))[:, :n] for lr in self.inner])

    def update(self, x: Tensor, y: Tensor, replayed: Batches) -> None:
        """Store the features of a new minibatch, and learn from new and old rows."""
        self._keep(x[self.place], y)
        if not self.features.n_refreshed:
            self.features.refresh(len(self.features.store))
        for learner, state in zip(self.inner, self.states, strict=True):
            state.n_scored += len(y)
            # For a learner that works row by row, a minibatch is a group of rows.
            state.reveal_labels(learner, state.n_scored, (0, 0))
            state.learn(learner, self.outcome, state.n_scored)

    def _keep(self, rows: Tensor, y: Tensor) -> None:
        self.features.store.append(self._encoded(rows))
        self.features.extend(len(self.features.store))
        self.features.reveal(len(self.features.store) - len(y), y)

    def re_express(self, changes: Sequence[ReExpression | None]) -> None:
        """Rescale the features whenever the run refreshes its scalings."""
        changed = self.features.refresh(len(self.features.store))
        for learner in self.inner:
            learner.re_express(changed)

    def add_classes(self, n: int) -> None:
        """Add classes to all readouts."""
        self.outcome.n_numbers += n
        for learner in self.inner:
            learner.add_classes(n)

    @property
    def reports(self) -> dict[int, Report]:  # type: ignore[override]
        """Reports on wrapped estimators, keyed by column."""
        return {k: report for lr in self.inner for k, report in lr.reports.items()}

    def retire(self, columns: Collection[int]) -> None:
        """Drop some readouts, and inner learners that have no readouts left."""
        self.inner, self.states = remaining(self.inner, self.states, columns)
        self.columns = [k for learner in self.inner for k in learner.columns]

    def state_dict(self) -> dict[int, dict[str, Tensor]]:
        """Return the state of the readouts and the number of encoded images."""
        first = min(self.columns)  # whatever the order of the inner learners
        states: dict[int, dict[str, Tensor]] = {first: {}}
        for learner in self.inner:
            for column, state in learner.state_dict().items():
                states.setdefault(column, {}).update(state)
        states[first][N_ENCODED] = torch.tensor(len(self.features.store))
        return states

    def load_state_dict(self, learned: Learned) -> None:
        """Encode all learned images again, and load the state of the readouts."""
        n_rows = int(learned[min(self.columns)][N_ENCODED])
        images = self.images
        known = map(images.schedule.known, images.refreshes(images.n_refreshed))
        refreshed = {images.part(n)[0] for n in known}
        for start, stop in self.features.parts(n_rows):
            x = images.between(start, stop)
            self._keep(x[self.place], images.labels[start:stop])
            n_kept = len(self.features.store)
            if not self.features.n_refreshed or n_kept in refreshed:
                self.features.refresh(n_kept)
        for learner, state in zip(self.inner, self.states, strict=True):
            state.resume(n_rows, torch.zeros(1, dtype=torch.bool))
            learner.load_state_dict(learned)


@dataclass(eq=False, repr=False)
class FrozenReadout(ImageReadout):
    """Readout on the features of a frozen encoder.

    In a list of readouts, you can write this readout as a pair ``(encoder, readout)``.
    The rows are images rather than precomputed features, so the list can also contain
    networks that learn from images. Codelengths are the same as on precomputed
    features, except for readouts that learn row by row, such as kernels. On images,
    these readouts learn all rows of a minibatch together, after predicting them. When a
    minibatch is predicted, each image is encoded once for all readouts on the encoder.
    Replay reuses these features.

    Parameters
    ----------
    encoder : TimmEncoder, TorchEncoder or CachedEncoder
        The encoder, which is not modified.
    readout : readout
        Any readout for a switcher, except views and readouts of images.
    image_shape : (int, int, int) or (int, int), default=None
        Height, width and channels of the images whose pixels are the rows of X. If
        None, images are assumed to be square, with one or three channels.
    batch_size : int, default=32
        Number of rows in a minibatch. A switcher overrides this.
    device : str, default="auto"
        Torch device of the readout, not of the encoder. A switcher overrides this.
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
        Number of values in an image.
    n_samples_seen_ : int
    order_ : ndarray of shape (n_samples,)
        Order in which ``fit`` evaluated the rows.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn_mdl import LinearReadout
    >>> from sklearn_mdl.encoders import TimmEncoder, image_rows
    >>> from sklearn_mdl.readouts import FrozenReadout
    >>> digits = load_digits()
    >>> X, y = image_rows(digits.images / 16, mode="L")[:96], digits.target[:96]
    >>> encoder = TimmEncoder(
    ...     "test_resnet", pretrained=False, data_options={"input_size": (3, 16, 16)}
    ... )
    >>> readout = FrozenReadout(encoder, LinearReadout(), random_state=0).fit(X, y)
    >>> readout.codelengths_.shape
    (96,)
    """

    encoder: AnyEncoder
    readout: BaseEstimator

    _parameter_constraints: ClassVar[Constraints] = {
        **ImageReadout._parameter_constraints,
        "encoder": [ImageEncoder, CachedEncoder],
        "readout": [BaseEstimator],  # checked in _validate_params
    }

    def _validate_params(self) -> None:
        super()._validate_params()
        if isinstance(self.readout, ImageReadout):
            raise TypeError(
                "readout must be a readout of features, not of images, got "
                f"{self.readout!r}; use that readout directly, not on a frozen encoder"
            )
        check_readout(self.readout)
        if self.readout.view is not None:
            raise TypeError(
                "readout must use all features of the encoder, but it uses only "
                f"view {self.readout.view!r}; fit the view by itself on the features, "
                "encoder.fit_transform(images)"
            )

    @property
    def architecture(self) -> str:
        """Short name: "frozen linear", "frozen mlp 2x256"."""
        return f"frozen {self.readout.architecture}"

    @property
    def forgets(self) -> bool:
        """True if the readout of features forgets or learns each minibatch once."""
        return bool(self.readout.forgets)

    @classmethod
    def learners_of(cls, members: Members[Self], context: Context) -> list[Learner]:
        """Make one learner for each distinct encoder, with all readouts on it."""
        shapes = [image_shape_of(context.n_features, r.image_shape) for _, r in members]
        encoders = distinct_encoders([r.encoder for _, r in members], shapes)
        groups = grouped((id(encoder), i) for i, encoder in enumerate(encoders))
        return [
            EncodingLearner(
                [(members[i][0], clone(members[i][1].readout)) for i in own],
                *(encoders[own[0]], shapes[own[0]], context),
            )
            for own in groups.values()
        ]


def as_readout(given: Any) -> Any:
    """Turn a pair into a frozen readout, and return anything else unchanged."""
    is_pair = isinstance(given, tuple) and len(given) == 2
    return FrozenReadout(*given) if is_pair else given


def check_images(X: np.ndarray, readouts: Sequence[object]) -> None:
    """Raise ValueError if a readout takes images but the rows of X are not pixels."""
    if any(isinstance(as_readout(readout), ImageReadout) for readout in readouts):
        check_pixels(X)
