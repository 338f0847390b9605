"""Hash of the content of any object, the same in every process."""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dis import get_instructions
from functools import cache, cached_property, partial, singledispatchmethod
from pathlib import Path
from pickle import PickleError, dumps
from types import CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import torch
from joblib.hashing import NumpyHasher

PACKAGES = {"site-packages", "dist-packages"}  # names of folders of libraries
LIBRARIES = Path(sysconfig.get_path("stdlib")), Path(__file__).parents[2]
LOADS = {"LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"}
CONSTANTS = (int, float, str, bytes)  # private ones are ignored, also in tuples
BUILTIN = "builtins", "numpy"  # modules of types of constants
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
    names : dict of int to str
        Names of the parts that have been read, keyed by ``id``.
    """

    def __init__(self, names: dict[int, str]) -> None:
        super().__init__(hash_name="sha1", coerce_mmap=True)
        self._names = names

    def save(self, obj: object) -> None:
        """Write an object to the stream that is hashed."""
        if isinstance(obj, torch.Tensor):
            dense = torch.dequantize if obj.is_quantized else torch.Tensor.to_dense
            values = dense(obj.detach()).resolve_conj().resolve_neg().contiguous()
            kind = type(obj).__name__, str(obj.dtype), tuple(obj.shape)
            obj = [*kind, values.cpu().view(-1).view(torch.uint8).numpy()]
        elif isinstance(obj, self.np.dtype):  # whatever Python's default protocol is
            obj = "dtype", dumps(obj, protocol=4)
        elif isinstance(obj, frozenset):  # hashed like a set, whatever its order
            obj = frozenset.__name__, set(obj)
        elif isinstance(obj, type | FunctionType | CACHED):
            self._hash.update(repr(readable(obj, self._names)).encode())
        elif isinstance(obj, getattr(sys.modules.get("PIL.Image"), "Image", ())):
            about = [getattr(obj, name, "") for name in ("filename", "format")]
            self._hash.update(ascii(about).encode())
        super().save(obj)


def content_hash(content: object, names: dict[int, str] | None = None) -> str:
    """Return the SHA-1 of an object's pickle, of its tensors and of users' code in it.

    Parameters
    ----------
    content : object
    names : dict of int to str, default=None
        Names that replace the code of classes and functions, keyed by ``id``.

    Raises
    ------
    TypeError
        If the object cannot be pickled.
    """
    try:
        return str(_Hasher({} if names is None else names).hash(content))
    except (PickleError, AttributeError, RuntimeError) as error:
        # Without the second argument, in which joblib repeats the error.
        raise TypeError(str(*error.args[:1])) from error


def readable(part: object, names: dict[int, str]) -> object:
    """Return the code or the value of a part, as numbers, texts and lists.

    The code of users' classes and functions is read without file names and line
    numbers, but with the global variables that the code names. Code of libraries is
    represented by its name, and so is a part with an entry in `names`, to which this
    function adds the parts that it reads. For any other part, return its hash. If the
    part cannot be pickled, return what pickle would write of it, read in the same way.
    """
    kind = ModuleType if isinstance(part, ModuleType) else type(part)
    if kind in PARTS:
        return [readable(getattr(part, name), names) for name in PARTS[kind]]
    if id(part) in names:
        return names[id(part)]
    is_code = isinstance(part, type | FunctionType)
    named: Any = part if is_code else type(part)
    name = f"{named.__module__}.{named.__qualname__}"
    if is_code and not _is_own(named):
        return name
    # Subclasses may contain more than their items.
    if kind in (tuple, list, set, frozenset, dict) and isinstance(part, Collection):
        return _items(part, names)
    if part is None or (isinstance(part, CONSTANTS) and kind.__module__ in BUILTIN):
        return part
    if not is_code:
        tried = dict(names)
        with suppress(Exception):  # pickling may raise anything
            digest = content_hash(part, tried)
            names |= tried
            return digest
    names[id(part)] = f"{name} {len(names)}"  # other functions may have this name
    return [(key, readable(value, names)) for key, value in _parts(part)]


def _items(part: Collection[object], names: dict[int, str]) -> Sequence[object]:
    """Return the items of a container, those of a set in a fixed order."""
    if isinstance(part, set | frozenset):
        return sorted(repr(readable(each, dict(names))) for each in part)
    names[id(part)] = "itself"  # which it may contain
    items = part.items() if isinstance(part, dict) else part
    values = [readable(each, names) for each in items]
    del names[id(part)]  # another object may get this identity
    return values


def _parts(own: object) -> Iterator[tuple[str, object]]:
    """Yield the contents of a class, a function or an object without a pickle."""
    if isinstance(own, type):
        yield "bases", [type(own), *own.__bases__]
        yield from _named(vars(own), sorted(vars(own)))
    elif isinstance(own, FunctionType):
        yield "code", [own.__code__, own.__defaults__, own.__kwdefaults__]
        cells, empty = own.__closure__ or (), CellType()  # of a variable without value
        yield "closure", [cell.cell_contents for cell in cells if cell != empty]
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
        parts = value if isinstance(value, tuple) else [value]
        if not (name.startswith("_") and all(isinstance(p, CONSTANTS) for p in parts)):
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
    if file is None or part.__module__ == "__main__":  # in a worker, joblib's file
        return part.__module__ == "__main__"
    return not any(p in LIBRARIES or p.name in PACKAGES for p in Path(file).parents)
