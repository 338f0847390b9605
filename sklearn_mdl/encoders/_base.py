"""Base class of image encoders, which turn each image into a row of features."""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from io import BytesIO
from numbers import Integral
from typing import ClassVar, NamedTuple, Self

import numpy as np
import torch
from joblib import effective_n_jobs
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from sklearn_mdl._core.images.lazy import LazyImages, images_fingerprint, minibatches
from sklearn_mdl._core.images.reading import Images, as_images, image_at, located
from sklearn_mdl._core.io.content_hash import readable
from sklearn_mdl._core.numerics import default_torch, resolve_device
from sklearn_mdl._core.sklearn_compat import Constraints, Interval, fit_context
from sklearn_mdl._core.validation import invalid
from sklearn_mdl.encoders._layers import (
    LAST,
    Layout,
    Vectors,
    View,
    check_layers,
    pooled_outputs,
    views_by_name,
)
from sklearn_mdl.encoders._view_encoder import ViewEncoder

Names = str | Sequence[str]


class Frozen(NamedTuple):
    """A model that is ready to encode images, with its preprocessing."""

    module: nn.Module
    transform: Callable[..., Tensor]  # from a PIL image to (C, H, W)
    mode: str  # "RGB" or "L"
    layout: Layout
    device: torch.device


@dataclass(eq=False, repr=False, kw_only=True)
class ImageEncoder(ViewEncoder):
    """Base class of transformers that turn images into features of a frozen network.

    Subclasses prepare the network in ``_load``. Their ``_last`` runs the network on a
    minibatch and returns the vectors of the network's last layer.
    """

    unit = "image"

    layer: Names = LAST
    pool: Names = "default"
    device: str = "auto"
    batch_size: int = 64
    amp: bool = False
    n_jobs: int | None = None
    verbose: int = 0

    _parameter_constraints: ClassVar[Constraints] = {
        "layer": [str, list, tuple],
        "pool": [str, list, tuple],
        "device": [str],
        "batch_size": [Interval(Integral, 1, None, closed="left")],
        "amp": ["boolean"],
        "n_jobs": [Integral, None],
        "verbose": ["verbose"],
    }

    @abstractmethod
    def _load(self) -> Frozen:
        """Return the frozen model with its preprocessing."""

    @abstractmethod
    def _last(self, frozen: Frozen, batch: Tensor, views: list[View]) -> Vectors:
        """Run the model, and return the last layer's vectors for each of the views."""

    @abstractmethod
    def _identity(self) -> dict[str, object]:
        """Return the entries that a subclass adds to the fingerprint."""

    @fit_context
    def fit(self, X: object, y: object = None) -> Self:
        """Load the model and encode one image. Nothing is learned.

        Parameters
        ----------
        X : images
            The first image determines the number of features.
        y : ignored

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            If a parameter is invalid, or the first image cannot be read.
        TypeError
            If X does not contain images, or a parameter has the wrong type.
        ImportError
            If a library is missing.
        OSError
            If weights are missing.
        """
        images = as_images(X)
        views = views_by_name(_as_list(self.layer), _as_list(self.pool))
        before = dict(self.__dict__)
        try:
            for name in ("seed_", "weights_sha256_"):
                self.__dict__.pop(name, None)
            with default_torch(), torch.no_grad():
                self._frozen, self._views = self._load(), views
            inner = [view.layer for view in views if view.layer != LAST]
            check_layers(self._frozen.module, inner)
            first = next(self._encoded(images, range(1)))
        except BaseException:
            self.__dict__ = before
            raise
        self.view_names_ = [view.name for view in views]
        self.view_widths_ = [first[name].shape[1] for name in self.view_names_]
        return self

    def _items(self, X: object) -> Images:
        """Return images that can be read one by one."""
        return as_images(X)

    def _content(self, items: Images) -> object:
        """Return the number of images and a digest of their content."""
        return [len(items), images_fingerprint(items)]

    def _encode(self, items: Images, start: int) -> Iterator[np.ndarray]:
        """Yield the features of one minibatch at a time."""
        self._reload_once()
        for batch in self._encoded(items, range(start, len(items))):
            yield np.concatenate(list(batch.values()), axis=1)

    def _device(self) -> torch.device:
        """Return the device of the network."""
        return self._frozen.device

    def fingerprint(self) -> dict[str, object]:
        """Return a description of the encoder for keys of a cache. Call fit first.

        Returns
        -------
        fingerprint : dict
            JSON data about the model, its weights, the preprocessing, the views and
            ``amp``.
        """
        check_is_fitted(self, "view_names_")
        return {
            "encoder": type(self).__name__,
            **self._identity(),
            "weights": self._weights_sha256(),
            "views": self.view_names_,
            "amp": bool(self.amp),
        }

    def _encoded(self, images: Images, rows: range) -> Iterator[dict[str, np.ndarray]]:
        frozen, start = self._frozen, rows.start
        for batch in prepared(frozen, images, rows, self.batch_size, self.n_jobs):
            features = self._run(frozen, batch)
            _check_finite(features, images, start)
            start += len(batch)
            yield features

    def _run(self, frozen: Frozen, batch: Tensor) -> dict[str, np.ndarray]:
        views, device, half = self._views, frozen.device, torch.bfloat16
        if device.type == "cuda" and not torch.cuda.is_bf16_supported():
            half = torch.float16
        with (
            default_torch(),
            torch.inference_mode(),
            torch.autocast(device.type, dtype=half, enabled=bool(self.amp)),
        ):
            vectors = self._outputs(frozen, views, batch.to(device))
        missing = [view.layer for view in views if view.name not in vectors]
        if missing:
            raise ValueError(
                f"Layer {missing[0]!r} must run for every image, but it did not run; "
                "pass another layer"
            )
        return {view.name: vectors[view.name].float().cpu().numpy() for view in views}

    def _outputs(self, frozen: Frozen, views: list[View], batch: Tensor) -> Vectors:
        """Run the model and return the vectors of each view, keyed by view name."""
        inner = [view for view in views if view.layer != LAST]
        last = [view for view in views if view.layer == LAST]
        with pooled_outputs(frozen.module, inner, frozen.layout) as vectors:
            return vectors | self._last(frozen, batch, last)

    def _reload_once(self) -> None:
        """Load the model again after unpickling."""
        if not hasattr(self, "_frozen"):
            with default_torch(), torch.no_grad():
                frozen = self._load()
            digest = weights_fingerprint(frozen.module)
            if digest != self.weights_sha256_:
                required = f"{self.weights_sha256_[:12]!r}, as in the pickle"
                cure = "restore the pickled encoder's weights, or call fit(X) again"
                raise invalid("SHA-256 of the weights", required, digest[:12], cure)
            self._frozen = frozen

    def _weights_sha256(self) -> str:
        if not hasattr(self, "weights_sha256_"):
            self.weights_sha256_ = weights_fingerprint(self._frozen.module)
        return self.weights_sha256_

    def __getstate__(self) -> dict[str, object]:
        """Return the state without the loaded model, which is reloaded when needed."""
        if hasattr(self, "_frozen"):
            self._weights_sha256()
        state = dict(super().__getstate__())
        state.pop("_frozen", None)
        return state


