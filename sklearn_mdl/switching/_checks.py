"""Checks of single parameters, and the error for invalid values."""

from __future__ import annotations

import math
from numbers import Integral, Real

import numpy as np


def invalid(name: str, required: str, given: object, cure: str) -> ValueError:
    """Return the error for an invalid argument."""
    return ValueError(f"`{name}` must be {required}, got {given!r}; {cure}")


def is_number_in(value: object, low: float, high: float) -> bool:
    """Return True for a finite real number between two bounds, inclusive."""
    if not isinstance(value, Real):
        return False
    return math.isfinite(value) and low <= float(value) <= high


def are_numbers_in(values: object, low: float, high: float) -> bool:
    """Return True for a list of 1 to 1000 finite numbers between two bounds."""
    array = np.array(values, dtype=object)
    is_list = array.ndim == 1 and 1 <= len(array) <= 1000
    return is_list and all(is_number_in(value, low, high) for value in array)


def check_integer(name: str, value: object, least: int, cure: str) -> None:
    """Raise ValueError unless a value is an integer of at least `least`."""
    if not isinstance(value, Integral) or value < least:
        raise invalid(name, f"an integer of at least {least}", value, cure)


def check_max_steps(max_steps: object) -> None:
    """Raise ValueError unless ``max_steps`` is a non-negative integer."""
    check_integer("max_steps", max_steps, 0, "for example, pass max_steps=5000")
