# demo: set up and run the main job on the bundled model.   test: the whole test suite (under 15 minutes on 2 cores).
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
MARKER := $(VENV)/installed
PYTEST := $(BIN)/python -m pytest -n auto --dist loadfile

.PHONY: demo test test-all check clean

demo: $(MARKER)
	$(BIN)/rewrite-engine demo

test: $(MARKER)
	$(PYTEST) -m "not slow"

test-all: $(MARKER)
	$(PYTEST)

check: $(MARKER)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

$(MARKER): pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed: make PYTHON=...") if sys.version_info < (3, 11) else None'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	touch $(MARKER)

clean:
	rm -rf $(VENV) out build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
