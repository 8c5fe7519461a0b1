# VENV: the environment with PyTorch and the converter. Point it elsewhere to share one between clones.
VENV ?= .venv
PYTHON ?= python3
BIN := $(VENV)/bin
STAMP := $(VENV)/.ready-torch-2.13.0-coreai-torch-0.4.3-xdist
SOURCES := $(shell find src python -name '*.rs' -o -name '*.py' -o -name '*.toml') Cargo.toml pyproject.toml
# nextest where it is installed, cargo's own runner elsewhere.
CARGO_TEST := $(shell cargo nextest --version >/dev/null 2>&1 && echo "cargo nextest run" || echo "cargo test")

.PHONY: gate test test-rust test-python test-standalone lint bench clean

## gate: convert and judge the five examples
gate: $(BIN)/coreai-audit
	CI=true $(BIN)/coreai-audit gate

## test: all tests
test: test-rust test-standalone test-python

# The commands that convert are compiled in where there is a libpython to link; `test-python` runs them anyway.
LIBPYTHON := $(shell $(PYTHON) -c "import os, sysconfig; v = sysconfig.get_config_var; d = v('LIBDIR') or ''; n = v('LDLIBRARY') or ''; print(d if '.so' in n and os.path.exists(os.path.join(d, n)) else '')")

STANDALONE = PYO3_PYTHON=$(PYTHON) LD_LIBRARY_PATH=$(LIBPYTHON) cargo run -q --features embed --

test-rust:
	$(if $(LIBPYTHON),,@echo "no shared libpython for $(PYTHON): the feature embed is left out")
	$(if $(LIBPYTHON),PYO3_PYTHON=$(PYTHON) LD_LIBRARY_PATH=$(LIBPYTHON)) $(CARGO_TEST) $(if $(LIBPYTHON),--features embed)

# The binary with Python inside converts, and moves to another version, with the packages of an environment.
test-standalone: test-rust $(STAMP)
	$(if $(LIBPYTHON),$(STANDALONE) gate snake --python $(VENV))
	$(if $(LIBPYTHON),$(STANDALONE) upgrade snake --from $(VENV) --to $(BIN)/python --fresh)

# Files are what processes share out: the tests of one share a worker with PyTorch in it.
test-python: $(BIN)/coreai-audit
	$(BIN)/python -m pytest -q -n auto --maxprocesses 4 --dist loadfile tests/python

## lint: formatting and static checks
lint: $(STAMP)
	cargo fmt --check
	cargo clippy --no-default-features --all-targets -- -D warnings
	PYO3_PYTHON=$(abspath $(BIN)/python) cargo clippy --features embed --all-targets -- -D warnings
	$(BIN)/ruff format --check python tests examples benches fuzz
	$(BIN)/ruff check python tests examples benches fuzz
	$(BIN)/mypy

## bench: the gate's own share of the time
bench: $(BIN)/coreai-audit
	$(BIN)/python benches/gate_overhead.py

$(STAMP):
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip --version >/dev/null 2>&1 || $(BIN)/python -m ensurepip >/dev/null
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	$(BIN)/uv pip install --quiet --python $(BIN)/python torch==2.13.0 coreai-torch==0.4.3 maturin==1.16.0 pytest pytest-xdist ruff mypy
	touch $@

$(BIN)/coreai-audit: $(STAMP) $(SOURCES)
	$(BIN)/uv pip install --quiet --python $(BIN)/python --no-build-isolation --no-deps --reinstall .
	touch $@

clean:
	rm -rf target .venv
