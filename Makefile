# Two commands matter: `make demo` and `make test`. Each installs what it needs into .venv first.
# The first one that runs and fits: a name on PATH may be a shim that leads nowhere.
FITS := import sys; sys.exit(not (3, 11, 4) <= sys.version_info[:3] < (3, 13))
PYTHON ?= $(shell for p in python3 python3.12 python3.11 python; do $$p -c '$(FITS)' >/dev/null 2>&1 && echo $$p && break; done)
VENV := .venv
BIN := $(VENV)/bin
PYTEST_ARGS ?= -n 2 --dist loadfile
JOBS ?= 2
KEEP ?=
COUNT ?= 500
MINUTES ?= 4
SEED ?=
TURN ?=
DEMO ?= create
LIBRARY := liger-kernel==0.8.5
export TRITON_INTERPRET ?= 1
export PIP_DISABLE_PIP_VERSION_CHECK = 1

.PHONY: help demo test turns test-all library compilers ports cheats honest chaos check lint types architecture format migrate docs clean

help: ## Show these targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 24

$(VENV)/installed: pyproject.toml constraints.txt
	@$(or $(PYTHON),false) -c '$(FITS)' || { echo "Kernelsmith needs Python 3.11 (3.11.4 or newer) or 3.12: make $(or $(MAKECMDGOALS),test) PYTHON=/path/to/python3.12" >&2; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo 'Installing into $(VENV), which takes some minutes the first time'
	$(BIN)/python -m pip install -q -c constraints.txt -e '.[gpu,dev,demo]'
	touch $@

demo: $(VENV)/installed ## Play a create on the real library, with no account, key or GPU; DEMO=optimize: optimize and bench; DEMO=nightly: a month of nights; KEEP=1 stays up
	$(BIN)/kernelsmith demo $(DEMO) $(if $(KEEP),--keep)

test: $(VENV)/installed ## Run the tests but the longest; of those that take long a quarter, by the commit or TURN=0 to 3
	$(BIN)/python -m pytest $(PYTEST_ARGS) -m "not long" $(if $(TURN),--turn $(TURN))

turns: $(VENV)/installed ## Run the tests of all turns, and list anew what takes long; on a quiet machine
	$(BIN)/python -m pytest $(PYTEST_ARGS) -m "not long" --write-turns

test-all: $(VENV)/installed ## Run all tests
	$(BIN)/python -m pytest $(PYTEST_ARGS)

$(VENV)/liger: $(VENV)/installed
	$(BIN)/python -m pip download -q --no-deps --no-build-isolation --no-binary liger-kernel -d $(VENV)/sdist $(LIBRARY)
	mkdir -p $@ && tar -xzf $(VENV)/sdist/*.tar.gz -C $@ --strip-components 1

library: $(VENV)/liger ## Run the tests that need the source of Liger-Kernel, which is fetched once
	LIGER_SOURCE=$(abspath $(VENV)/liger) $(BIN)/python -m pytest $(PYTEST_ARGS) $(shell grep -rl LIGER_SOURCE tests --include='test_*.py')

# Triton-Ascend takes the place of Triton, and the others half a gigabyte each: environments of their own.
$(VENV)/ascend: $(VENV)/installed
	$(BIN)/python -m venv $@
	$@/bin/python -m pip install -q triton-ascend==3.2.0 pybind11 numpy

$(VENV)/languages: $(VENV)/installed
	$(BIN)/python -m venv $@
	$@/bin/python -m pip install -q '.[cutile,cutedsl]'

compilers: $(VENV)/ascend $(VENV)/languages ## Have Triton-Ascend, cuTile and CuTe DSL compile what is emitted for them; Python 3.11 alone has all three
	TRITON_ASCEND_PYTHON=$(abspath $(VENV))/ascend/bin/python CUTILE_PYTHON=$(abspath $(VENV))/languages/bin/python CUTEDSL_PYTHON=$(abspath $(VENV))/languages/bin/python $(BIN)/python -m pytest $(PYTEST_ARGS) tests/workers/targets

ports: $(VENV)/liger $(VENV)/ascend ## Port operators of Liger-Kernel to Ascend anew, each next to the library's own, and have Triton-Ascend lower them (Python 3.11)
	KERNELSMITH_ASCEND_PYTHON=$(abspath $(VENV)/ascend/bin/python) $(BIN)/python -m tests.ports $(VENV)/liger --jobs $(JOBS) --out build/ports

cheats: $(VENV)/installed ## Judge cheats on this host for MINUTES (4), some of each mechanism first, and print what became of each; MINUTES=0: all
	$(BIN)/python -m tests.cheats --jobs $(JOBS) --only "cheat " --minutes $(MINUTES)

honest: $(VENV)/installed ## Judge every honest candidate on this host, and print what became of each
	$(BIN)/python -m tests.cheats --jobs $(JOBS) --only "honest "

chaos: $(VENV)/installed ## Run jobs on a whole installation while COUNT faults strike it, by SEED; print what became of both
	$(BIN)/python -m tests.chaos --count $(COUNT) $(if $(SEED),--seed $(SEED))

check: lint types architecture test ## What CI runs

lint: $(VENV)/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/installed
	$(BIN)/mypy

architecture: $(VENV)/installed
	$(BIN)/lint-imports

format: $(VENV)/installed ## Format the source
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(VENV)/installed ## Regenerate what is generated in docs/
	$(BIN)/python -m service.commands > docs/commands.md
	$(BIN)/python -m service.cli.options > docs/options.md

clean: ## Remove the environment and what was built
	rm -rf $(VENV) build .mypy_cache .ruff_cache .pytest_cache
