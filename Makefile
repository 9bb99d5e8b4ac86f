# Everything happens in one virtual environment, made at the first use of any target.
PYTHON ?= python3.11
VENV ?= .venv
PYTHONS ?= $(PYTHON)

# Tests of one file share exports and traces, so they stay in one process.
WORKERS ?= --numprocesses=2 --dist=loadfile

BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

.PHONY: demo demo-train test quick test-slow lint format docs dist test-wheel bench clean

# What the included model knows about three ambiguous words (half a minute).
demo: $(INSTALLED)
	$(BIN)/python examples/demo.py

# Train a small model on real text, export it, look at what it learnt (five to twelve minutes).
demo-train: $(INSTALLED)
	$(BIN)/python examples/train_demo.py

# What must hold at every commit.
test: lint
	$(BIN)/python -m pytest -m "not slow" $(WORKERS)

# The rooms that need no TensorFlow, and the layers: for while you work. About two minutes.
QUICK := $(addprefix tests/,test_architecture.py test_names.py test_errors.py config storage text formats layers)
NOT_QUICK := $(addprefix --ignore=tests/formats/,test_manylangs.py test_bilm_tf_checkpoint.py)
quick: $(INSTALLED)
	$(BIN)/python -m pytest -m "not slow" $(WORKERS) $(QUICK) $(NOT_QUICK)

# The checks that take long: real text, many kills, large vocabularies.
test-slow: $(INSTALLED)
	$(BIN)/python -m pytest -m slow

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(INSTALLED)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# The site of the documentation, in `site`. A warning, such as a link that leads nowhere, is an error.
docs: $(VENV)/.installed-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

# The sdist, and the wheel that is built from it, in `dist`.
dist: $(VENV)/.installed-release
	rm -rf dist
	$(BIN)/python -m build --no-isolation --outdir dist .
	$(BIN)/twine check --strict dist/*

# The wheel in a new environment of each Python, as a user would install it. Minutes, and 2 GB, each.
test-wheel: dist
	$(BIN)/python tests/wheel/new_environments.py dist/*.whl $(PYTHONS)

# Prints figures, checks nothing. One script each; run a single one with .venv/bin/python.
bench: $(INSTALLED)
	@set -e; for script in benchmarks/*.py; do echo "== $$script"; $(BIN)/python "$$script"; done

clean:
	rm -rf $(VENV) benchmarks/.venv build dist site *.egg-info .pytest_cache .ruff_cache .mypy_cache demo_output demo_train_output
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

# The extras `docs` and `release`, which no test needs, when they are first asked for.
$(VENV)/.installed-%: $(INSTALLED)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check \
	  --constraint constraints.txt --editable ".[$*]"
	touch $@
