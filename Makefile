# Relative paths throughout: the checkout's own path may contain a space.
PYTHON ?= python3
EXTRAS ?= dev
# Options of `dlcontainer build` in the demo: --offline BUNDLE.
BUILD ?=
# What `make unit` runs.
ONLY ?= tests/unit
VENV := .venv
BIN := $(VENV)/bin
# The private Apptainer and helper programs are linked in BIN. Not exported for all: `make setup`
# must not take the environment's own python3 for the machine's.
WITH_BIN := PATH="$(CURDIR)/$(BIN):$$PATH"
# Where it is set each process of a test run compiles all tests anew, which is half of their collection.
unexport PYTHONDONTWRITEBYTECODE
# One more than there are cores, since tests wait for two fifths of their time. Each worker builds its
# own base and images: more of them need the disk and memory for it.
WORKERS := -n $(shell n=$$(nproc 2>/dev/null || echo 1); echo $$((n < 3 ? n + 1 : 4))) --dist loadscope

# One run with one clock: its steps are numbered.
SET_UP = $(PYTHON) tools/set_up.py --bin $(BIN) --prefix .tools --extras "$(EXTRAS)"
define LINT
$(BIN)/ruff check
$(BIN)/ruff check --isolated --select E9,F --target-version py37 dlcontainer/probe recipes
$(BIN)/ruff format --check
$(BIN)/mypy $(wildcard dlcontainer tests tools benchmarks)
$(BIN)/lint-imports
endef

.DEFAULT_GOAL := help
.PHONY: help setup setup-venv setup-tests demo docs golden unit check test test-long test-bare lint dist clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 20

# What the unit tests and the lint need: no engine, no root, nothing built.
setup-venv:
	@$(SET_UP) venv

setup: ## virtual environment, Apptainer and its helper programs (a few minutes, once; V=1 shows all)
	@$(SET_UP) venv engine

setup-tests: ## what the integration tests use beside the engine
	@$(SET_UP) venv engine tests

# A user needs none of the extras: `make test` adds them to the same environment.
demo: ## PyTorch for this machine: build, validate, publish, load, compare with native, report
	@$(PYTHON) tools/demo.py --bin $(BIN) --extras "$(if $(filter file,$(origin EXTRAS)),,$(EXTRAS))" --build "$(BUILD)"

# Its pages are checked by `make unit` too, in seconds and without a site.
docs: setup-venv ## the book: docs/ as a site in book/, with each command and schema; no network needed
	@$(BIN)/python -m tools.book

lint: setup-venv ## ruff, mypy and the layers of the design
	$(LINT)

golden: setup-venv ## write the golden files anew; look at `git diff` before you commit
	$(BIN)/python -m pytest -q tests/unit/formats/test_golden.py tests/unit/formats/test_reframe.py tests/unit/planning/conflicts/test_table.py tests/unit/test_pages.py --update-golden

unit: setup-venv ## the unit tests: no engine needed; one of them: make unit ONLY=tests/unit/cli
	$(BIN)/python -m pytest -q $(WORKERS) -m "not long" $(ONLY)

check: lint unit ## lint and the unit tests: before each commit

test: setup-tests ## lint and all tests but those that take minutes
	$(LINT)
	$(WITH_BIN) $(BIN)/python -m pytest $(WORKERS) -m "not long"

test-long: setup-tests ## all tests
	$(WITH_BIN) $(BIN)/python -m pytest

test-bare: setup-venv ## the two commands on a bare machine, one a call (root only); ONLY=12-root for that one
	@$(WITH_BIN) $(BIN)/python -m tests.bare.run $(if $(filter file,$(origin ONLY)),,$(ONLY))

dist: setup ## wheel and source archive in dist/: the same bytes whenever and wherever they are made
	rm -rf dist
	$(BIN)/python -m hatchling build

clean: ## remove what make made, the private engine and demo images included
	@# Below a path with a space the engine stands elsewhere, and .tools/apptainer is a link to it.
	if [ -L .tools/apptainer ]; then rm -rf "$$(readlink -f .tools/apptainer)"; fi
	rm -rf $(VENV) .tools demo dist book .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
