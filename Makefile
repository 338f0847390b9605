# make demo       a ranking of representations on small data, written to demo-results/
# make test       linters, formatter, types and tests
# make test-slow  the tests that take minutes
# make test-oldest  tests on the oldest versions that setup.cfg allows, in .venv-oldest
# make test-clients  tests with other libraries, in .venv-clients
# make docs       the site, in docs/_build/html; examples are run, warnings are errors
# make linkcheck  check of all links that leave the site; needs a network
# make coverage   lines and branches that no test reaches, in htmlcov/ and on the screen
# make mutants    one fault after the other, put into the numpy packages: do tests fail?
# make check-dist  wheel and sdist; the wheel is tried in an empty environment, with the
#                   code of README and tutorial as pasted
# make clean      remove what the others wrote, except .venv, .venv-oldest and .venv-clients
#
# Benchmarks are run one at a time: .venv/bin/python -m benchmarks lists them.
#
# Another interpreter:  make PYTHON=python3.12 test
# On Linux pip fetches torch with CUDA, some gigabytes. For the CPU build, run
# python3 -m venv .venv, install torch into it as pytorch.org/get-started says, and then
# call make.
# On Windows, run make in Git Bash.

SHELL := bash
WINDOWS := $(filter Windows_NT,$(OS))
PYTHON ?= $(if $(WINDOWS),python,python3)
SCRIPTS := $(if $(WINDOWS),Scripts,bin)
VENV := .venv
BIN := $(VENV)/$(SCRIPTS)
PIP := $(BIN)/pip$(if $(WINDOWS),.exe)
PARALLEL := -n auto --maxprocesses 8 --dist worksteal

# Kept bytecode spares each process seconds: pytest rewrites assertions as it compiles.
export PYTHONDONTWRITEBYTECODE :=

.NOTPARALLEL:
.PHONY: demo test test-slow test-oldest test-clients docs linkcheck coverage mutants check-dist clean

demo: $(VENV)/.installed-plot
	$(BIN)/sklearn-mdl demo --out demo-results

test: $(VENV)/.installed-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest $(PARALLEL)

test-slow: $(VENV)/.installed-test
	$(BIN)/python -m pytest -m slow --hypothesis-profile=default

# One file at a time: what depends on scikit-learn, skorch and torch, and takes no minutes.
OLDEST := .venv-oldest
OLDEST_PYTHON ?= python3.11
OLDEST_TESTS := oldest common switcher readouts wrapped_readouts multioutput scorers searches \
    input_kinds protocols_of_others representation cli saving checkpoint coding images \
    timm_encoder vtab display ranking_pairs split

test-oldest: $(OLDEST)/.installed
	@for name in $(OLDEST_TESTS); do \
	    echo "tests/test_$$name.py"; \
	    OMP_NUM_THREADS=1 $(OLDEST)/$(SCRIPTS)/python -m pytest -q tests/test_$$name.py || exit 1; \
	done

$(OLDEST)/.installed: setup.cfg pyproject.toml constraints-oldest.txt
	@echo "Installing the oldest versions into $(OLDEST); it takes minutes and 7 GB."
	@$(OLDEST_PYTHON) -m venv --clear $(OLDEST)
	@$(OLDEST)/$(SCRIPTS)/python -m pip install --quiet --disable-pip-version-check \
	    --constraint constraints-oldest.txt --editable ".[test]"
	@touch $@

# Libraries that take our estimators or write what we read; their warnings are theirs.
CLIENTS := .venv-clients

test-clients: $(CLIENTS)/.installed
	$(CLIENTS)/$(SCRIPTS)/python -m pytest -q -W default tests/clients

$(CLIENTS)/.installed: setup.cfg pyproject.toml
	@echo "Installing other libraries into $(CLIENTS); it takes minutes and 8 GB."
	@$(PYTHON) -m venv --clear $(CLIENTS)
	@$(CLIENTS)/$(SCRIPTS)/python -m pip install --quiet --disable-pip-version-check \
	    --editable ".[clients]"
	@touch $@

docs: $(VENV)/.installed-docs
	$(BIN)/sphinx-build -W --keep-going -b html docs docs/_build/html

linkcheck: $(VENV)/.installed-docs
	$(BIN)/sphinx-build -W --keep-going -D plot_gallery=0 -b linkcheck docs docs/_build/linkcheck

coverage: $(VENV)/.installed-coverage
	$(BIN)/python -m pytest $(PARALLEL) --cov --cov-fail-under=0 --cov-report= $(TESTS)
	$(BIN)/coverage html --quiet --fail-under=0
	$(BIN)/coverage report

# mutmut writes all faults and notes which tests reach each, then tries the one that is named.
mutants: $(VENV)/.installed-mutants
	rm -rf mutants
	$(BIN)/mutmut run 'sklearn_mdl.metrics._extrapolation.x_is_narrow__mutmut_1'
	$(BIN)/python tests/run_mutants.py $(MUTANTS)

# The empty environment fetches torch, some gigabytes.
check-dist: $(VENV)/.installed-dist
	rm -rf dist build
	$(BIN)/python -m build --outdir dist .
	mkdir -p build/other
	umask 077; tar --no-same-permissions -xzf dist/*.tar.gz -C build/other
	umask 077; $(BIN)/python -m build --sdist --wheel --outdir build/again build/other/*
	diff -r dist build/again  # the same bytes from the sdist, whatever modes its files have
	$(PYTHON) -m venv build/empty
	build/empty/$(SCRIPTS)/python -m pip install --quiet --disable-pip-version-check dist/*.whl
	build/empty/$(SCRIPTS)/python -I tests/try_wheel.py dist
	build/empty/$(SCRIPTS)/python -m pip install --quiet --disable-pip-version-check \
	    "$$(echo dist/*.whl)[plot,report]"
	build/empty/$(SCRIPTS)/python -I tests/try_pages.py README.md docs/get-started.md

# One stamp for each extra: all targets share a .venv.
$(VENV)/.installed-%: setup.cfg pyproject.toml | $(PIP)
	@echo "Installing sklearn_mdl with the extra '$*' into $(VENV); the first time takes minutes."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[$*]"
	@touch $@

# pip is the last thing that a new environment receives: with it, it is complete.
$(PIP):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	    found="$$($(PYTHON) --version 2>&1)"; \
	    echo "sklearn_mdl needs Python 3.11 or newer, but '$(PYTHON)' says '$$found':" \
	        "name a newer one, as in 'make PYTHON=python3.12 $(or $(MAKECMDGOALS),demo)'." >&2; \
	    exit 1; }
	@$(PYTHON) -m venv $(VENV)

clean:
	rm -rf demo-results build dist *.egg-info
	rm -rf .pytest_cache .ruff_cache .mypy_cache .import_linter_cache .hypothesis
	rm -rf .coverage htmlcov mutants
	rm -rf docs/_build docs/generated docs/auto_examples
	find sklearn_mdl tests benchmarks -type d -name __pycache__ -prune -exec rm -rf {} +
