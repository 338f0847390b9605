"""Fast arithmetic with bitwise reproducible results."""

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

# By default, MKL may sum in an order that depends on memory addresses, for example on
# AMD processors. A readout would then give different results inside and outside a
# stack. MKL reads this setting at the first product of a process.
os.environ.setdefault("MKL_CBWR", "AUTO")


LANES = 64  # more numbers than a vector register holds

PRECISIONS = ("float32", "bfloat16", "tf32")
AMPERE = 8  # compute capability of the first GPUs with bfloat16 and TF32


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit torch to one thread, which is faster for small products.

    The results then do not depend on the number of cores. The limit applies only to the
    calling thread.
    """
    n_threads = torch.get_num_threads()
    if n_threads == 1:
        yield
        return
    with _ONE_AT_A_TIME:
        torch.set_num_threads(1)
        # This sets both the number for this thread and the default for new threads.
        # The same call in another thread restores the default.
        other = threading.Thread(target=torch.set_num_threads, args=(n_threads,))
        other.start()
        other.join()
    try:
        yield
    finally:
        torch.set_num_threads(n_threads)


_ONE_AT_A_TIME = threading.Lock()


class SharedSetting:
    """A setting of the whole process, active while any thread needs it.

    The first thread that enters applies the setting, and the last thread that leaves
    reverts it. If each thread saved and restored the setting itself, one thread would
    revert it while another still needs it.
    """

    def __init__(
        self, make: Callable[[], Callable[[], object]], *, in_main_thread: bool = False
    ) -> None:
        self._make = make  # applies the setting, returns a function that reverts it
        self._in_main_thread = in_main_thread  # True if only that thread can revert
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
        """If this is the main thread, revert what another thread could not."""
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


# OpenBLAS accepts lower limits in any thread but higher ones only in the main thread.
one_blas_thread = SharedSetting(_limit_blas, in_main_thread=True)
_float32 = SharedSetting(_default_to_float32)
_here = threading.local()


@contextmanager
def default_torch() -> Iterator[None]:
    """Compute as if torch had its default settings.

    Settings of the calling program (default dtype and device, autocast, inference mode,
    gradients) do not affect results, and are restored afterwards.
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
        stack.callback(setattr, _here, "is_default", False)
        yield


@contextmanager
def fixed_arithmetic() -> Iterator[None]:
    """Compute as if torch had its default settings, and with one thread."""
    with one_thread(), default_torch():
        yield


@contextmanager
def evaluation_mode(module: torch.nn.Module) -> Iterator[None]:
    """Run a module in evaluation mode, then restore the mode of its submodules."""
    training = [part for part in module.modules() if part.training]
    module.eval()
    try:
        yield
    finally:
        for part in training:
            part.training = True


@contextmanager
def flushed_denormals(flush: bool = True) -> Iterator[None]:
    """Choose whether to flush denormal numbers (below 1e-38) to zero in this thread.

    Over time, moments and gradients of rare features become denormal. They do not
    affect predictions, but arithmetic with denormal numbers is many times slower.
    """
    smallest = torch.tensor(1e-40, dtype=torch.float32, device="cpu")
    flushes = not bool((smallest * 1.0).any())  # the thread's previous setting
    torch.set_flush_denormal(flush)
    try:
        yield
    finally:
        torch.set_flush_denormal(flushes)


def as_doubles(rows: np.ndarray, device: object) -> Tensor:
    """Convert rows to float64 without flushing denormal numbers to zero."""
    with flushed_denormals(False):
        return torch.tensor(rows, dtype=torch.float64, device=device)  # type: ignore[arg-type]


def in_lanes(function: Callable[[Tensor], Tensor], values: Tensor) -> Tensor:
    """Apply an elementwise function to values, padded to whole vectors.

    A CPU processes the last values of an array, if they do not fill a vector, by scalar
    instructions. Their results may differ in the last bits from those of vector
    instructions. With padding, the result for a readout or a row does not depend on its
    position in the array.
    """
    flat = values.reshape(-1)
    whole = torch.nn.functional.pad(flat, (0, -len(flat) % LANES))
    return function(whole)[: len(flat)].view(values.shape)


def mixture(log_proba: Iterable[Tensor], weights: Iterable[Tensor]) -> Tensor:
    """Return the weighted mean (n, C) of the readouts' probabilities."""
    # One readout at a time, to avoid K x n x C numbers and to sum in a fixed order.
    terms = (w[:, None] * p.exp() for p, w in zip(log_proba, weights, strict=True))
    return reduce(Tensor.add_, terms)


