# Relative paths throughout: the checkout's own path may contain a space.
PYTHON ?= python3
EXTRAS ?= dev
VENV := .venv
BIN := $(VENV)/bin
# The private Apptainer and helper programs are linked in BIN. Not exported for all: `make setup`
# must not take the environment's own python3 for the machine's.
WITH_BIN := PATH="$(CURDIR)/$(BIN):$$PATH"

.DEFAULT_GOAL := help
.PHONY: help setup demo golden test test-long lint clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 20

setup: ## virtual environment, Apptainer and its helper programs (a few minutes, once)
	@$(PYTHON) tools/setup_venv.py --venv $(VENV) --extras $(EXTRAS)
	@$(PYTHON) tools/setup_engine.py --bin $(BIN) --prefix .tools

demo: setup ## build and validate a PyTorch image on this machine
	@start=$$(date +%s) && \
	export $(WITH_BIN) && \
	$(BIN)/dlcontainer doctor && \
	$(BIN)/dlcontainer build pytorch --site local -o demo && \
	$(BIN)/dlcontainer validate demo/*.sif --site local && \
	echo "make demo: done in $$(( $$(date +%s) - start )) s"

lint: setup ## ruff, mypy and the layers of the design
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy $(wildcard dlcontainer tests tools benchmarks)
	$(BIN)/lint-imports

golden: setup ## write the golden files anew; look at `git diff` before you commit
	$(BIN)/python -m pytest -q tests/unit/test_golden.py --update-golden

test: setup lint ## lint and all tests but those that take minutes
	$(WITH_BIN) $(BIN)/python -m pytest -m "not long"

test-long: setup ## all tests
	$(WITH_BIN) $(BIN)/python -m pytest

clean: ## remove what make made, the private engine and demo images included
	@# Below a path with a space the engine stands elsewhere, and .tools/apptainer is a link to it.
	if [ -L .tools/apptainer ]; then rm -rf "$$(readlink -f .tools/apptainer)"; fi
	rm -rf $(VENV) .tools demo dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
