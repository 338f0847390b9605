"""From images to features: encoders that learn no more, and a cache for features."""

from sklearn_mdl.images.cache import CachedEncoder, FeatureCache
from sklearn_mdl.images.encoder import ImageEncoder
from sklearn_mdl.images.lazy import LazyImages
from sklearn_mdl.images.reading import FilePart
from sklearn_mdl.images.timm_encoder import TimmEncoder
from sklearn_mdl.images.torch_encoder import TorchEncoder

__all__ = [
    "CachedEncoder",
    "FeatureCache",
    "FilePart",
    "ImageEncoder",
    "LazyImages",
    "TimmEncoder",
    "TorchEncoder",
]
