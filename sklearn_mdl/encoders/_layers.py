"""Layers of an encoder and the pooling of their outputs into vectors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from difflib import get_close_matches
from functools import partial
from typing import NamedTuple

from torch import Tensor, nn

from sklearn_mdl._core.validation import invalid

POOLS = ("default", "model", "avg", "max", "cls", "flatten")
LAST = "last"
Vectors = dict[str, Tensor]  # tensors (N, width), keyed by view name


class Layout(NamedTuple):
    """Order of the axes and tokens in the output of a layer."""

    channels_last: bool = False  # maps are (N, H, W, C), not (N, C, H, W)
    n_prefix_tokens: int = 0  # tokens before the patches
    has_class_token: bool = False  # the first prefix token is the class token


class View(NamedTuple):
    """One layer, pooled in one way."""

    layer: str
    pool: str

    @property
    def name(self) -> str:
        """Name of the view, ``layer|pool``."""
        return f"{self.layer}|{self.pool}"


def views_by_name(layers: list[str], pools: list[str]) -> list[View]:
    """Combine every layer with every pool.

    Raises
    ------
    ValueError
        If a pool is unknown or impossible for a layer, if a combination occurs twice,
        or if there are no combinations.
    """
    views = [_view(layer, pool) for layer in layers for pool in pools]
    if not views:
        name, cure = ("pool", "'avg'") if layers else ("layer", "'last'")
        raise invalid(name, "non-empty", [], f"pass {name}={cure}")
    if twice := [view.name for view in views if views.count(view) > 1]:
        cure = "pass each layer and pool once, and not 'default' with 'avg' or 'model'"
        raise invalid("Combinations of layer and pool", "distinct", twice, cure)
    return views


def _view(layer: str, pool: str) -> View:
    if pool not in POOLS:
        raise invalid("pool", f"one of {list(POOLS)}", pool, "pass pool='avg'")
    if pool == "default":
        return View(layer, "model" if layer == LAST else "avg")
    if pool == "model" and layer != LAST:
        cure = "pass pool='default', which averages inner layers"
        raise invalid("layer with pool='model'", "'last'", layer, cure)
    return View(layer, pool)


def pooled(features: Tensor, view: View, layout: Layout) -> Tensor:
    """Pool the output of a layer for a minibatch.

    Parameters
    ----------
    features : Tensor of shape (N, d), (N, L, C), (N, C, H, W) or (N, H, W, C)
        Vectors, tokens, or maps.
    view : View
        "avg" and "max" pool over the pixels of a map or over patch tokens, and leave
        vectors unchanged. "cls" keeps the class token. "flatten" keeps all values.
    layout : Layout

    Returns
    -------
    vectors : Tensor of shape (N, width), float32

    Raises
    ------
    ValueError
        If "cls" finds no class token, or if the shape of ``features`` does not fit.
    """
    values = features.float()
    if view.pool == "cls":
        if values.ndim != 3 or not layout.has_class_token:
            required, given = "tokens that begin with a class token", values.shape
            name, cure = f"The output of layer {view.layer!r}", "pass pool='avg'"
            if values.ndim == 3:
                cure += ", or n_prefix_tokens=1 if a TorchEncoder has a class token"
            raise invalid(name, required, tuple(given), cure)
        return values[:, 0].clone()  # later layers may overwrite it in place
    if values.ndim == 2 or view.pool == "flatten":
        return values.reshape(len(values), -1).clone()
    if values.ndim == 3:
        places = values[:, layout.n_prefix_tokens :]
        return places.mean(1) if view.pool == "avg" else places.amax(1)
    if values.ndim == 4 and view.pool in ("avg", "max"):
        axes = (1, 2) if layout.channels_last else (2, 3)
        return values.mean(axes) if view.pool == "avg" else values.amax(axes)
    name, shape = f"The output of layer {view.layer!r}", tuple(values.shape)
    raise invalid(name, "2-D, 3-D or 4-D", shape, "pass pool='flatten'")


def check_layers(
    module: nn.Module, layers: list[str], default: str = "layer='last'"
) -> None:
    """Raise ValueError unless every layer names an inner module of the model.

    If the model contains no other module, the error advises passing ``default``.
    """
    names = [name for name, _ in module.named_modules() if name]
    for layer in layers:
        if layer not in names:
            near = get_close_matches(layer, names, n=3, cutoff=0.0)
            cure = f"pass one of {near}" if near else f"pass {default}"
            raise invalid("A layer", "the name of an inner module", layer, cure)


@contextmanager
def pooled_outputs(
    module: nn.Module, views: list[View], layout: Layout
) -> Iterator[Vectors]:
    """Pool the outputs of inner layers while a module runs.

    Each output is pooled as soon as the layer has run, to save memory.

    Yields
    ------
    vectors : dict of str to Tensor
        Vectors of shape (N, width), keyed by view name. The dict is empty until the
        module runs.
    """
    vectors: dict[str, Tensor] = {}

    def pool(layer: str, output: object) -> None:
        if not isinstance(output, Tensor):
            inner = [n for n, _ in module.named_modules() if n.startswith(f"{layer}.")]
            cure = f"pass one of {inner[:3]}" if inner else "pass another layer"
            words = f"must return one tensor, got {type(output).__name__}"
            raise ValueError(f"Layer {layer!r} {words}; {cure}")
        inside = [view for view in views if view.layer == layer]
        vectors.update({view.name: pooled(output, view, layout) for view in inside})

    with watched_layers(module, {view.layer for view in views}, pool):
        yield vectors


@contextmanager
def watched_layers(
    module: nn.Module, names: Iterable[str], watch: Callable[[str, object], None]
) -> Iterator[None]:
    """While a module runs, call `watch` with the name and output of each named layer.

    Raises
    ------
    ValueError
        If the model calls a layer twice.
    """
    modules, ran = dict(module.named_modules()), set[str]()

    def hook(name: str, _: nn.Module, __: object, output: object) -> None:
        if name in ran:
            words = "must run once per minibatch, but ran twice; pass another layer"
            raise ValueError(f"Layer {name!r} {words}")
        ran.add(name)
        watch(name, output)

    with ExitStack() as handles:
        for name in names:
            handle = modules[name].register_forward_hook(partial(hook, name))
            handles.enter_context(handle)
        yield
