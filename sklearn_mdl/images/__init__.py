"""From images to features: encoders that learn no more, and a cache for features."""

from sklearn_mdl.images.cache import CachedEncoder, FeatureCache
from sklearn_mdl.images.encoder import ImageEncoder
from sklearn_mdl.images.extras import needed
from sklearn_mdl.images.lazy import LazyImages
from sklearn_mdl.images.reading import FilePart
from sklearn_mdl.images.rows import (
    Shape,
    check_pixels,
    image_rows,
    image_shape_of,
    pixels_of,
)
from sklearn_mdl.images.timm_encoder import TimmEncoder
from sklearn_mdl.images.torch_encoder import TorchEncoder
from sklearn_mdl.images.trunk import (
    EncoderTrunk,
    distinct_encoders,
    fresh_encoder,
    image_encoder_of,
)

__all__ = [
    "CachedEncoder",
    "EncoderTrunk",
    "FeatureCache",
    "FilePart",
    "ImageEncoder",
    "LazyImages",
    "Shape",
    "TimmEncoder",
    "TorchEncoder",
    "check_pixels",
    "distinct_encoders",
    "fresh_encoder",
    "image_encoder_of",
    "image_rows",
    "image_shape_of",
    "needed",
    "pixels_of",
]