def as_array(values: object) -> Any:
    """Convert a tensor on any device to an array; return anything else unchanged.

    Raises
    ------
    ValueError
        If an array has masked values, since scikit-learn would ignore the mask.
    """
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        row = np.argwhere(np.ma.getmaskarray(values))[0][0]
        raise ValueError(
            f"Features and labels must have no masked values, but row {row} has one; "
            "drop such rows, or replace masked features by X.filled(0)"
        )
    if not isinstance(values, torch.Tensor):
        return values
    values = values.detach().cpu()
    return (values.float() if values.dtype == torch.bfloat16 else values).numpy()


def dense(rows: Any) -> Any:
    """Convert sparse rows to a float32 array; return anything else unchanged.

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
            "Sparse features must fit into a quarter of the memory, "
            f"{most / 4e9:.3g} GB, as a dense array, but shape {rows.shape} takes "
            f"{needed / 1e9:.3g} GB; pass TruncatedSVD(256).fit_transform(X) or, in a "
            "ranking, make_pipeline(encoder, TruncatedSVD(256))"
        )
    return rows.astype(np.float32).toarray()


def resolve_device(device: str, dtype: torch.dtype = torch.float64) -> torch.device:
    """Return the torch device of this name; "auto" is a GPU if there is one.

    Raises
    ------
    ValueError
        If there is no such device, or if it does not support the dtype.
    """
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        chosen = torch.device(device)
        if chosen.type != "cuda":
            torch.zeros(1, dtype=dtype, device=chosen).item()
    except (RuntimeError, TypeError, AssertionError, ImportError) as error:
        raise ValueError(
            "device must be 'auto', 'cpu' or a GPU that supports float"
            f"{torch.finfo(dtype).bits}, such as 'cuda:0', got {device!r}; pass "
            "device='auto'"
        ) from error
    n_gpus = torch.cuda.device_count()
    if chosen.type == "cuda" and (chosen.index or 0) >= n_gpus:
        raise ValueError(
            f"device={device!r} needs more GPUs than torch finds ({n_gpus}); pass "
            "device='auto'"
        )
    return chosen


def check_precision(precision: str, device: torch.device, n_jobs: int) -> None:
    """Raise ValueError if a precision below float32 cannot be used.

    The device must support it, and TF32 needs a single job.
    """
    if not _multiplies(precision, device):
        gpu = f"a GPU of compute capability {AMPERE}.0 or higher"
        needed = f"a CPU with AVX-512 BF16, or {gpu}"
        raise ValueError(
            f"precision={precision!r} needs {gpu if precision == 'tf32' else needed}, "
            f"but {device} does not support it; pass precision='float32'"
        )
    if precision == "tf32" and n_jobs > 1:
        raise unsupported('precision="tf32"', "n_jobs", "pass n_jobs=1")


def _multiplies(precision: str, device: torch.device) -> bool:
    """Return True if the device supports products of this precision."""
    if device.type == "cuda":
        return torch.cuda.get_device_capability(device)[0] >= AMPERE
    # Torch would otherwise emulate these products, more slowly than float32.
    supported = getattr(torch.cpu, "_is_avx512_bf16_supported", bool)()
    return device.type == "cpu" and precision == "bfloat16" and bool(supported)


def rounded_product(a: Tensor, b: Tensor) -> Tensor:
    """Multiply stacks of bfloat16 matrices, with sums and result in float32.

    On a CPU, torch can only return bfloat16, so sums are rounded once more.
    """
    if a.device.type == "cpu":
        return torch.bmm(a, b).float()
    return torch.bmm(a, b, out_dtype=torch.float32)


@contextmanager
def tensor_floats() -> Iterator[None]:
    """Allow a GPU to round the factors of float32 products to TF32, in this process."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def last_level_cache() -> int | None:
    """Return the size in bytes of a core's largest cache, or None if unknown."""
    # SC_LEVEL3_CACHE_SIZE may include the caches of other cores.
    sizes = []
    for path in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size"):
        with suppress(OSError, ValueError):
            sizes.append(int(path.read_text().strip().removesuffix("K")) * 1024)
    return max(sizes, default=None)


_granted: ContextVar[int | None] = ContextVar("granted", default=None)


@contextmanager
def granted_memory(n_bytes: int) -> Iterator[None]:
    """Make :func:`memory_of` return ``n_bytes``, for example while a file loads."""
    token = _granted.set(n_bytes)
    try:
        yield
    finally:
        _granted.reset(token)


def memory_of(device: torch.device) -> int | None:
    """Return the total memory of a device in bytes, or the limit that was granted.

    The result is None if the system does not report it.
    """
    if (granted := _granted.get()) is not None:
        return granted
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).total_memory)
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # not available on every system
        return None
