"""Hash of the content of any object, the same in every process."""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dis import get_instructions
from functools import cache, cached_property, partial, singledispatchmethod
from pathlib import Path
from pickle import PicklingError
from types import CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import torch
from joblib.hashing import NumpyHasher

PACKAGES = {"site-packages", "dist-packages"}  # names of folders of libraries
LIBRARIES = Path(sysconfig.get_path("stdlib")), Path(__file__).parents[2]
LOADS = {"LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"}
CONSTANTS = (int, float, str, bytes, tuple)  # private ones are ignored
EMPTY = CellType()  # a variable of an enclosing function that has no value yet
CACHED = type(cache(len))  # class of functions with a cache
PARTS: dict[type, tuple[str, ...]] = {  # the attributes to read
    **dict.fromkeys([cached_property, singledispatchmethod], ("func",)),
    **dict.fromkeys([staticmethod, classmethod], ("__func__",)),
    **{property: ("fget", "fset"), CACHED: ("__wrapped__",), ModuleType: ("__name__",)},
    MethodType: ("__func__", "__self__"),
    partial: ("func", "args", "keywords"),
    CodeType: ("co_code", "co_names", "co_varnames", "co_consts"),
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
    the global variables that they read. Code of libraries is only named, and so are
    parts whose identities are in `seen`. Of other parts, the hash is returned or, if
    they cannot be pickled, what pickle would write of them, read in the same way.
    """
    kind = ModuleType if isinstance(part, ModuleType) else type(part)
    if kind in PARTS:
        return [readable(getattr(part, name), seen) for name in PARTS[kind]]
    is_code = isinstance(part, type | FunctionType)
    named: Any = part if is_code else type(part)
    if id(part) in seen or (is_code and not _is_own(named)):
        return f"{named.__module__}.{named.__qualname__}"
    if isinstance(part, tuple | list | set | frozenset | dict):
        return _items(part, seen)
    if part is None or isinstance(part, CONSTANTS):
        return part
    if not is_code:
        tried = set(seen)
        with suppress(Exception):  # pickling may raise anything
            digest = content_hash(part, tried)
            seen |= tried
            return digest
    seen.add(id(part))
    return [(name, readable(value, seen)) for name, value in _parts(part)]


def _items(part: Collection[object], seen: set[int]) -> Sequence[object]:
    """Return the items of a container, those of a set in a fixed order."""
    if isinstance(part, set | frozenset):
        return sorted(repr(readable(each, set(seen))) for each in part)
    seen.add(id(part))  # it may contain itself
    items = part.items() if isinstance(part, dict) else part
    values = [readable(each, seen) for each in items]
    seen.discard(id(part))  # another object may get this identity
    return values


def _parts(own: object) -> Iterator[tuple[str, object]]:
    """Yield what determines a class, a function or an object without a pickle."""
    if isinstance(own, type):
        yield "bases", own.__bases__
        yield from _named(vars(own), sorted(vars(own)))
    elif isinstance(own, FunctionType):
        yield "code", own.__code__
        yield "defaults", [own.__defaults__, own.__kwdefaults__]
        cells = own.__closure__ or ()
        yield "closure", [cell.cell_contents for cell in cells if cell != EMPTY]
        yield "wrapped", getattr(own, "__wrapped__", None)
        yield from _named(own.__globals__, _names_in(own.__code__))
    elif "__wrapped__" in getattr(own, "__dict__", {}):
        yield from [("type", type(own)), ("wrapped", vars(own)["__wrapped__"])]
    else:
        yield "type", type(own)
        with suppress(Exception):  # not even its parts can be pickled
            state = own.__reduce_ex__(4)
            yield "state", [list(p) if isinstance(p, Iterator) else p for p in state]


def _named(
    variables: Mapping[str, object], names: Iterable[str]
) -> Iterator[tuple[str, object]]:
    """Yield the variables with these names, without private constants."""
    for name in names:
        value = variables.get(name)
        if not name.startswith("_") or not isinstance(value, CONSTANTS):
            yield name, value


def _names_in(code: CodeType) -> Iterator[str]:
    """Yield the names of the global variables that some code reads."""
    yield from (s.argval for s in get_instructions(code) if s.opname in LOADS)
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _names_in(inner)


def _is_own(part: type | FunctionType) -> bool:
    """Return True for a class or function that no installed library contains."""
    file = getattr(sys.modules.get(part.__module__), "__file__", None)
    if file is None:
        return part.__module__ == "__main__"
    return not any(p in LIBRARIES or p.name in PACKAGES for p in Path(file).parents)
