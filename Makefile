# make demo       a ranking of representations on small data, written to demo-results/
# make test       linter, formatter and tests
# make test-slow  the tests that take minutes
# make clean      removes what the others wrote, except .venv
#
# Another interpreter: make PYTHON=python3.12 test

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.NOTPARALLEL:
.PHONY: demo test test-slow clean

demo: $(VENV)/.installed-plot
	$(BIN)/sklearn-mdl demo --out demo-results

test: $(VENV)/.installed-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python -m pytest

test-slow: $(VENV)/.installed-test
	$(BIN)/python -m pytest -m slow

# One stamp per extra, so that the targets share a .venv without knowing of each other.
$(VENV)/.installed-%: setup.cfg pyproject.toml | $(BIN)/pip
	@echo "Installing sklearn_mdl with the extra '$*' into $(VENV); the first time takes minutes."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[$*]"
	@touch $@

# pip is the last thing a new environment receives: with it, the environment is whole.
$(BIN)/pip:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	    found="$$($(PYTHON) --version 2>&1)"; \
	    echo "sklearn_mdl needs Python 3.11 or newer, but '$(PYTHON)' says '$$found':" \
	        "name a newer one, as in 'make PYTHON=python3.12 $(or $(MAKECMDGOALS),demo)'." >&2; \
	    exit 1; }
	@$(PYTHON) -m venv $(VENV)

clean:
	rm -rf demo-results build dist *.egg-info
	rm -rf .pytest_cache .ruff_cache .mypy_cache .hypothesis
	find sklearn_mdl tests -type d -name __pycache__ -prune -exec rm -rf {} +
