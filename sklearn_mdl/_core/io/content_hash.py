"""Hash of the content of any object, the same in every process."""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache, cached_property, singledispatchmethod
from pathlib import Path
from pickle import PicklingError
from types import CellType, CodeType, FunctionType, MethodType

import torch
from joblib.hashing import NumpyHasher

LIBRARY_FOLDERS = (
    *map(sysconfig.get_path, ("stdlib", "purelib", "platlib")),
    str(Path(__file__).parents[2]),
)
CONSTANTS = (int, float, str, bytes, tuple)  # private ones are ignored
EMPTY = CellType()  # a variable of an enclosing function that has no value yet
CACHED = type(cache(len))  # class of functions with a cache
WRAPPERS: dict[type, str] = {  # and the attribute with the function
    **dict.fromkeys([cached_property, singledispatchmethod], "func"),
    **dict.fromkeys([staticmethod, classmethod, MethodType], "__func__"),
    **{property: "fget", CACHED: "__wrapped__"},
}


class _Hasher(NumpyHasher):
    """Hasher of joblib that also reads the values of tensors, and users' code.

    Pickles contain addresses of tensors, and only the names of classes and functions.

    Parameters
    ----------
    seen : set of int
        Identities of classes and functions whose code has been read.
    """

    def __init__(self, seen: set[int]) -> None:
        super().__init__(hash_name="sha1", coerce_mmap=True)
        self._seen = seen

    def save(self, obj: object) -> None:
        """Write an object to the stream that is hashed."""
        if isinstance(obj, torch.Tensor):
            values = obj.detach().to_dense().resolve_conj().resolve_neg().cpu()
            values = values.contiguous().view(-1)
            kind = type(obj).__name__, str(obj.dtype), tuple(obj.shape)
            obj = [*kind, values.view(torch.uint8).numpy()]
        elif isinstance(obj, frozenset):  # hashed like a set, whatever its order
            obj = frozenset.__name__, set(obj)
        elif isinstance(obj, type | FunctionType | CACHED):
            self._hash.update(repr(readable(obj, self._seen)).encode())
        super().save(obj)


def content_hash(content: object, seen: set[int] | None = None) -> str:
    """Return the SHA-1 of an object's pickle, its tensors and its users' code.

    Parameters
    ----------
    content : object
    seen : set of int, default=None
        Identities of classes and functions whose code is not read again.

    Raises
    ------
    pickle.PicklingError, TypeError or AttributeError
        If the object cannot be pickled.
    """
    try:
        return str(_Hasher(set() if seen is None else seen).hash(content))
    except RuntimeError as error:  # torch cannot pickle or read a part
        raise PicklingError(str(error)) from error


def readable(part: object, seen: set[int]) -> object:
    """Return the code or the value of a part, as numbers, texts and lists.

    The code of users' classes and functions is read without files and lines, but with
    the variables of their module that they name. Code of libraries is not read. Of
    other parts, the hash is returned, or None if they cannot be pickled.
    """
    if type(part) in WRAPPERS:
        return readable(getattr(part, WRAPPERS[type(part)]), seen)
    if isinstance(part, type | FunctionType):
        if id(part) in seen or not _is_own(part):
            return None
        seen.add(id(part))
        named = _variables(part) if isinstance(part, type) else _parts(part)
        return [(name, readable(value, seen)) for name, value in named]
    if isinstance(part, CodeType):
        constants = [readable(each, seen) for each in part.co_consts]
        return part.co_code, part.co_names, constants
    if isinstance(part, tuple | list | set | frozenset | dict):
        items = part.items() if isinstance(part, dict) else part
        texts = [repr(readable(each, seen)) for each in items]
        return sorted(texts) if isinstance(part, set | frozenset) else texts
    if part is None or isinstance(part, CONSTANTS):
        return part
    with suppress(Exception):  # pickling may raise anything
        return content_hash(part, seen)
    return None


def _variables(own: type) -> Iterator[tuple[str, object]]:
    """Yield the variables of a class and its bases."""
    for base in filter(_is_own, own.__mro__):
        yield from _named(vars(base), sorted(vars(base)))


def _parts(function: FunctionType) -> Iterator[tuple[str, object]]:
    """Yield the code of a function, its defaults, and the variables that it reads."""
    yield "code", function.__code__
    yield "defaults", [function.__defaults__, function.__kwdefaults__]
    cells = function.__closure__ or ()
    yield "closure", [cell.cell_contents for cell in cells if cell != EMPTY]
    yield from _named(function.__globals__, _names_in(function.__code__))


def _named(
    variables: Mapping[str, object], names: Iterable[str]
) -> Iterator[tuple[str, object]]:
    """Yield the variables with these names, without private constants."""
    for name in names:
        value = variables.get(name)
        if not name.startswith("_") or not isinstance(value, CONSTANTS):
            yield name, value


def _names_in(code: CodeType) -> Iterator[str]:
    """Yield the global names in some code."""
    yield from code.co_names
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _names_in(inner)


def _is_own(part: type | FunctionType) -> bool:
    """Return True for a class or function that no installed library contains."""
    path = getattr(sys.modules.get(part.__module__), "__file__", None)
    if path is None:
        return part.__module__ == "__main__"
    return not path.startswith(LIBRARY_FOLDERS)
