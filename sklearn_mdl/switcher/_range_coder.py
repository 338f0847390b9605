"""Entropy coder that converts labels to bits and back, given class probabilities.

This is the range coder (Martin, 1979) of the library constriction, which rounds
probabilities to multiples of ``2^-24``. Each of ``C`` classes gets at least ``2^-24``,
and the rest is divided in proportion to the probabilities. So a label of probability
``p`` is coded with a probability of at least ``p (1 - C / 2^24)``, and never with zero.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sklearn_mdl._core.extras import needed

WORD = np.dtype("<u4")  # words of a payload
UNIT = 2.0**-24  # smallest coded probability of a label


class LabelEncoderStream:
    """Encoder that turns labels into bytes.

    Raises
    ------
    ImportError
        If the package constriction is not installed.
    """

    def __init__(self) -> None:
        self._stream = needed("constriction", "Coding labels", "coding").stream
        self._encoder = self._stream.queue.RangeEncoder()

    def put(self, label: int, probabilities: np.ndarray) -> None:
        """Encode a class index, given float64 probabilities (C,) of the classes."""
        self._encoder.encode(label, _model(self._stream, probabilities))

    @property
    def payload(self) -> bytes:
        """The labels encoded so far, in whole words of 32 bits."""
        words: np.ndarray = self._encoder.get_compressed()
        return words.astype(WORD).tobytes()


class LabelDecoderStream:
    """Decoder that returns labels in the order in which they were encoded.

    Parameters
    ----------
    payload : bytes
        Payload of a :class:`LabelEncoderStream`.

    Raises
    ------
    ImportError
        If the package constriction is not installed.
    """

    def __init__(self, payload: bytes) -> None:
        self._stream = needed("constriction", "Coding labels", "coding").stream
        words = np.frombuffer(payload, dtype=WORD).astype(np.uint32)
        self._decoder = self._stream.queue.RangeDecoder(words)

    def take(self, probabilities: np.ndarray) -> int:
        """Return the next label, given the probabilities (C,) used to encode it.

        Raises
        ------
        ValueError
            If the payload was clearly encoded with other probabilities. Not all
            differences are detected.
        """
        try:
            return int(self._decoder.decode(_model(self._stream, probabilities)))
        except AssertionError as error:
            raise _mismatch("one that matches no label") from error

    def finish(self) -> None:
        """Raise ValueError if the payload clearly continues after the last label."""
        if not self._decoder.maybe_exhausted():
            raise _mismatch("one that continues after the last label")


def _mismatch(what: str) -> ValueError:
    return ValueError(
        f"A payload must be decoded as it was encoded, got {what}; pass the encoder's "
        "switcher, X and groups, on the same machine"
    )


def _model(stream: Any, probabilities: np.ndarray) -> Any:
    return stream.model.Categorical(probabilities, perfect=False, lazy=True)
