"""Minimum description length of representations by readout model switching.

``__init__.pyi`` lists the public names and packages. Each is imported on first use.
"""

import pkgutil

import lazy_loader

__version__ = "0.1.0"

__getattr__, __dir__, _names = lazy_loader.attach_stub(__name__, __file__)
__all__ = sorted({*_names} - {module.name for module in pkgutil.iter_modules(__path__)})
