# Everything a newcomer needs: `make demo`, `make test`. Both create .venv on first use.
PYTHON ?= python3
VENV := .venv
# One more than the cores it has to do with: tests also wait, for processes that they have started.
JOBS ?= 3
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

# Build environments obey the pins too (the second name is the one newer pips read).
export PIP_CONSTRAINT := constraints.txt
export PIP_BUILD_CONSTRAINT := constraints.txt
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Tests start hundreds of processes, which find bytecode in place of reading all source again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help install demo test lint types layers kernels unit nightly worst mutants bench format clean

help: ## Show this list
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Penstock needs Python 3.11 or later; say PYTHON=/path/to/python3 if it is not 'python3'." >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
	  { echo "This Python has no venv module (on Debian and Ubuntu: apt install python3-venv)." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	@touch $@

install: $(STAMP) ## Create .venv with the pinned packages

demo: $(STAMP) ## Match a year of New York flights; send them through seven brokers, kill one, and route them on Spark
	@$(BIN)/penstock demo

test: $(STAMP) ## Everything that CI runs
	@$(MAKE) --no-print-directory -j 2 kernels lint types layers
	@$(MAKE) --no-print-directory unit

lint: $(STAMP) ## Lint and check the format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP) ## Type-check strictly
	$(BIN)/mypy

layers: $(STAMP) ## Check that imports point down only
	$(BIN)/lint-imports --no-cache

kernels: $(STAMP) ## Compile the kernels once: processes that start together would each compile them
	@$(BIN)/penstock warm

unit: kernels ## Run the tests with Hypothesis's quick profile, on JOBS processes
	$(BIN)/python -m pytest -n $(JOBS) --dist loadfile

nightly: $(STAMP) ## Run the property tests with tens of thousands of examples (two hours or so), and search for worse filters
	HYPOTHESIS_PROFILE=nightly $(BIN)/python -m pytest -m property -o faulthandler_timeout=0
	@$(BIN)/python tests/worst_filters.py --seconds 300 --length 1024 --seed $$(date +%j) --save worst-filters.jsonl

worst: $(STAMP) ## Search a minute for the filters that cost a broker most, and print them
	@$(BIN)/python tests/worst_filters.py --seconds 60

mutants: $(STAMP) ## Break the code on purpose, in dozens of ways, and show what notices (five minutes or so)
	@$(BIN)/python tests/mutants/run.py

bench: $(STAMP) ## Print the benchmarks
	@$(BIN)/penstock bench filters
	@$(BIN)/penstock bench matching

format: $(STAMP) ## Format the code and apply safe fixes
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean: ## Remove what make created
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find src tests -name __pycache__ -prune -exec rm -rf {} +
