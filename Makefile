# make demo, make test: from a fresh clone, with Python, pip and make only.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export NUMBA_CACHE_DIR := $(CURDIR)/.numba_cache
# byte code is kept even where Python is told not to: tests start many processes, and each would read all sources anew
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-checked test-gpu test-kill test-signals test-versions fuzz check docs dist bench clean

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

# all tests, or those named by ONLY="tests/theory tests/core/rows/test_rows.py", with loops that test every index; their many
# tests are optimised less, which takes a quarter of the time
test-checked: $(VENV)/.dev
	WIDEMARGIN_CHECKED=1 NUMBA_OPT=1 $(BIN)/python -m pytest -n 2 --dist loadfile $(ONLY)

$(VENV)/.gpu: $(VENV)/.dev
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[gpu]'
	touch $@

# the code for GPUs, on one if there is one, else on the CPU by Triton's interpreter
test-gpu: $(VENV)/.gpu
	WIDEMARGIN_INTERPRET=1 $(BIN)/python -m pytest tests/backends tests/test_docs.py

# kills fits of every estimator at random moments, each twice; they must go on to the same bits
test-kill: $(VENV)/.dev
	$(BIN)/python tests/killing.py random 2

# presses Ctrl-C at random moments of all that takes long; none may be lost, and no process may die of it
test-signals: $(VENV)/.dev
	$(BIN)/python tests/signalling.py 200

# damaged files of every kind, used in child processes whose loops test every index, but for CHECKED=0: N=20000 files,
# SEED=1 for the same ones again
fuzz: $(VENV)/.dev
	$(if $(filter 0,$(CHECKED)),,WIDEMARGIN_CHECKED=1 NUMBA_OPT=1) $(BIN)/python tests/fuzz/fuzz_models.py $(or $(N),1000) $(if $(SEED),--seed $(SEED))

# some of the tests on Python 3.11 to 3.14, with the oldest and newest dependencies; ONLY="oldest 3.13" for some
test-versions:
	$(PYTHON) tests/versions.py $(ONLY)

check: $(VENV)/.dev
	$(BIN)/ruff check src tests benchmarks examples
	$(BIN)/ruff format --check src tests benchmarks examples
	$(BIN)/mypy
	$(BIN)/mypy --strict tests/typing/user.py
	$(BIN)/lint-imports
	$(BIN)/codespell --skip 'docs/_build,docs/tutorials,docs/api/generated' src tests benchmarks examples docs README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md

$(VENV)/.docs: $(VENV)/.dev
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[docs]'
	touch $@

# the site, into docs/_build/html; a warning is an error
docs: $(VENV)/.docs
	$(BIN)/sphinx-build -q -W --keep-going -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

$(VENV)/.dist: $(VENV)/.base
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dist]'
	touch $@

# sdist and wheel, into dist; each is installed in an environment of its own and tried there
dist: $(VENV)/.dist
	$(BIN)/python tests/distributions.py

bench: $(VENV)/.dev
	$(BIN)/python -m benchmarks.peers.linear

clean:
	rm -rf $(VENV) .venvs dist docs/_build docs/tutorials docs/api/generated .numba_cache .pytest_cache .mypy_cache .ruff_cache
