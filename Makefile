# `make test` and `make demo` need nothing but Python 3.10 to 3.13 and make: the first call sets up .venv.
PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin/python
# Written last: an interrupted set-up is repeated by the next call.
READY := $(VENV)/.installed
MADE := $(VENV)/.made-by-make
# One process per core, at most eight; tests of a file run in one process, since they share fixtures.
PARALLEL := --numprocesses auto --maxprocesses 8 --dist loadfile
PIP := $(RUN) -m pip --disable-pip-version-check install --quiet --quiet --constraint constraints.txt

.PHONY: help demo gallery notebooks test test-all test-versions lint types check format docs browser clean
.DELETE_ON_ERROR:

help:
	@echo "make demo    set up if needed, then a one-minute tour: collapse, training, a report"
	@echo "make gallery run every script of examples/; output in outputs/gallery"
	@echo "make notebooks  convert examples/ to notebooks in outputs/notebooks"
	@echo "make test    set up if needed, then run all tests and doctests"
	@echo "make test-all  the same with slow tests"
	@echo "make test-versions  some tests with every declared Python, and with the lowest declared dependencies"
	@echo "make check   lint, types and tests; must pass before a commit"
	@echo "make lint    ruff: rules and format"
	@echo "make types   mypy, strict, on src"
	@echo "make format  ruff: fix and format"
	@echo "make docs    build the documentation into build/docs"
	@echo "make browser install Debian's Chromium, for the browser tests"
	@echo "make clean   remove .venv and all caches"

demo: $(READY)
	@$(RUN) examples/demo.py

gallery: $(READY)
	@$(RUN) tools/gallery.py

notebooks: $(READY)
	@$(RUN) tools/notebooks.py

test: $(READY)
	@$(RUN) -m pytest $(PARALLEL)

test-all: $(READY)
	@GRAPHPRISM_SLOW_TESTS=1 $(RUN) -m pytest $(PARALLEL)

# PYTHONS="3.10 3.13" selects versions; environments are cached in .venvs.
test-versions: $(READY)
	@$(RUN) tools/test_versions.py $(PYTHONS)

lint: $(READY)
	@$(RUN) -m ruff check .
	@$(RUN) -m ruff format --check .

types: $(READY)
	@$(RUN) -m mypy

check: lint types test

format: $(READY)
	@$(RUN) -m ruff check --fix .
	@$(RUN) -m ruff format .

docs: $(VENV)/.installed-docs
	@OMP_NUM_THREADS=1 $(RUN) -m sphinx -q -W --keep-going docs build/docs
	@echo "The documentation is in build/docs/index.html."

$(VENV)/.installed-docs: $(READY)
	@echo "Installing the packages that build the documentation."
	@$(PIP) --no-build-isolation --editable '.[docs]'
	@touch $@

# Only an environment that make created is ever cleared: .made-by-make is written before anything is installed.
# torch and the build backend first, at pinned versions: without build isolation nothing is downloaded twice.
$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 13))' || \
		{ echo "graphprism is set up with Python 3.10 to 3.13, got $$($(PYTHON) --version 2>&1); try make PYTHON=python3.12"; exit 1; }
	@if test -e $@ && $(RUN) -m pip --version > /dev/null 2>&1; then \
		echo "Updating $(VENV) to the versions of constraints.txt."; rm $@; \
	elif test -e $(MADE) || test -z "$$(ls -A $(VENV) 2> /dev/null)"; then \
		echo "Setting up $(VENV) with the versions of constraints.txt; the first time takes about a minute, longer with a slow download of torch."; \
		echo "1/3 environment"; \
		mkdir -p $(VENV) && touch $(MADE) && \
		find $(VENV)/ -mindepth 1 -maxdepth 1 ! -name $(notdir $(MADE)) -exec rm -rf {} + && $(PYTHON) -m venv $(VENV); \
	else \
		echo "$(VENV) must be an environment that make set up, but it holds another one, which stays as it is: make VENV=.venv-make $(or $(MAKECMDGOALS),test) sets up a second one, and $(RUN) -m pip install -c constraints.txt -e '.[dev]' && touch $@ uses this one."; exit 1; \
	fi
	@echo "2/3 torch and the build backend"
	@$(PIP) torch hatchling
	@echo "3/3 graphprism and its development packages"
	@$(PIP) --no-build-isolation --editable '.[dev]'
	@touch $@

browser:
	apt-get update --quiet --quiet && apt-get install --yes --quiet --quiet --no-install-recommends chromium

clean:
	@if test -e $(MADE); then rm -rf $(VENV); elif test -e $(VENV); then echo "$(VENV) stays: make did not set it up."; fi
	rm -rf .venvs .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist docs/generated
	find src tests examples benchmarks tools docs -name __pycache__ -type d -prune -exec rm -rf {} + 2> /dev/null || true
