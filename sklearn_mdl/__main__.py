"""Entry point of ``python -m sklearn_mdl``."""

from sklearn_mdl.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
