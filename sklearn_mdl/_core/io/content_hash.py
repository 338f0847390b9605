"""Hash of the content of any object, the same in every process."""

from __future__ import annotations

import sys
import sysconfig
from pathlib import Path
from pickle import PicklingError
from types import CellType, CodeType, FunctionType

import torch
from joblib.hashing import NumpyHasher

LIBRARY_FOLDERS = (
    *map(sysconfig.get_path, ("stdlib", "purelib", "platlib")),
    str(Path(__file__).parents[2]),
)
CONSTANTS = (int, float, str, bytes, tuple)  # in a class, private ones are ignored
EMPTY = CellType()  # a variable of an enclosing function that has no value yet


class _Hasher(NumpyHasher):
    """Hasher of joblib that also reads the values of tensors, and users' code.

    Pickles contain addresses of tensors, and only the names of classes and functions.
    """

    def save(self, obj: object) -> None:
        """Write an object to the stream that is hashed."""
        if isinstance(obj, torch.Tensor):
            values = obj.detach().to_dense().resolve_conj().resolve_neg().cpu()
            values = values.contiguous().view(-1)
            kind = type(obj).__name__, str(obj.dtype), tuple(obj.shape)
            obj = [*kind, values.view(torch.uint8).numpy()]
        elif isinstance(obj, frozenset):  # hashed like a set, whatever its order
            obj = frozenset.__name__, set(obj)
        elif isinstance(obj, type | FunctionType):
            self._hash.update(repr(_code_of(obj, set())).encode())
        super().save(obj)


def content_hash(content: object) -> str:
    """Return the SHA-1 of an object's pickle, its tensors and its users' code.

    Code of installed libraries is not read, nor are functions that others call.

    Raises
    ------
    pickle.PicklingError, TypeError or AttributeError
        If the object cannot be pickled.
    """
    try:
        return str(_Hasher(hash_name="sha1", coerce_mmap=True).hash(content))
    except RuntimeError as error:  # torch cannot pickle or read a part
        raise PicklingError(str(error)) from error


def _code_of(part: object, seen: set[int]) -> object:
    """Return the code of a user's class or function, without files and lines."""
    part = getattr(part, "fget", None) or getattr(part, "__func__", part)
    if id(part) in seen:
        return None
    if isinstance(part, type):
        seen.add(id(part))
        bases = [vars(base) for base in part.__mro__ if _is_own(base)]
        own = [(name, base[name]) for base in bases for name in sorted(base)]
        return [
            (name, _code_of(value, seen))
            for name, value in own
            if not name.startswith("_") or not isinstance(value, CONSTANTS)
        ]
    if isinstance(part, FunctionType):
        seen.add(id(part))
        if not _is_own(part):
            return None
        inner = [cell.cell_contents for cell in part.__closure__ or () if cell != EMPTY]
        parts = part.__code__, part.__defaults__, part.__kwdefaults__, *inner
        return [_code_of(each, seen) for each in parts]
    if isinstance(part, CodeType):
        constants = [_code_of(each, seen) for each in part.co_consts]
        return part.co_code, part.co_names, constants
    if isinstance(part, tuple | list | frozenset | dict):
        items = part.items() if isinstance(part, dict) else part
        texts = [repr(_code_of(each, seen)) for each in items]
        return sorted(texts) if isinstance(part, frozenset) else texts
    return part if isinstance(part, CONSTANTS) else None


def _is_own(part: type | FunctionType) -> bool:
    """Return True for a class or function that no installed library contains."""
    path = getattr(sys.modules.get(part.__module__), "__file__", None)
    if path is None:
        return part.__module__ == "__main__"
    return not path.startswith(LIBRARY_FOLDERS)
