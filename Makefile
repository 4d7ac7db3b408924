# Everything runs in .venv, which the first target that needs it makes. PYTHON names the Python
# (3.11 or newer) to make it with: make test PYTHON=python3.12
# CONSTRAINTS names the file of versions: constraints.txt, build/lowest.txt (the lowest that
# pyproject.toml allows) or build/newest.txt (the newest that fit together).

PYTHON ?= python3
CONSTRAINTS ?= constraints.txt
VENV := .venv
BIN := $(VENV)/bin
PIP_INSTALL := $(BIN)/python -m pip install --disable-pip-version-check -c $(CONSTRAINTS)
# Programs that tests start take the compiled modules that others have left.
PYTEST := OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest
# Two workers, a file at a time in order: those of few tests, which may be long, are not left for the end.
ABREAST := -n 2 --dist loadfile --no-loadscope-reorder
QUICKSTART := $(VENV)/.installed-quickstart
DATES := runs/quickstart
DEV := $(VENV)/.installed-dev
DOCS := $(VENV)/.installed-docs

.PHONY: help install quickstart test test-slow test-processors mutants coverage check bench release docs test-docs clean

help:  ## list these targets
	@sed -n 's/^\([a-z-]*\):.*  ## \(.*\)/make \1|\2/p' Makefile | while IFS='|' read -r name line; do \
		printf '%-18s %s\n' "$$name" "$$line"; done

install: $(QUICKSTART)  ## make .venv and install crosshead into it

quickstart: $(QUICKSTART)  ## train a small Transformer on dates and show what it does (minutes)
	$(BIN)/crosshead data get dates --out $(DATES)
	$(BIN)/crosshead train quickstart --source $(DATES)/train.en --target $(DATES)/train.de \
		--valid-source $(DATES)/valid.en --valid-target $(DATES)/valid.de --out $(DATES)/model --force
	$(BIN)/crosshead evaluate $(DATES)/model --source $(DATES)/test.en --reference $(DATES)/test.de
	$(BIN)/crosshead evaluate $(DATES)/model --source $(DATES)/unseen.en --reference $(DATES)/unseen.de
	printf '%s\n' 'Friday, March 5, 2021' '7 Sept 2099' '31/12/1999' 'Q3 1905' | $(BIN)/crosshead translate $(DATES)/model
	$(BIN)/crosshead attention $(DATES)/model 'Friday, March 5, 2021' --out $(DATES)/attention.png

test: $(DEV)  ## run the tests, without the slow ones
	$(PYTEST) $(ABREAST)

test-slow: $(DEV)  ## run the slow tests
	$(PYTEST) -m slow $(ABREAST)

test-processors: $(DEV)  ## run the tests and the quickstart as other processors would (an hour)
	tools/test_processors.sh $(BIN)/python

mutants: $(DEV)  ## change the code in 300 small ways, and count the changes that the tests notice (an hour)
	$(BIN)/python tools/mutants.py --log build/mutants.jsonl

coverage: $(DEV)  ## run the tests, or TESTS=tests/..., and report the lines and branches that they miss
	@mkdir -p build
	$(PYTEST) $(ABREAST) --cov --cov-report=term --cov-report=html $(TESTS)

check: $(DEV)  ## lint, formatting, types, the import ladder, ARCHITECTURE.md, size
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/python tools/check_architecture.py
	$(BIN)/python tools/count_code.py --check

bench: $(DEV)  ## measure this code's speed, beside its peers (long)
	@set -e; for script in benchmarks/*_speed.py; do echo "== $$script"; $(BIN)/python $$script; done

release: $(DEV)  ## build wheel and sdist in dist/, and run README's examples from it with each extra (long)
	$(BIN)/python tools/release.py

docs: $(DOCS)  ## build the documentation site into build/site; a warning or a dead link is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

test-docs: $(DEV)  ## run the code blocks of README.md, ARCHITECTURE.md and docs/, and the notebooks of the course
	$(PYTEST) -m "slow or not slow" -n 2 tests/test_docs.py tests/test_course.py

clean:  ## remove .venv, caches and build outputs (runs/ stays)
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "crosshead needs Python 3.11 or newer, %s is %d.%d: make PYTHON=python3.11" % (sys.executable, *sys.version_info[:2]))'
	$(PYTHON) -m venv $(VENV)

$(QUICKSTART): pyproject.toml $(CONSTRAINTS) | $(BIN)/python
	$(PIP_INSTALL) -e '.[quickstart]'
	@touch $@

$(DEV): pyproject.toml $(CONSTRAINTS) | $(BIN)/python
	$(PIP_INSTALL) -e '.[dev]'
	@touch $@ $(QUICKSTART)

$(DOCS): pyproject.toml $(CONSTRAINTS) | $(BIN)/python
	$(PIP_INSTALL) -e '.[docs]'
	@touch $@

build/lowest.txt: pyproject.toml tools/lowest_versions.py | $(BIN)/python
	@mkdir -p build
	$(BIN)/python tools/lowest_versions.py > $@.part
	@mv $@.part $@

build/newest.txt:
	@mkdir -p build
	@touch $@
