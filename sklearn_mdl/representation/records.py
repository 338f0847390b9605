"""The text of a cell: written once, read with suspicion.

A checksum over the whole content finds every kind of damage; the rest of the checks is
for files that are whole and of another make.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from sklearn_mdl.representation.cells import Cell, TraceSource
from sklearn_mdl.representation.identity import canonical, digest_of

FORMAT = 1
MOST_BYTES = 2**26  # of the text of one cell

_KINDS: dict[str, type | tuple[type, ...]] = {
    "dataset": str,
    "encoder": str,
    "order": int,
    "seed": int,
    "n_samples": int,
    "n_features": int,
    "n_classes": int,
    "codelength": float,
    "frequency": float,
    "readouts": dict,
    "diverged": list,
    "notes": dict,
    "mean_posterior": dict,
    "data": dict,
    "environment": dict,
    "seconds": float,
}


def text_of(cell: Cell, identity: Mapping[str, Any]) -> bytes:
    """Write a cell down.

    Parameters
    ----------
    cell : Cell
    identity : mapping
        All that determines its numbers.

    Returns
    -------
    text : bytes
        JSON: the cell without its trace, what it follows from, and a checksum.
    """
    kept = cell.kept()
    kept["readouts"] = {name: _finite(x) for name, x in cell.readouts.items()}
    content = {"format": FORMAT, "identity": identity, "cell": kept}
    whole = {"sha256": digest_of(content), **content}
    text = json.dumps(whole, indent=1, allow_nan=False) + "\n"
    return text.encode()


def cell_of(text: bytes, identity: Mapping[str, Any], source: TraceSource) -> Cell:
    """Read what :func:`text_of` wrote.

    Parameters
    ----------
    text : bytes
    identity : mapping
        All that must have determined the numbers.
    source : TraceSource
        Where the trace is.

    Raises
    ------
    ValueError
        If it is anything else.
    """
    content = _content(text)
    if canonical(content["identity"]) != canonical(identity):
        raise ValueError("it tells of another cell")
    kept = content["cell"]
    if not isinstance(kept, dict) or kept.keys() != _KINDS.keys():
        raise ValueError("its entries are not those of a cell")
    for name, kind in _KINDS.items():
        if not isinstance(kept[name], kind) or isinstance(kept[name], bool):
            raise ValueError(f"its {name} is {kept[name]!r}")
    return Cell(**{**kept, "readouts": _numbers(kept["readouts"])}, source=source)


def _content(text: bytes) -> dict[str, Any]:
    if len(text) > MOST_BYTES:
        raise ValueError(f"it is longer than {MOST_BYTES} bytes")
    try:
        content = json.loads(text)
        canonical(content)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    if not isinstance(content, dict) or content.keys() != {
        *("sha256", "format", "identity", "cell")
    }:
        raise ValueError("it is no record of a cell")
    checksum = content.pop("sha256")
    if digest_of(content) != checksum:
        raise ValueError("its checksum is another one")
    if content["format"] != FORMAT:
        raise ValueError(f"its format is {content['format']!r}, not {FORMAT}")
    return content


def _numbers(readouts: dict[str, Any]) -> dict[str, float]:
    for name, nats in readouts.items():
        if not isinstance(nats, float) and nats not in ("inf", "-inf", "nan"):
            raise ValueError(f"its readout {name!r} has {nats!r} nats")
    return {name: float(nats) for name, nats in readouts.items()}


def _finite(number: float) -> float | str:
    """Return a number, or the text of an infinity, which JSON does not know."""
    return number if math.isfinite(number) else repr(number)
