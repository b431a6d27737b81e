# Two commands: `make demo` and `make test`. Each sets up what it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# Twice quiet: errors are printed, warnings are not. They are about the machine's own settings of
# pip (an index that is not there, a cache that cannot be written), which nobody can mend here.
PIP := $(BIN)/python -m pip install -qq --disable-pip-version-check --constraint constraints.txt
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest
# The tests whose outcome hangs on floating-point numbers.
NUMERICAL := tests/execute tests/models tests/oracles tests/reference tests/steps tests/theorems tests/zoo

.PHONY: demo test test-cpus lint slow clean

demo: $(STAMP)
	$(BIN)/fedstep demo

test: lint
	$(PYTEST) -n auto --durations=10

# The numerical tests as processors with fewer instructions would run them: torch, MKL and oneDNN sum in another order there.
test-cpus: $(STAMP)
	@for cpu in $$($(BIN)/python tests/cpus.py); do \
		echo "as a processor with $$cpu:"; \
		env $$($(BIN)/python tests/cpus.py $$cpu) $(PYTEST) -n auto --durations=10 $(NUMERICAL) || exit 1; \
	done

lint: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

slow: $(STAMP)
	$(PYTEST) -m slow

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "fedstep needs Python 3.11 or later: make PYTHON=python3.12 demo")'
	$(PYTHON) -m venv $(VENV)
	$(PIP) torch
	$(PIP) --editable '.[demo,plot,test]'
	touch $@

clean:
	rm -rf $(VENV) out .pytest_cache .mypy_cache .ruff_cache .hypothesis
