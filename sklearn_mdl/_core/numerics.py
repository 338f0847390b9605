"""Arithmetic of a run: quick, and with the same bits every time."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar
from functools import partial, reduce
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.sparse import issparse
from threadpoolctl import threadpool_limits
from torch import Tensor

from sklearn_mdl._core.unsupported import unsupported

# Intel's library of products may otherwise sum in an order that depends on where in
# memory a number lies (it does on processors of other makers), and a stack of readouts
# would not equal its parts. It is read at the first product of a process, and costs no
# time.
os.environ.setdefault("MKL_CBWR", "AUTO")


LANES = 64  # more than a vector register holds

PRECISIONS = ("float32", "bfloat16", "tf32")
AMPERE = 8  # the first generation of GPUs that multiplies both of the short kinds


@contextmanager
def one_thread() -> Iterator[None]:
    """Keep torch to one thread: small products lose more than they win by a second.

    It also makes the numbers independent of how many cores a machine has. The limit
    holds in this thread alone: neither in others nor in those that they start.
    """
    n_threads = torch.get_num_threads()
    if n_threads == 1:
        yield
        return
    with _ONE_AT_A_TIME:
        torch.set_num_threads(1)
        # Torch keeps one number for this thread and one for threads that are yet to
        # start, and sets both. Another thread can set the second one back.
        other = threading.Thread(target=torch.set_num_threads, args=(n_threads,))
        other.start()
        other.join()
    try:
        yield
    finally:
        torch.set_num_threads(n_threads)


_ONE_AT_A_TIME = threading.Lock()


class _SharedSetting:
    """A setting of the whole process while any thread needs it.

    The first thread that enters makes it, and the last that leaves undoes it: threads
    that each saved and restored it would restore each other's.
    """

    def __init__(
        self, make: Callable[[], Callable[[], object]], *, in_main_thread: bool = False
    ) -> None:
        self._make = make  # returns what undoes it
        self._in_main_thread = in_main_thread  # alone can it be undone
        self._lock = threading.Lock()
        self._n_inside = 0
        self._owed: Callable[[], object] | None = None

    @contextmanager
    def __call__(self) -> Iterator[None]:
        with self._lock:
            if not self._n_inside:
                self._settle()
                undo = self._make()
                self._undo = self._owed or undo
            self._n_inside += 1
        try:
            yield
        finally:
            with self._lock:
                self._n_inside -= 1
                if not self._n_inside:
                    self._undo()
                    if self._in_main_thread:
                        self._owed = self._undo
                        self._settle()

    def _settle(self) -> None:
        """Undo once more in the main thread, if that is what takes effect."""
        is_main = threading.current_thread() is threading.main_thread()
        if self._owed is not None and is_main:
            self._owed()
            self._owed = None


def _limit_blas() -> Callable[[], object]:
    limits = threadpool_limits(limits=1, user_api="blas")
    return limits.restore_original_limits  # type: ignore[no-any-return]


def _default_to_float32() -> Callable[[], object]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float32)
    return partial(torch.set_default_dtype, before)


# OpenBLAS takes a lower limit in any thread, a higher one in the main thread alone.
one_blas_thread = _SharedSetting(_limit_blas, in_main_thread=True)
_float32 = _SharedSetting(_default_to_float32)
_here = threading.local()


@contextmanager
def default_torch() -> Iterator[None]:
    """Compute as if torch had its default settings.

    Whatever a program has chosen for itself - default dtype and device, autocast,
    inference mode, gradients - changes no number, and is as it was afterwards.
    """
    if getattr(_here, "is_default", False):
        yield
        return
    with ExitStack() as stack:
        stack.enter_context(_float32())
        stack.enter_context(torch.inference_mode(False))
        stack.enter_context(torch.enable_grad())
        if torch.get_default_device().type != "cpu":
            stack.enter_context(torch.device("cpu"))
        for kind in ("cpu", "cuda"):
            if torch.is_autocast_enabled(kind):
                stack.enter_context(torch.autocast(kind, enabled=False))
        _here.is_default = True
        try:
            yield
        finally:
            _here.is_default = False


@contextmanager
def fixed_arithmetic() -> Iterator[None]:
    """Compute as if torch had its default settings, and with one thread."""
    with one_thread(), default_torch():
        yield


@contextmanager
def flushed_denormals(flush: bool = True) -> Iterator[None]:
    """Take numbers below 1e-38 for zero, in this thread; or see that it does not.

    Moments and gradients of rare features fade to such numbers, with which a processor
    is many times slower; no prediction is moved by them.
    """
    smallest = torch.tensor(1e-40, dtype=torch.float32, device="cpu")
    flushes = not bool((smallest * 1.0).any())  # what the thread did before
    torch.set_flush_denormal(flush)
    try:
        yield
    finally:
        torch.set_flush_denormal(flushes)


def in_lanes(function: Callable[[Tensor], Tensor], values: Tensor) -> Tensor:
    """Apply an elementwise function to values of any shape, in whole vectors.

    On a CPU the last bits of a vector instruction differ from those of a scalar one,
    which takes what is left over at the end: the numbers of a readout or a row would
    depend on its neighbours.
    """
    flat = values.reshape(-1)
    whole = torch.nn.functional.pad(flat, (0, -len(flat) % LANES))
    return function(whole)[: len(flat)].view(values.shape)


def mixture(log_proba: Iterable[Tensor], weights: Iterable[Tensor]) -> Tensor:
    """Mix predictions (n, C), one for each readout, by as many weights (n,)."""
    # One after the other: no K x n x C numbers are made, and the sum has one order.
    terms = (w[:, None] * p.exp() for p, w in zip(log_proba, weights, strict=True))
    return reduce(Tensor.add_, terms)


def as_array(values: object) -> Any:
    """Return tensors of any device as arrays, and leave everything else alone."""
    if not isinstance(values, torch.Tensor):
        return values
    values = values.detach().cpu()
    return (values.float() if values.dtype == torch.bfloat16 else values).numpy()


def dense(rows: Any) -> Any:
    """Return sparse rows as an array of float32, and leave everything else alone.

    Raises
    ------
    ValueError
        If the array would take more than a quarter of the machine's memory.
    """
    if not issparse(rows):
        return rows
    most, needed = memory_of(torch.device("cpu")), 4 * int(np.prod(rows.shape))
    if most is not None and needed > most // 4:
        raise ValueError(
            f"Sparse features must fit a quarter of the memory, {most / 4e9:.3g} GB, "
            f"as a dense array, but shape {rows.shape} takes {needed / 1e9:.3g} GB; "
            "make_pipeline(encoder, TruncatedSVD(256)) has narrower ones"
        )
    return rows.astype(np.float32).toarray()


def resolve_device(device: str) -> torch.device:
    """Return the device a name stands for; "auto" takes a GPU where there is one."""
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        return torch.device(device)
    except RuntimeError as error:
        raise ValueError(
            f"device must be 'auto' or the name of a torch device, got {device!r}; try "
            "'cpu' or 'cuda'"
        ) from error


def check_precision(precision: str, device: torch.device, n_jobs: int) -> None:
    """Refuse a precision of products, below float32, that the device lacks."""
    if not _multiplies(precision, device):
        gpu = f"a GPU of compute capability {AMPERE}.0"
        needed = f"a CPU with AVX-512 BF16, or {gpu} and torch 2.8"
        raise ValueError(
            f"precision={precision!r} needs {gpu if precision == 'tf32' else needed}, "
            f"got {device} with torch {torch.__version__}, which does not multiply "
            "such factors; leave it at 'float32'"
        )
    if precision == "tf32" and n_jobs > 1:
        raise unsupported('precision="tf32"', "n_jobs", "pass n_jobs=None")


def _multiplies(precision: str, device: torch.device) -> bool:
    """Return whether the device multiplies factors of this kind itself."""
    if device.type == "cuda":
        is_new = torch.cuda.get_device_capability(device)[0] >= AMPERE
        version = tuple(map(int, torch.__version__.split(".")[:2]))
        return is_new and (precision == "tf32" or version >= (2, 8))
    # What torch asks itself; elsewhere it emulates, which is slower than float32.
    found = getattr(torch.cpu, "_is_avx512_bf16_supported", bool)()
    return device.type == "cpu" and precision == "bfloat16" and bool(found)


def rounded_product(a: Tensor, b: Tensor) -> Tensor:
    """Multiply stacks of bfloat16 matrices; sums and the product are float32.

    On a CPU torch rounds the sums to bfloat16 at the end, as it knows no other product
    of such factors there.
    """
    if a.device.type == "cpu":
        return torch.bmm(a, b).float()
    return torch.bmm(a, b, out_dtype=torch.float32)


@contextmanager
def tensor_floats() -> Iterator[None]:
    """Let a GPU round the factors of float32 products to TF32, in this process."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def last_level_cache() -> int | None:
    """Bytes of the largest cache that a core reads, or None if the system is silent."""
    # Not SC_LEVEL3_CACHE_SIZE, which may count the caches of cores that are not ours.
    sizes = []
    for path in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size"):
        with suppress(OSError, ValueError):
            sizes.append(int(path.read_text().strip().removesuffix("K")) * 1024)
    return max(sizes, default=None)


_granted: ContextVar[int | None] = ContextVar("granted", default=None)


@contextmanager
def granted_memory(n_bytes: int) -> Iterator[None]:
    """Let :func:`memory_of` name so many bytes: what a file may ask for is its size."""
    token = _granted.set(n_bytes)
    try:
        yield
    finally:
        _granted.reset(token)


def memory_of(device: torch.device) -> int | None:
    """Memory of a device that may be filled, in bytes: all, unless less was granted.

    None where the system does not say.
    """
    if (granted := _granted.get()) is not None:
        return granted
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).total_memory)
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # not every system has it
        return None
