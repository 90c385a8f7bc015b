# make demo, make test: from a fresh clone, with Python, pip and make only.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export NUMBA_CACHE_DIR := $(CURDIR)/.numba_cache

.PHONY: demo test test-gpu test-kill check docs bench clean

$(VENV)/.base: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade pip
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[all]'
	touch $@

$(VENV)/.dev: $(VENV)/.base
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[test,check]'
	touch $@

demo: $(VENV)/.base
	$(BIN)/python examples/demo.py

test: $(VENV)/.dev
	$(BIN)/python -m pytest -n 2 --dist loadfile

$(VENV)/.gpu: $(VENV)/.dev
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[gpu]'
	touch $@

# the code for GPUs, on one if there is one, else on the CPU by Triton's interpreter
test-gpu: $(VENV)/.gpu
	WIDEMARGIN_INTERPRET=1 $(BIN)/python -m pytest tests/backends tests/test_docs.py

# kills fits of every estimator at random moments, each twice; they must go on to the same bits
test-kill: $(VENV)/.dev
	$(BIN)/python tests/killing.py random 2

check: $(VENV)/.dev
	$(BIN)/ruff check src tests benchmarks examples
	$(BIN)/ruff format --check src tests benchmarks examples
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/codespell src tests benchmarks examples docs README.md CHANGELOG.md

$(VENV)/.docs: $(VENV)/.dev
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[docs]'
	touch $@

# the site, into docs/_build/html; a warning is an error
docs: $(VENV)/.docs
	$(BIN)/sphinx-build -q -W --keep-going -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

bench: $(VENV)/.dev
	$(BIN)/python -m benchmarks.peers.linear

clean:
	rm -rf $(VENV) docs/_build docs/tutorials docs/api/generated .numba_cache .pytest_cache .mypy_cache .ruff_cache
