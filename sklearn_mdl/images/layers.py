"""What layers inside a module give, pooled at the moment they give it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Any

from torch import Tensor, nn

from sklearn_mdl.images.pooling import Block, Layout, pooled


def check_layers(module: nn.Module, layers: list[str]) -> None:
    """Raise ValueError if a module has no layer of that name."""
    names = [name for name, _ in module.named_modules() if name]
    for layer in layers:
        if layer not in names:
            near = get_close_matches(layer, names, n=3, cutoff=0.0) or names[:3]
            raise ValueError(
                "layer must be 'last' or the name of a module inside the model, got "
                f"{layer!r}; names near it are {', '.join(map(repr, near))}"
            )


@contextmanager
def listening(
    module: nn.Module, blocks: list[Block], layout: Layout
) -> Iterator[dict[str, Tensor]]:
    """Pool what inner layers give while a module runs.

    They are pooled at once: what comes after may write over what a layer gave, as
    rectifiers in place do, and of most layers nothing but the pooled vectors is kept.

    Yields
    ------
    found : dict of str to Tensor
        Vectors of shape (N, width) by the name of the block, once the module has run.
    """
    found: dict[str, Tensor] = {}
    modules = dict(module.named_modules())

    def hook(layer: str) -> Any:
        mine = [block for block in blocks if block.layer == layer]

        def listen(_: nn.Module, __: Any, output: Any) -> None:
            if not isinstance(output, Tensor):
                raise ValueError(
                    "A layer must give one tensor to be pooled, but "
                    f"{layer!r} gives {type(output).__name__}; name a layer inside it"
                )
            if mine[0].name in found:
                raise ValueError(
                    f"A layer must run once for each image, but {layer!r} runs again; "
                    "name another layer"
                )
            for block in mine:
                found[block.name] = pooled(output, block, layout)

        return listen

    handles = [
        modules[layer].register_forward_hook(hook(layer))
        for layer in dict.fromkeys(block.layer for block in blocks)
    ]
    try:
        yield found
    finally:
        for handle in handles:
            handle.remove()
