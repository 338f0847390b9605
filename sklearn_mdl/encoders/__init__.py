"""Encoders of images, text and activations, and a cache of features."""

from sklearn_mdl._core.images.rows import image_rows
from sklearn_mdl.encoders._base import ImageEncoder as ImageEncoder
from sklearn_mdl.encoders._cache import (
    CachedEncoder,
    FeatureCache,
    encode as encode,
    keeps_data as keeps_data,
)
from sklearn_mdl.encoders._hidden_states import HiddenStatesEncoder
from sklearn_mdl.encoders._protection import protected as protected
from sklearn_mdl.encoders._text import TextEncoder, text_baselines
from sklearn_mdl.encoders._timm import (
    TimmEncoder,
    check_name as check_name,
    check_options as check_options,
    sources_of_name as sources_of_name,
)
from sklearn_mdl.encoders._torch import TorchEncoder
from sklearn_mdl.encoders._trunk import (
    AnyEncoder as AnyEncoder,
    EncoderTrunk as EncoderTrunk,
    distinct_encoders as distinct_encoders,
    image_encoder_of as image_encoder_of,
)
from sklearn_mdl.encoders._view_encoder import ViewEncoder as ViewEncoder
from sklearn_mdl.encoders._views import Views, views_of

__all__ = [
    "CachedEncoder",
    "FeatureCache",
    "HiddenStatesEncoder",
    "TextEncoder",
    "TimmEncoder",
    "TorchEncoder",
    "Views",
    "image_rows",
    "text_baselines",
    "views_of",
]
