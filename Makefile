# Everything from a bare clone with python3 and make: `make demo`, `make test`, `make lint`, `make bench`.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready

.PHONY: demo test lint bench clean
.DEFAULT_GOAL := test

$(READY): pyproject.toml
	@echo "── setting up $(VENV): a private environment (once, a few minutes)"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "SparLow needs Python 3.11 or newer; name one with: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --disable-pip-version-check --progress-bar off --upgrade "pip>=24" | tail -n 1
	@$(BIN)/python -m pip install --disable-pip-version-check --progress-bar off -e ".[dev]" | grep -E "^(Successfully|Requirement already satisfied: sparlow)" || { echo "installation failed: see above"; exit 1; }
	@touch $@

demo: $(READY)
	@$(BIN)/python examples/01_codes_of_digits.py --output demo
	@echo "── demo finished: open the pictures above"

test: $(READY)
	@echo "── 1/3 checkers"
	@$(MAKE) --no-print-directory lint
	@echo "── 2/3 small cases without compilation, for true coverage of the kernels"
	@NUMBA_DISABLE_JIT=1 $(BIN)/python -m pytest -q -m interpreted --cov --cov-report=term-missing --cov-fail-under=95 tests
	@echo "── 3/3 every test"
	@$(BIN)/python -m pytest -q --durations=5
	@echo "── all tests passed"

lint: $(READY)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

bench: $(READY)
	@$(BIN)/python benchmarks/coding.py

clean:
	rm -rf $(VENV) demo .pytest_cache .mypy_cache .ruff_cache .coverage
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