def _as_list(names: Names) -> list[str]:
    return [names] if isinstance(names, str) else list(names)


def prepared(
    frozen: Frozen, images: Images, rows: range, batch_size: int, n_jobs: int | None
) -> Iterator[Tensor]:
    """Yield decoded and preprocessed images as minibatches (B, C, H, W)."""

    def prepare(row: int) -> Tensor:
        with default_torch():  # torch's settings are per thread
            return frozen.transform(image_at(images, row, frozen.mode))

    return minibatches(prepare, rows, batch_size, effective_n_jobs(n_jobs))


def _check_finite(features: dict[str, np.ndarray], images: Images, start: int) -> None:
    for name, values in features.items():
        if np.isfinite(values).all():
            continue
        row = start + int(np.argwhere(~np.isfinite(values))[0][0])
        items = images.items if isinstance(images, LazyImages) else images
        known = isinstance(items, list | tuple | np.ndarray)
        where = located(row, items[row] if known else None)
        raise ValueError(
            f"Features must be finite, but those in view {name!r} of {where} are not; "
            "load other weights, or omit amp=True if you passed it"
        )


def freeze(module: nn.Module, device: str) -> tuple[nn.Module, torch.device]:
    """Move a module to a device and set evaluation mode. It runs without gradients."""
    where = resolve_device(device, torch.float32)  # readouts also need float64
    return module.to(where).eval(), where


def weights_fingerprint(module: nn.Module) -> str:
    """Return the SHA-256 of a module's state, with names, types, shapes and values.

    Modules in TorchScript also contribute their code and constants.
    """
    digest = hashlib.sha256()
    if isinstance(module, torch.jit.ScriptModule):
        torch.jit.save(module, archive := BytesIO())
        digest.update(archive.getbuffer())
    for name, tensor in module.state_dict().items():
        if not isinstance(tensor, Tensor) or tensor.layout != torch.strided:
            digest.update(f"{name} {readable(tensor, {})}\n".encode())
            continue  # a module's extra state, or a sparse buffer
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        flat = tensor.detach().cpu().contiguous().view(-1)
        digest.update(flat.view(torch.uint8).numpy().data)
    return digest.hexdigest()


def attributes_fingerprint(module: nn.Module) -> str:
    """Return the SHA-256 of the code, attributes and buffers of a module's parts.

    Attributes whose names begin with an underscore are skipped.
    """
    values: list[tuple[str, object]] = [
        (f"{name}.{key}", value)
        for name, inner in module.named_modules()
        for key, value in [("", type(inner)), *vars(inner).items()]
        if not key.startswith("_") and key != "training"
    ]
    digest, paths = hashlib.sha256(), {id(m): n for n, m in module.named_modules()}
    for name, value in [*values, *module.named_buffers()]:
        digest.update(f"{name} {readable(value, dict(paths))}\n".encode())
    return digest.hexdigest()
