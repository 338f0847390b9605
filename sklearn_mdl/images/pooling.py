"""From what a layer gives, a map or tokens, to one vector an image."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

POOLS = ("default", "model", "avg", "max", "cls", "flatten")
LAST = "last"


class Layout(NamedTuple):
    """How a model lays out what its layers give."""

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
        If a pool is unknown or fits no layer, or if a combination comes twice.
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
    """Pool what a layer gives for a minibatch.

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
