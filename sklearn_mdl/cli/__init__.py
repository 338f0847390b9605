"""The command line: one module for each command.

Commands reach the package through its lazy root, so that `--help` and wrong options are
answered before scikit-learn and torch are imported.
"""

from sklearn_mdl.cli._main import main

__all__ = ["main"]
