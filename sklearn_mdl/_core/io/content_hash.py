"""Hash of the content of any object, the same in every process."""

from __future__ import annotations

import torch
from joblib.hashing import NumpyHasher


class _Hasher(NumpyHasher):
    """Hasher of joblib that reads the values of tensors, not their addresses."""

    def save(self, obj: object) -> None:
        """Write an object to the stream that is hashed."""
        if isinstance(obj, torch.Tensor):
            values = obj.detach().to_dense().cpu().contiguous().view(-1)
            kind = type(obj).__name__, str(obj.dtype), tuple(obj.shape)
            obj = [*kind, values.view(torch.uint8).numpy()]
        super().save(obj)


def content_hash(content: object) -> str:
    """Return the SHA-1 of an object's pickle.

    Raises
    ------
    pickle.PicklingError, TypeError or AttributeError
        If the object cannot be pickled.
    """
    return str(_Hasher(hash_name="sha1", coerce_mmap=True).hash(content))
