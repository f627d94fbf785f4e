# `make help` lists the targets. Each does its own set-up, so any may come first.

BUILD = build
VENV = .venv
MESON = $(VENV)/bin/meson
PYTHON = $(VENV)/bin/python
FUZZ_SECONDS = 600
TORTURE = 50
VERSIONS = 3.10 3.11 3.12 3.13 3.14 3.15
TORCHES = 2.6 2.14

# meson finds ninja there, and tests find `lapwing`.
export PATH := $(CURDIR)/$(VENV)/bin:$(PATH)

SOURCES := $(shell find src python -type f -not -name '*.pyc' 2>/dev/null) \
	meson.build meson_options.txt pyproject.toml LICENSE
FOLDERS := $(wildcard src/. src/*/. python/. python/*/. tests/unit/. fuzz/.)

.PHONY: wheel demo test quick-test bench lint tsan torture unchanged fuzz fuzz-coverage matrix peers torch-matrix clean help
.NOTPARALLEL:  # ninja is parallel, and set-up must not run twice at once
.PHONY: setup-build setup-test setup-torch setup-fuzz asan tsan-build werror

wheel: $(BUILD)/wheel.stamp  ## build the wheel and install it into .venv (default)

demo: setup-torch wheel  ## profile examples/metric_learning and show what a user sees
	@examples/metric_learning/demo.sh

test: setup-test setup-torch wheel asan tsan-build werror  ## everything: unit, golden, live, lint
	@$(PYTHON) tests/all.py

quick-test: setup-test asan  ## only the unit tests and golden cases, on the ASan build
	@$(PYTHON) tests/all.py unit golden

bench: setup-test setup-torch wheel  ## measure Lapwing beside its peers
	@bench/run.sh

lint: setup-test wheel werror  ## layers, banned calls, formats, types, warnings
	@$(PYTHON) tools/lint.py

tsan: tsan-build  ## races between agent and recorder, under TSan
	@$(PYTHON) tests/all.py tsan

torture: setup-test asan  ## fail TORTURE (50) allocations of every golden case, in turn
	@$(PYTHON) tests/run.py --torture --sample $(TORTURE)

matrix: setup-test wheel  ## the live tests on CPython 3.10 to 3.15
	@$(PYTHON) tools/layouts.py --check
	@$(PYTHON) tools/task_layouts.py --check
	@LAPWING_VERSIONS="$(VERSIONS)" \
	LAPWING_PYTHONS="$$(tools/pythons.sh --first $(VERSIONS) | cut -d' ' -f2- | paste -s -d: -)" \
		$(PYTHON) tests/all.py live

peers: setup-test setup-torch wheel  ## CPython's tests of cProfile, and what torch checks of its profiler, on ours
	@$(PYTHON) tests/peers/run.py
	@$(PYTHON) -m pytest -q tests/live/test_torch_windows.py -k "test_lapwing_torch and check_"

torch-matrix: setup-test setup-torch wheel  ## the torch live tests on Debian's torches
	@LAPWING_TORCH_VERSIONS="$(TORCHES)" \
	LAPWING_TORCH_PYTHONS="$$(tools/debian_torch.py $(TORCHES) | cut -d' ' -f2- | paste -s -d: -)" \
		$(PYTHON) tests/all.py torches

unchanged: setup-test wheel  ## CPython's own tests end as without us (UNCHANGED="test_os")
	@$(PYTHON) tests/unchanged/run.py $(UNCHANGED)

fuzz: setup-fuzz  ## run every fuzz target (or FUZZ="a b") FUZZ_SECONDS (600)
	@FUZZ_SECONDS=$(FUZZ_SECONDS) tools/fuzz.sh run

fuzz-coverage: setup-fuzz  ## how much of the readers the corpora reach (at least 80 %)
	@tools/fuzz.sh coverage

clean:  ## remove what was built; .venv stays (make clean VENV_TOO=1 removes it)
	rm -rf $(BUILD) .mypy_cache .ruff_cache .pytest_cache
	find . -name __pycache__ -not -path './$(VENV)/*' -prune -exec rm -rf {} +
	$(if $(VENV_TOO),rm -rf $(VENV))

