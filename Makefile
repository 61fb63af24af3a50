# Everything from a bare clone with python3 and make: `make demo`, `make check`, `make test`, `make docs`, `make lint`, `make bench`.
# `make check` takes a minute, `make test` some ten; both work in .venv, and `make test` asks for a browser.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
USE    := $(VENV)/.use
DEV    := $(VENV)/.dev
DOCS   := $(VENV)/.docs
PIP    := $(BIN)/python -m pip --disable-pip-version-check install --quiet --progress-bar off

.PHONY: demo check test docs lint bench browser wheel matrix clean
.DEFAULT_GOAL := test

$(USE): pyproject.toml
	@echo "── setting up $(VENV), a private environment (once, about a minute)"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "SparLow needs Python 3.11 or newer; name one: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(PIP) --upgrade "pip>=24"
	@$(PIP) --editable ".[plots,cli]"
	@touch $@

$(DEV): $(USE)
	@echo "── adding the tools of development (once, about a minute)"
	@$(PIP) --editable ".[dev]"
	@touch $@

demo: $(USE)
	@$(BIN)/python examples/01_joint_learning.py --output demo
	@echo "── demo finished: open the pictures above"

# the tests of pages drive a real browser
browser:
	@{ command -v chromium || command -v chromium-browser || command -v google-chrome; } >/dev/null \
	  && command -v chromedriver >/dev/null \
	  || { test "$$(id -u)" = 0 && command -v apt-get >/dev/null \
	       && echo "── installing system-wide, by apt-get: chromium and chromium-driver (once, about 400 MB)." \
	       && echo "   The tests of pages open each page in a browser, click through it and see that no error is logged." \
	       && echo "   Everything else stays in $(VENV). Stop now by Ctrl-C, or use make check, which needs no browser." \
	       && sleep 3 \
	       && apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq chromium chromium-driver >/dev/null; } \
	  || { echo "The tests of pages need Chromium and its driver, and they could not be installed here. On Debian:"; \
	       echo "  sudo apt-get install chromium chromium-driver"; echo "make check needs neither."; exit 1; }

# the fast part: checkers, and all tests that are not marked slow
check: $(DEV)
	@echo "── 1/2 checkers"
	@$(MAKE) --no-print-directory lint
	@echo "── 2/2 fast tests"
	@$(BIN)/python -m pytest -q -m "not slow" --numprocesses 2 --dist worksteal tests
	@echo "── all fast tests passed"

test: $(DEV) browser
	@echo "── 1/3 checkers"
	@$(MAKE) --no-print-directory lint
	@echo "── 2/3 small cases without compilation, for true coverage of the kernels"
	@NUMBA_DISABLE_JIT=1 $(BIN)/python -m pytest -q -m interpreted --numprocesses 2 --dist worksteal --cov --cov-report= tests
	@$(BIN)/python -m coverage report --include="*/_kernels/*" --show-missing --fail-under=94
	@echo "── 3/3 every test"
	@$(BIN)/python -m pytest -q --durations=5 --numprocesses 2 --dist loadfile
	@echo "── all tests passed"

$(DOCS): $(USE)
	@echo "── adding the tools of the site (once, about a minute)"
	@$(PIP) --editable ".[docs]"
	@touch $@

# the site, with its gallery; a warning is an error, and no network is needed
docs: $(DOCS)
	@OMP_WAIT_POLICY=passive $(BIN)/python -m sphinx -q -W --keep-going -j auto -d docs/_build/doctrees -b html docs docs/_build/html
	@echo "── the site is built: open docs/_build/html/index.html"

lint: $(DEV)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

# wheel and sdist in dist/, each tried in a fresh environment outside of the clone with the core dependencies alone
wheel: $(DEV)
	@rm -rf dist
	@$(BIN)/python -m build --outdir dist .
	@for file in dist/*; do \
	  place=$$(mktemp -d) && $(PYTHON) -m venv $$place/venv \
	  && $$place/venv/bin/python -m pip install --quiet --progress-bar off $$file \
	  && cp tests/ten_lines.py README.md $$place && (cd $$place && venv/bin/python ten_lines.py README.md) \
	  && rm -rf $$place && echo "── $$file runs the lines of the README" || exit 1; \
	done

# every test with the lowest versions that pyproject.toml allows, and with the newest, for each Python found, those of
# pyenv too; make matrix TESTS=fast leaves out the slow ones, VERSIONS=lowest the newest versions
PYTHONS  ?= $(shell for v in 11 12 13 14; do for p in python3.$$v $(HOME)/.pyenv/versions/3.$$v.*/bin/python; do \
              $$p -c 'import sys; print(sys.executable)' 2>/dev/null && break; done; done; true)
VERSIONS ?= lowest newest
TESTS    ?= all
matrix:
	@test -n "$(PYTHONS)" || { echo "No python3.11 to python3.14 was found; name them: make matrix PYTHONS='/path/python3.12'"; exit 1; }
	@for python in $(PYTHONS); do for versions in $(VERSIONS); do \
	  name=$$($$python -c 'import sys; print("%d.%d" % sys.version_info[:2])')-$$versions; place=$(CURDIR)/.matrix/$$name; \
	  echo "── $$name, $(TESTS) tests"; mkdir -p .matrix && $$python -m venv $$place && : > $$place/constraints.txt \
	  && if [ $$versions = lowest ]; then $$place/bin/python tests/lowest.py > $$place/constraints.txt; fi \
	  && $$place/bin/python -m pip install --quiet --progress-bar off --constraint $$place/constraints.txt --editable ".[dev]" \
	  && NUMBA_CACHE_DIR=$$place/kernels $$place/bin/python -m pytest -q -p no:cacheprovider \
	       $(if $(filter fast,$(TESTS)),-m "not slow") --numprocesses 2 --dist loadfile \
	  || exit 1; \
	done; done
	@echo "── all versions passed: $(VERSIONS) for $(PYTHONS)"

bench: $(DEV)
	@$(BIN)/python benchmarks/coding.py
	@OMP_WAIT_POLICY=passive $(BIN)/python benchmarks/dictionaries.py
	@$(BIN)/python benchmarks/images.py
	@$(BIN)/python -m benchmarks.joint

clean:
	rm -rf $(VENV) .matrix dist demo docs/_build docs/api docs/gallery .pytest_cache .mypy_cache .ruff_cache .coverage
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
