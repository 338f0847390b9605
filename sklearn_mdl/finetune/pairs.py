"""A readout on an encoder that learns no more, where a walk is over images."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import clone

from sklearn_mdl.board import check_readout
from sklearn_mdl.experts import Context
from sklearn_mdl.finetune.base import ImageExpert, clone_beside, document
from sklearn_mdl.finetune.encoding import EncodingLearner
from sklearn_mdl.images import (
    CachedEncoder,
    ImageEncoder,
    Shape,
    check_pixels,
    distinct_encoders,
    fresh_encoder,
    image_shape_of,
)
from sklearn_mdl.prequential import Learner


class FrozenReadout(ImageExpert):
    """A readout on the features of an encoder that is not trained.

    In a list of readouts the pair ``(encoder, readout)`` means the same. The codes are
    those of the readout on features made beforehand; but rows are images here, so that
    networks which learn from images can stand beside it. Each image is encoded once,
    when its minibatch comes, for all readouts of an encoder together; replay reads
    features.

    Parameters
    ----------
    encoder : TimmEncoder, TorchEncoder or CachedEncoder
        It is left as it is.
    readout : readout or expert
        Any that can stand in a switcher, but those that look at images themselves.
    image_shape : (int, int, int) or (int, int), default=None
        Height, width and channels of the images whose pixels are the rows of X; None
        takes squares of three channels or of one.
    batch_size : int, default=32
        Rows encoded and learned at once. A switcher's own value wins.
    device : str, default="auto"
        Torch device of the readout; the encoder has its own. A switcher's own wins.
    random_state : int, RandomState instance or None, default=None
        Stands in, outside a switcher, where the readout's own is None.

    {attributes}

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn_mdl import FrozenReadout, LinearReadout, TimmEncoder, image_rows
    >>> digits = load_digits()
    >>> X, y = image_rows(digits.images / 16, mode="L")[:96], digits.target[:96]
    >>> encoder = TimmEncoder(
    ...     "test_resnet", pretrained=False, data_options={"input_size": (3, 16, 16)}
    ... )
    >>> readout = FrozenReadout(encoder, LinearReadout(), random_state=0).fit(X, y)
    >>> readout.codelengths_.shape
    (96,)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **ImageExpert._parameter_constraints,
        "encoder": [ImageEncoder, CachedEncoder],
        "readout": "no_validation",  # type: ignore[dict-item]
    }

    def __init__(
        self,
        encoder: Any,
        readout: Any,
        *,
        image_shape: Any = None,
        batch_size: int = 32,
        device: str = "auto",
        random_state: Any = None,
    ) -> None:
        self.encoder = encoder
        self.readout = readout
        self.image_shape = image_shape
        self.batch_size = batch_size
        self.device = device
        self.random_state = random_state

    def _validate_params(self) -> None:
        super()._validate_params()
        if isinstance(self.readout, ImageExpert):
            raise TypeError(
                "readout must look at features, but it looks at images itself, got "
                f"{self.readout!r}; pass it to the switcher without an encoder"
            )
        check_readout(self.readout)

    def __sklearn_clone__(self) -> Self:
        """Copy settings; a module in the encoder, which is never changed, is shared."""
        found: Self = clone_beside(self, encoder=fresh_encoder(self.encoder))
        return found

    @property
    def architecture(self) -> str:
        """Short name: "frozen linear", "frozen mlp 2x256"."""
        return f"frozen {self.readout.architecture}"

    @classmethod
    def _learners(
        cls, members: Sequence[tuple[int, Self]], context: Context
    ) -> list[Learner]:
        """One learner for all readouts of an encoder."""
        by_shape: dict[Shape, list[tuple[int, Self]]] = {}
        for column, pair in members:
            shape = image_shape_of(context.n_features, pair.image_shape)
            by_shape.setdefault(shape, []).append((column, pair))
        learners: list[Learner] = []
        for shape, alike in by_shape.items():
            encoders = distinct_encoders([pair.encoder for _, pair in alike], shape)
            for encoder in {id(e): e for e in encoders}.values():
                own = [
                    (column, clone(pair.readout))
                    for (column, pair), other in zip(alike, encoders, strict=True)
                    if other is encoder
                ]
                learners.append(EncodingLearner(own, encoder, shape, context))
        return learners


document(FrozenReadout)


def as_readout(given: Any) -> Any:
    """Make a frozen readout of a pair, and leave everything else as it is."""
    is_pair = isinstance(given, tuple) and len(given) == 2
    return FrozenReadout(*given) if is_pair else given


def check_images(X: np.ndarray, readouts: Any) -> None:
    """Raise ValueError if readouts look at images, but rows hold no pixels."""
    given = readouts if isinstance(readouts, list | tuple) else ()
    if any(isinstance(as_readout(readout), ImageExpert) for readout in given):
        check_pixels(X)


def single_learners(learners: Iterable[Learner]) -> list[Learner]:
    """List learners, and in the place of those of an encoder the ones inside."""
    return [one for learner in learners for one in getattr(learner, "inner", [learner])]
