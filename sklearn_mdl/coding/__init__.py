"""Labels to bytes and back: the proof that a codelength is one."""

from sklearn_mdl.coding.labels import decode_labels, encode, encode_labels
from sklearn_mdl.coding.message import LabelMessage

__all__ = ["LabelMessage", "decode_labels", "encode", "encode_labels"]
