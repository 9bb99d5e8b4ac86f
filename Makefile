# Everything happens in one virtual environment, made at the first use of any target.
PYTHON ?= python3.11
VENV ?= .venv

# Tests of one file share exports and traces, so they stay in one process.
WORKERS ?= --numprocesses=2 --dist=loadfile

BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

.PHONY: demo test test-slow lint bench clean

# Train a small model on real text, export it, look at what it learnt (five to twelve minutes).
demo: $(INSTALLED)
	$(BIN)/python examples/demo.py

# What must hold at every commit.
test: lint
	$(BIN)/python -m pytest -m "not slow" $(WORKERS)

# The checks that take long: real text, many kills, large vocabularies.
test-slow: $(INSTALLED)
	$(BIN)/python -m pytest -m slow

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Prints figures, checks nothing. One script each; run a single one with .venv/bin/python.
bench: $(INSTALLED)
	@set -e; for script in benchmarks/*.py; do echo "== $$script"; $(BIN)/python "$$script"; done

clean:
	rm -rf $(VENV) benchmarks/.venv build dist *.egg-info .pytest_cache .ruff_cache .mypy_cache demo_output
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The stamp makes a second run quick; it is out of date when what has to be installed changed.
$(INSTALLED): setup.py constraints.txt
	@command -v $(PYTHON) >/dev/null || { \
	  echo "make: $(PYTHON) not found; name a Python of 3.11 or newer: make PYTHON=python3 ..." >&2; \
	  exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check \
	  --constraint constraints.txt --editable ".[demo,dev]"
	touch $@
