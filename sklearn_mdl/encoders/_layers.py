"""Layers of an encoder, and their outputs pooled to vectors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from typing import NamedTuple

from torch import Tensor, nn

POOLS = ("default", "model", "avg", "max", "cls", "flatten")
LAST = "last"


class Layout(NamedTuple):
    """Order of axes and tokens in the outputs of a model's layers."""

    channels_last: bool = False  # maps are (N, H, W, C), not (N, C, H, W)
    n_prefix_tokens: int = 0  # tokens before those of patches
    has_class_token: bool = False  # the first of them


class Block(NamedTuple):
    """One layer, pooled in one way."""

    layer: str
    pool: str

    @property
    def name(self) -> str:
        """As ``layer|pool``."""
        return f"{self.layer}|{self.pool}"


def blocks_of(layers: list[str], pools: list[str]) -> list[Block]:
    """Combine layers and pools.

    Raises
    ------
    ValueError
        If a pool is unknown or fits no layer, or if a combination is repeated.
    """
    blocks = [_block(layer, pool) for layer in layers for pool in pools]
    if not blocks or len(set(blocks)) < len(blocks):
        raise ValueError(
            "layer and pool must name different features, at least one, got "
            f"{[block.name for block in blocks]}; name each once"
        )
    return blocks


def _block(layer: str, pool: str) -> Block:
    if pool not in POOLS:
        raise ValueError(
            f"pool must be one of {', '.join(map(repr, POOLS))}, got {pool!r}; choose "
            "one of these"
        )
    if pool == "default":
        return Block(layer, "model" if layer == LAST else "avg")
    if pool == "model" and layer != LAST:
        raise ValueError(
            f"A model itself pools its last layer alone, got pool='model' for {layer!r}"
            "; pass 'avg', 'max', 'cls' or 'flatten'"
        )
    return Block(layer, pool)


def pooled(features: Tensor, block: Block, layout: Layout) -> Tensor:
    """Pool the output of a layer for a minibatch.

    Parameters
    ----------
    features : Tensor of shape (N, d), (N, L, C), (N, C, H, W) or (N, H, W, C)
        Vectors as they are, tokens, or maps.
    block : Block
        Of its pools, "avg" and "max" go over the places of a map, or over the tokens of
        patches; "cls" takes the class token; "flatten" takes all numbers.
    layout : Layout

    Returns
    -------
    vectors : Tensor of shape (N, width), float32

    Raises
    ------
    ValueError
        If there is no class token, or no places to pool.
    """
    values = features.float()
    if block.pool == "cls":
        if values.ndim != 3 or not layout.has_class_token:
            raise ValueError(
                "pool='cls' needs a layer that gives tokens, a class token first, but "
                f"{block.layer!r} gives shape {tuple(values.shape)}"
                f"{'' if values.ndim != 3 else ' and the model has none'}; pass 'avg'"
            )
        return values[:, 0]
    if values.ndim == 2 or block.pool == "flatten":
        return values.flatten(1)
    if values.ndim == 3:
        places = values[:, layout.n_prefix_tokens :]
        return places.mean(1) if block.pool == "avg" else places.amax(1)
    if values.ndim == 4 and block.pool in ("avg", "max"):
        axes = (1, 2) if layout.channels_last else (2, 3)
        return values.mean(axes) if block.pool == "avg" else values.amax(axes)
    raise ValueError(
        f"Features must be vectors, tokens or maps, but layer {block.layer!r} gives "
        f"shape {tuple(values.shape)}; pass pool='flatten' or name another layer"
    )


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
def pooled_outputs(
    module: nn.Module, blocks: list[Block], layout: Layout
) -> Iterator[dict[str, Tensor]]:
    """Pool the outputs of inner layers while a module runs.

    They are pooled at once: later layers may overwrite an output, as rectifiers in
    place do, and of most layers nothing but the pooled vectors is kept.

    Yields
    ------
    found : dict of str to Tensor
        Vectors of shape (N, width) by the name of the block, once the module has run.
    """
    found: dict[str, Tensor] = {}
    modules = dict(module.named_modules())

    def hook_of(layer: str) -> Callable[[nn.Module, object, object], None]:
        own = [block for block in blocks if block.layer == layer]

        def hook(_: nn.Module, __: object, output: object) -> None:
            if not isinstance(output, Tensor):
                raise ValueError(
                    "A layer must give one tensor to be pooled, but "
                    f"{layer!r} gives {type(output).__name__}; name a layer inside it"
                )
            if own[0].name in found:
                raise ValueError(
                    f"A layer must run once for each image, but {layer!r} runs again; "
                    "name another layer"
                )
            for block in own:
                found[block.name] = pooled(output, block, layout)

        return hook

    handles = [
        modules[layer].register_forward_hook(hook_of(layer))
        for layer in dict.fromkeys(block.layer for block in blocks)
    ]
    try:
        yield found
    finally:
        for handle in handles:
            handle.remove()
