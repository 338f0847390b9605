"""Readouts on frozen encoders for rows that are images."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, clone

from sklearn_mdl._core.images.rows import check_pixels, image_shape_of
from sklearn_mdl._core.sklearn_compat import Constraints
from sklearn_mdl._core.stream.learner import Learner
from sklearn_mdl.encoders import (
    AnyEncoder,
    CachedEncoder,
    ImageEncoder,
    distinct_encoders,
)
from sklearn_mdl.readouts._base import check_readout
from sklearn_mdl.readouts._build import Context, Members, grouped
from sklearn_mdl.readouts._finetune.base import ImageReadout
from sklearn_mdl.readouts._finetune.encoding import EncodingLearner


@dataclass(eq=False, repr=False)
class FrozenReadout(ImageReadout):
    """Readout on the features of a frozen encoder.

    In a list of readouts, you can write this readout as a pair ``(encoder, readout)``.
    The rows are images rather than precomputed features, so the list can also contain
    networks that learn from images. Codelengths are the same as on precomputed
    features, except for readouts that learn row by row, such as kernels. On images,
    these readouts learn each minibatch as a group of rows. When a minibatch is
    predicted, each image is encoded once for all readouts on the encoder. Replay reuses
    these features.

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
        "readout": [object],  # checked in _validate_params
    }

    def _validate_params(self) -> None:
        super()._validate_params()
        if isinstance(self.readout, ImageReadout):
            raise TypeError(
                "readout must be a readout of features, not of images, got "
                f"{self.readout!r}; pass readouts=[readout], without an encoder"
            )
        check_readout(self.readout)
        if self.readout.view is not None:
            raise TypeError(
                "readout must use all features of the encoder, but it uses only "
                f"view {self.readout.view!r}; encode the images first, and fit the "
                "switcher on encoder.transform(X)"
            )

    @property
    def architecture(self) -> str:
        """Short name: "frozen linear", "frozen mlp 2x256"."""
        return f"frozen {self.readout.architecture}"

    @property
    def forgets(self) -> bool:
        """True if the readout on the features forgets or never replays rows."""
        return bool(self.readout.forgets)

    @classmethod
    def learners_of(cls, members: Members[Self], context: Context) -> list[Learner]:
        """Make one learner for each distinct encoder, with all readouts on it."""
        shapes = [image_shape_of(context.n_features, r.image_shape) for _, r in members]
        encoders = distinct_encoders([r.encoder for _, r in members], shapes)
        groups = grouped((id(encoder), i) for i, encoder in enumerate(encoders))
        return [
            EncodingLearner(
                [(members[i][0], clone(members[i][1].readout)) for i in group],
                encoders[group[0]],
                shapes[group[0]],
                context,
            )
            for group in groups.values()
        ]


def as_readout(given: Any) -> Any:
    """Turn a pair into a frozen readout, and return anything else unchanged."""
    is_pair = isinstance(given, tuple) and len(given) == 2
    return FrozenReadout(*given) if is_pair else given


def check_images(X: np.ndarray, readouts: Sequence[object]) -> None:
    """Raise ValueError if a readout takes images but the rows of X are not pixels."""
    if any(isinstance(as_readout(readout), ImageReadout) for readout in readouts):
        check_pixels(X)
