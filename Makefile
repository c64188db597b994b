# Needs Python >= 3.11 (with venv and ensurepip) and make; Java 17 and Maven too for what runs on Kafka.
# `make` alone lists the targets.

VENV := .venv
BIN := $(VENV)/bin
RUN_READY := $(VENV)/.ready-run
DEV_READY := $(VENV)/.ready-dev
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check

# The bundled sample and the small cluster that `make run` replays it on; its ledger is made anew at each run.
SAMPLE := replay/samples/philly-2000.csv.gz
NODES ?= 16x8
RUN_DIR := run
# The job of the sample that waits longest there.
JOB := 39450

# What says how the kernel decides, and what the modules around it do that are compiled with it.
KERNEL_TESTS := tests/unit/kernel tests/unit/test_verify_promises.py tests/property tests/regression tests/replay \
	tests/unit/test_engine.py tests/unit/test_intake.py tests/unit/test_executor.py tests/unit/test_simulate.py tests/unit/test_simulate_faults.py

# Set PYTHON to choose an interpreter; else the first on the PATH that is new enough and can make a venv.
PYTHON ?=
FIND_PYTHON = for python in $(or $(PYTHON),python3.11 python3.12 python3.13 python3); do \
	if "$$python" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' \
	>/dev/null 2>&1; then echo "$$python"; exit 0; fi; done

.PHONY: help venv compiled kafka kafka-if-possible run demo test check bench exhaustive clean lock
.DEFAULT_GOAL := help

help:
	@echo 'make venv   make .venv with ganger (.venv/bin/ganger), its kernel compiled, and the tools of the tests'
	@echo 'make compiled  compile the kernel again after edits of it; sources that were edited are interpreted'
	@echo 'make kafka  fetch Apache Kafka (needs Java 17 and Maven) for infra/kafka/kafka, demo and tests'
	@echo 'make run    simulate a bundled trace through a ledger on disk and verify the ledger'
	@echo 'make demo   start Kafka, a worker and simulated nodes; submit jobs, show and verify decisions'
	@echo 'make check  ruff, mypy, unit and repository tests'
	@echo 'make test   make check, then every other test; those of Kafka where Java and Maven are'
	@echo 'make bench  benchmarks, one JSON object a line'
	@echo 'make exhaustive  every history of small cells under every preset; hours, goes on where it stopped'
	@echo 'make clean  remove .venv and everything that was built'

venv: compiled

$(RUN_READY): requirements.lock pyproject.toml
	@python=$$($(FIND_PYTHON)); if [ -z "$$python" ]; then \
	echo 'make: found no Python >= 3.11 with the modules venv and ensurepip.' >&2; \
	echo 'make: install python3.11 and python3.11-venv, or name one: make PYTHON=/path/to/python3' >&2; \
	exit 1; fi; \
	if [ -x $(BIN)/python ] && ! $(BIN)/python -c '' 2>/dev/null; then rm -rf $(VENV); fi; \
	if [ ! -x $(BIN)/python ]; then echo "make: $(VENV) from $$python"; "$$python" -m venv $(VENV); fi
	@echo 'make: installing requirements.lock'
	@$(PIP) install --require-hashes -r requirements.lock
	@$(PIP) install --no-deps --no-build-isolation -e .
	@touch $@

$(DEV_READY): requirements-dev.lock $(RUN_READY)
	@echo 'make: installing requirements-dev.lock'
	@$(PIP) install --require-hashes -r requirements-dev.lock
	@touch $@

# Asked for each time, as it knows at once whether it made what is there from these sources. Without a
# C compiler it says so, and the kernel stays interpreted.
compiled: $(DEV_READY)
	@$(BIN)/python -m ganger.streams.compiled.build

# Asked for each time: the script knows at once whether it has what its pom.xml names.
kafka:
	@infra/kafka/kafka fetch

# What tests do without: they skip, and say so, unless GANGER_REQUIRE_KAFKA=1 makes that an error.
kafka-if-possible:
	@status=0; infra/kafka/kafka fetch || status=$$?; \
	if [ $$status = 3 ] && [ "$$GANGER_REQUIRE_KAFKA" != 1 ]; then \
	echo 'make: *** KAFKA WILL NOT BE TESTED: its tests are skipped without Java 17 and Maven ***' >&2; \
	else exit $$status; fi

run: $(RUN_READY)
	@rm -rf $(RUN_DIR)/sample
	@mkdir -p $(RUN_DIR)
	$(BIN)/ganger simulate $(SAMPLE) --nodes $(NODES) --ledger $(RUN_DIR)/sample
	$(BIN)/ganger verify $(RUN_DIR)/sample
	@echo
	@echo 'Every decision was recomputed from the ledger and is equal. Try next:'
	@echo '  $(BIN)/ganger why $(RUN_DIR)/sample $(JOB)              # placed after days: where, when, by what'
	@echo '  $(BIN)/ganger why $(RUN_DIR)/sample $(JOB) --at +3d     # and why it waited three days in'
	@echo '  $(BIN)/ganger log $(RUN_DIR)/sample --job $(JOB) --decisions'
	@echo '  $(BIN)/ganger state $(RUN_DIR)/sample queues --at +3d   # any table, any moment'
	@echo '  $(BIN)/ganger --help'

demo: $(RUN_READY) kafka
	@$(BIN)/python -m ganger.services.demo

check: $(DEV_READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pytest -q -n auto tests/unit tests/repo

# The whole suite in one run holds the tests of `check`, so only its static part is repeated here.
# What the kernel decides is tested on its sources too.
test: compiled kafka-if-possible
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	GANGER_INTERPRETED=1 $(BIN)/pytest -q -n auto $(KERNEL_TESTS)
	$(BIN)/pytest -n auto tests

bench: compiled
	@for module in tests/bench/bench_*.py; do PYTHONPATH=tests $(BIN)/python "$$module" || exit 1; done

# Results of finished pieces are kept in run/exhaustive.jsonl and hold as long as the sources do.
exhaustive: compiled
	PYTHONPATH=tests $(BIN)/python -m exhaustive

lock:
	@command -v uv >/dev/null || { echo 'make: lock needs uv (any throw-away venv will do)' >&2; exit 1; }
	UV_CUSTOM_COMPILE_COMMAND='make lock' uv pip compile --quiet --upgrade --universal \
	--python-version 3.11 --generate-hashes --group build pyproject.toml -o requirements.lock
	UV_CUSTOM_COMPILE_COMMAND='make lock' uv pip compile --quiet --upgrade --universal \
	--python-version 3.11 --generate-hashes --group build --extra dev -c requirements.lock \
	pyproject.toml -o requirements-dev.lock

clean:
	rm -rf $(VENV) $(RUN_DIR)/sample streams/compiled/modules infra/kafka/target build dist src/ganger.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