help:  ## this list
	@sed -n 's/^\([a-z-]*\):.*  ## \(.*\)/  make \1	\2/p' Makefile | expand -t 22

# These run each time and take a moment when there is nothing to do.
setup-build:
	@tools/setup.sh build
setup-test:
	@tools/setup.sh build test
setup-torch:
	@tools/setup.sh build torch
setup-fuzz:
	@tools/setup.sh build fuzz

# meson-python names the wheel after the Python that builds it; the extension needs
# no more than 3.10's stable ABI, so it is named for that.
$(BUILD)/wheel.stamp: $(SOURCES) | setup-build
	@mkdir -p $(BUILD)/wheel
	@rm -f $(BUILD)/wheel/*.whl
	@# A folder whose configuring was interrupted, or that knows older options, is of no use.
	@[ $(BUILD)/release/build.ninja -nt meson_options.txt ] || rm -rf $(BUILD)/release
	@$(PYTHON) -m pip wheel -q --no-build-isolation --no-deps --no-index \
		--config-settings=build-dir=$(BUILD)/release -w $(BUILD)/wheel .
	@$(PYTHON) -m wheel tags --remove --python-tag cp310 $(BUILD)/wheel/*.whl
	@$(PYTHON) -m pip install -q --no-deps --no-index --force-reinstall \
		$(BUILD)/wheel/*.whl
	@touch $@

# Configured again when a folder gains or loses a file: tests are found, not listed.
$(BUILD)/asan/configured: $(FOLDERS) meson.build meson_options.txt | setup-test
	@mkdir -p $(BUILD)
	@[ $(BUILD)/asan/build.ninja -nt meson_options.txt ] || rm -rf $(BUILD)/asan
	@$(MESON) setup $$([ ! -e $(BUILD)/asan/build.ninja ] || echo --reconfigure) \
		$(BUILD)/asan -Dtests=true -Dsanitized_extension=true -Dwerror=true -Dbuildtype=debug \
		-Doptimization=1 -Db_sanitize=address,undefined -Db_lundef=false >$(BUILD)/asan.log \
		|| { cat $(BUILD)/asan.log; exit 1; }
	@touch $@
asan: $(BUILD)/asan/configured
	@$(VENV)/bin/ninja -C $(BUILD)/asan --quiet

# The recorder and the agent's memory, for the one test in which both are threads.
$(BUILD)/tsan/configured: $(FOLDERS) meson.build meson_options.txt | setup-test
	@mkdir -p $(BUILD)
	@[ $(BUILD)/tsan/build.ninja -nt meson_options.txt ] || rm -rf $(BUILD)/tsan
	@$(MESON) setup $$([ ! -e $(BUILD)/tsan/build.ninja ] || echo --reconfigure) \
		$(BUILD)/tsan -Dtests=true -Dextension=false -Dbuildtype=debug -Doptimization=1 \
		-Db_sanitize=thread -Db_lundef=false >$(BUILD)/tsan.log \
		|| { cat $(BUILD)/tsan.log; exit 1; }
	@touch $@
tsan-build: $(BUILD)/tsan/configured
	@$(VENV)/bin/ninja -C $(BUILD)/tsan --quiet tests/unit/shared_memory

# What is not part of those: the core without sanitizers.
$(BUILD)/werror/configured: $(FOLDERS) meson.build meson_options.txt | setup-test
	@mkdir -p $(BUILD)
	@[ $(BUILD)/werror/build.ninja -nt meson_options.txt ] || rm -rf $(BUILD)/werror
	@$(MESON) setup $$([ ! -e $(BUILD)/werror/build.ninja ] || echo --reconfigure) \
		$(BUILD)/werror -Dtests=false -Dwerror=true -Dbuildtype=debug >$(BUILD)/werror.log \
		|| { cat $(BUILD)/werror.log; exit 1; }
	@touch $@
werror: $(BUILD)/werror/configured
