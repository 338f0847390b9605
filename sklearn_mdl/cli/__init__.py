"""The command line: one module for each command.

`--help` and wrong options are handled quickly, because scikit-learn and torch are only
imported when a command uses them.
"""

from sklearn_mdl.cli._main import main

__all__ = ["main"]
