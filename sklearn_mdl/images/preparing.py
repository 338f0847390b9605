"""Minibatches of prepared images, some of them being prepared while others are used."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import torch
from torch import Tensor

Prepare = Callable[[int], Tensor]


def minibatches(
    prepare: Prepare, rows: range, batch_size: int, n_threads: int
) -> Iterator[Tensor]:
    """Prepare images row by row, and stack them.

    Parameters
    ----------
    prepare : callable
        From a row to a tensor, (C, H, W).
    rows : range
    batch_size : int
    n_threads : int
        With more than one, the next minibatch is prepared while one is used. Decoding
        and resizing leave the interpreter free, so threads do it side by side.

    Yields
    ------
    batch : Tensor of shape (B, C, H, W)
    """
    batches = [rows[i : i + batch_size] for i in range(0, len(rows), batch_size)]
    if n_threads == 1:
        for batch in batches:
            yield _stack([prepare(row) for row in batch], batch)
        return
    pool = ThreadPoolExecutor(n_threads)
    waiting: deque[tuple[range, list[Future[Tensor]]]] = deque()
    try:
        for batch in batches:
            waiting.append((batch, [pool.submit(prepare, row) for row in batch]))
            if len(waiting) > 1:
                yield _gathered(*waiting.popleft())
        while waiting:
            yield _gathered(*waiting.popleft())
    finally:
        pool.shutdown(cancel_futures=True)


def _gathered(batch: range, futures: list[Future[Tensor]]) -> Tensor:
    return _stack([future.result() for future in futures], batch)


def _stack(tensors: list[Tensor], batch: range) -> Tensor:
    shapes = [tuple(tensor.shape) for tensor in tensors]
    if len(set(shapes)) > 1:
        at = next(i for i, shape in enumerate(shapes) if shape != shapes[0])
        raise ValueError(
            "The transform must make all images one shape, but it made "
            f"{shapes[0]} of row {batch[0]} and {shapes[at]} of row {batch[at]}; add a "
            "resize and a crop"
        )
    return torch.stack(tensors)
