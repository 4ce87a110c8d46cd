# Needs make and Python 3.11 or newer. PYTHON=/path/to/python3 picks another interpreter.
PYTHON ?= python3
BIN := .venv/bin
RUN := .venv/.run-installed
TEST := .venv/.test-installed
DOCS := .venv/.docs-installed
QUICK := -m 'not slow'

# Python keeps what it compiles of a module where it may: else each of the processes that the tests
# start compiles all that it imports again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help run test test-all docs dist bench promises ui emsco-paper hapens-paper hull-paper pruning-paper \
	clean

help:
	@echo "make run       install into .venv, then search the quickstart: front, plots, model"
	@echo "make test      install the tools of development; style, types, quick tests"
	@echo "make test-all  the same with the slow tests, and how much of the code they cover"
	@echo "make docs      build the documentation as a site in build/site/"
	@echo "make dist      build a wheel and a source archive in dist/"
	@echo "make bench     measure the search on the paper's data sets"
	@echo "make promises  what fronts promise, beside test records; MORE='--set experiment.protocol=whole'"
	@echo "make ui        show the logged runs in the browser"
	@echo "make emsco-paper    every experiment of the EMSCO paper; MORE='--set experiment.protocol=paper'"
	@echo "make hapens-paper   every experiment of the HAPEns paper, at its budget"
	@echo "make hull-paper     every experiment of the 3DFCH-EMOA paper, reduced; MORE as above"
	@echo "make pruning-paper  every experiment of the paper on ensemble pruning; MORE as above"
	@echo "make clean     remove .venv and what tools left behind (not runs/ and mlflow.db)"

run: $(RUN)
	$(BIN)/paretolab run configs/quickstart.yaml

# Types need one core for a while and the tests the others: side by side, and both are told.
test: $(TEST)
	@$(MAKE) --no-print-directory -j 2 -k style tests QUICK="$(QUICK)"

.PHONY: style tests
style: $(TEST)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	MYPYPATH=scripts $(BIN)/mypy tests scripts

# More threads than cores wait for each other in loops: ensembles take four times the processor time.
tests: export OMP_NUM_THREADS := 1
tests: export OPENBLAS_NUM_THREADS := 1
tests: $(TEST)
	$(BIN)/pytest $(QUICK) -n logical --dist loadfile --no-loadscope-reorder

# To count the lines that ran takes a third longer, so it is done where time is taken.
test-all: QUICK := --hypothesis-profile thorough --cov=framework --cov=algorithms --cov=tracking \
	--cov=paretolab --cov-report=term:skip-covered --cov-fail-under=80
test-all: test

# Any warning is an error. The variable silences an advertisement.
docs: $(DOCS)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "open build/site/index.html"

dist: $(TEST)
	rm -rf build dist
	$(BIN)/python -m build --no-isolation --outdir dist
	$(BIN)/python scripts/kernels.py --wheel dist/*.whl
	rm -rf build *.egg-info  # entry points of another day, which Python would find here first
	@ls dist

bench: $(RUN)
	$(BIN)/python scripts/bench.py emsco

ui: $(RUN)
	$(BIN)/paretolab ui

# What is done is not done again: a make that was stopped goes on where it was.
EXPERIMENT = $(BIN)/paretolab experiment configs
emsco-paper: $(RUN)
	$(EXPERIMENT)/emsco/fronts.yaml --out runs/emsco-paper/fronts $(MORE)
	$(EXPERIMENT)/emsco/rivals.yaml --out runs/emsco-paper/rivals $(MORE)
	for name in threshold landscape neighbours; do \
		$(BIN)/python scripts/figures.py $$name --out runs/emsco-paper/$$name || exit; done
	if test -d runs/emsco-paper/sweep; then $(BIN)/paretolab resume runs/emsco-paper/sweep; else \
		$(BIN)/paretolab sweep configs/sweeps/emsco.yaml --out runs/emsco-paper/sweep; fi

hapens-paper: $(RUN)
	for name in ensembling ensembling_costs ensembling_weights ensembling_open; do \
		$(EXPERIMENT)/experiments/$$name.yaml --out runs/hapens-paper/$$name $(MORE) || exit; done

hull-paper: $(RUN)
	for name in tables sizes selection networks; do \
		$(EXPERIMENT)/experiments/hull_$$name.yaml --out runs/hull-paper/$$name $(MORE) || exit; done

promises: $(RUN)
	$(EXPERIMENT)/experiments/promises.yaml --out runs/promises/stages $(MORE)
	$(EXPERIMENT)/experiments/promises_pools.yaml --out runs/promises/pools $(MORE)

pruning-paper: $(RUN)
	$(EXPERIMENT)/experiments/pruning.yaml --out runs/pruning-paper $(MORE)

clean:
	rm -rf .venv build dist *.egg-info .pytest_cache .ruff_cache .mypy_cache .hypothesis .coverage htmlcov
	rm -rf framework/compiled
	find framework algorithms tracking scripts tests -name __pycache__ -prune -exec rm -rf {} +

# The stamps: an environment is made again where one of these files has changed. Python compiles
# modules when they are first imported: to compile all takes over half as long as the other set-up.
# But a shell that has the variable above would have them compiled again by each command.
COMPILE := $(if $(PYTHONDONTWRITEBYTECODE),--compile,--no-compile)
$(BIN)/pip:
	@command -v $(PYTHON) >/dev/null || \
		{ echo "make: expected $(PYTHON) to be Python 3.11 or newer, found no such command; install it or run make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)" >&2; exit 2; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "make: expected $(PYTHON) to be Python 3.11 or newer, found $$($(PYTHON) -V 2>&1); run make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)" >&2; exit 2; }
	$(PYTHON) -m venv .venv

$(RUN): pyproject.toml constraints.txt | $(BIN)/pip
	$(BIN)/pip install -q $(COMPILE) -c constraints.txt -e '.[all]'
	-$(BIN)/python scripts/kernels.py  # without its machine code the first search compiles its own
	@touch $@

$(TEST): pyproject.toml constraints.txt | $(BIN)/pip
	$(BIN)/pip install -q --no-compile -c constraints.txt -e '.[all,test]'
	@touch $(RUN) $@

$(DOCS): pyproject.toml constraints.txt | $(BIN)/pip
	$(BIN)/pip install -q --no-compile -c constraints.txt -e '.[docs]'
	@touch $@
