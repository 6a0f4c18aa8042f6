# The commands a person types. Each does its own set-up in .venv; nothing but Python 3.11, pip and make is assumed.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
TORCH ?= torch==2.13.0
BIN := .venv/bin
READY := .venv/.ready
SHELL := /bin/bash
# Tests start many processes; without bytecode each compiles the compiler again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo docs test test-all test-opinfo test-kernels test-gpu lint format bench bench-gpu clean bench-cpu plots

# GPT-2 and ConvNeXt become text, go through the pipeline, come back as FX graphs, and equal eager.
demo: $(READY)
	$(BIN)/python examples/demo.py

# Few cases of each test, in under ten minutes: pytest over tests/ and lit_tests/, then lit itself, a process a line, as users of
# mlir-opt run it, over a tenth. With CASES=some it is what a change must pass, in about 40 minutes.
CASES ?= few
test: $(READY)
	$(BIN)/python -m pytest -q -n 2 --dist loadfile --max-worker-restart=1 --cases=$(CASES)
	$(BIN)/lit -q --num-shards 10 --run-shard 1 lit_tests

# The same, with all cases of the tests of which a share runs there.
test-all: $(READY)
	$(BIN)/python -m pytest -q -n 2 --dist loadfile --max-worker-restart=1 --cases=all
	$(BIN)/lit -q lit_tests

# All of PyTorch's operator samples instead of the fraction that `make test` runs.
test-opinfo: $(READY)
	$(BIN)/python -m tests.opinfo.suite

# Every kernel of the zoo, forward and backward, compiled for GPUs that need not be here: none may spill.
test-kernels: $(READY)
	$(BIN)/python -m tests.models.compiled_kernels

# On a GPU: kernels of the zoo and of operators, models with each option, random programs. Elsewhere there are none.
test-gpu: $(READY)
	$(BIN)/python -m pytest -q -n 8 tests/gpu

# Style, types, and links: the strict build of the site checks those between pages, a test those of other files.
lint: $(READY) docs
	$(BIN)/python -m pytest -q tests/test_docs.py -k links
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

# The documentation as a site, build/site/index.html; its reference part is generated from the code.
docs: $(READY)
	test -x $(BIN)/mkdocs || $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation -e ".[docs]"
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict
	@echo build/site/index.html

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(READY)
	$(BIN)/python benchmarks/compile_time.py

# On a GPU, against eager and Inductor; elsewhere it says that there is none.
bench-gpu: $(READY)
	$(BIN)/python benchmarks/gpu.py

# Against eager and Inductor on the CPU: hours, on a machine that does nothing else; goes on where it was stopped.
bench-cpu: $(READY)
	$(BIN)/python benchmarks/cpu.py --missing

# The plots and the table of docs/performance.md, from the files in benchmarks/results.
plots: $(READY)
	$(BIN)/python benchmarks/plots.py

$(READY): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check $(TORCH) "setuptools>=77"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation -e ".[dev]"
	touch $(READY)

clean:
	rm -rf .venv build dist *.egg-info demo_out
