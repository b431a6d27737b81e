# Two commands: `make demo` and `make test`. Each sets up what it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DOCS_VENV := .venv-docs
STAMP := $(VENV)/.installed
# Twice quiet: errors are printed, warnings are not. They are about the machine's own settings of
# pip (an index that is not there, a cache that cannot be written), which nobody can mend here.
PIP := $(BIN)/python -m pip install -qq --disable-pip-version-check --constraint constraints.txt
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest
EXTRAS := .venv-extras
WITH_EXTRAS := tests/front/test_brought_extras.py tests/front/test_trackers.py tests/front/test_trainer.py
# The tests whose outcome hangs on floating-point numbers.
NUMERICAL := tests/execute tests/models tests/oracles tests/reference tests/steps tests/theorems tests/zoo

.PHONY: demo test test-cpus test-ray test-flower deploy-demo test-extras lint slow docs package clean

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

# Ray and Flower pin packages that we have newer (rich, packaging): each has an environment of its
# own, without our constraints. Only torch is pinned, so that all three take the same build.
TORCH := $(shell grep '^torch==' constraints.txt)
OWN_PYTEST := OMP_NUM_THREADS=1 FLWR_TELEMETRY_ENABLED=0 RAY_USAGE_STATS_ENABLED=0

# with dp-accounting, which the core's environment lacks
test-flower: .venv-flower/.installed
	$(OWN_PYTEST) .venv-flower/bin/python -m pytest --timeout 300 --durations=5 tests/flower tests/server/test_privacy.py

test-ray: .venv-ray/.installed
	$(OWN_PYTEST) .venv-ray/bin/python -m pytest --timeout 300 --durations=5 tests/cluster

# SuperLink with TLS, four SuperNodes with keys on loopback, and what goes wrong in real deployments.
deploy-demo: .venv-flower/.installed
	.venv-flower/bin/python examples/flower-app/deploy.py

.venv-flower/.installed: EXTRA := flwr[simulation]>=1.38,<2
.venv-ray/.installed: EXTRA := ray>=2.52
.venv-%/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv-$*
	.venv-$*/bin/python -m pip install -qq --disable-pip-version-check $(TORCH)
	.venv-$*/bin/python -m pip install -qq --disable-pip-version-check $(TORCH) \
		--editable '.[demo,privacy]' '$(EXTRA)' pytest pytest-timeout hypothesis
	touch $@

# What needs Hugging Face, frames and trackers, in an environment of its own: the core must do without them.
test-extras: $(EXTRAS)/.installed
	OMP_NUM_THREADS=1 $(EXTRAS)/bin/python -m pytest -n 2 --durations=5 $(WITH_EXTRAS)
	OMP_NUM_THREADS=1 $(EXTRAS)/bin/python -m pytest tests/front/test_docs.py -k hugging

lint: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

slow: $(STAMP)
	$(PYTEST) -m slow

# The documentation site, in an environment of its own: it needs neither torch nor this package.
docs: $(DOCS_VENV)/.installed
	NO_MKDOCS_2_WARNING=1 $(DOCS_VENV)/bin/mkdocs build --strict --quiet
	@echo "site/index.html"

$(DOCS_VENV)/.installed: docs/requirements.txt
	$(PYTHON) -m venv $(DOCS_VENV)
	$(DOCS_VENV)/bin/python -m pip install -qq --disable-pip-version-check --requirement docs/requirements.txt
	touch $@

# The wheel and the source archive, each installed into a clean environment of $(PYTHON) and tried from there.
package: $(STAMP)
	rm -rf dist
	$(BIN)/python -m build --outdir dist .
	$(PYTHON) tests/package.py dist

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "fedstep needs Python 3.11 or later: make PYTHON=python3.12 demo")'
	$(PYTHON) -m venv $(VENV)
	$(PIP) torch
	$(PIP) --editable '.[demo,plot,test]'
	touch $@

$(EXTRAS)/.installed: pyproject.toml constraints.txt constraints-extras.txt
	$(PYTHON) -m venv $(EXTRAS)
	$(EXTRAS)/bin/python -m pip install -qq --disable-pip-version-check --constraint constraints-extras.txt torch
	$(EXTRAS)/bin/python -m pip install -qq --disable-pip-version-check --constraint constraints-extras.txt --editable '.[demo,plot,test,hf,pandas,trackers]' polars
	touch $@

clean:
	rm -rf $(VENV) $(DOCS_VENV) .venv-ray .venv-flower $(EXTRAS) out site dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
