"""The command line: one module for each command.

Commands import the package lazily, so `--help` and wrong options are handled before
scikit-learn and torch are imported.
"""

from sklearn_mdl.cli._main import main

__all__ = ["main"]
