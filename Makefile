# make demo: create the environment, solve a maze of size 59 live, leave a picture and an animation in out/
# make test: the whole test suite          make lint:  style and types
# make bench: the CPU benchmark            make clean: remove the environments
# make report: draws docs/report/ again from the result files of the studies

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test test-slow lint bench report clean

demo: $(VENV)/.ready
	mkdir -p out
	$(BIN)/cellwise solve maze --size 59 --puzzle-seed 1 --watch --save out/maze.gif --save out/maze.png
	@echo "The animation is out/maze.gif, the picture out/maze.png. Next: $(BIN)/cellwise --help"

test: $(VENV)/.test
	$(BIN)/python -m pytest -n 2 -m "not slow and not gpu"

test-slow: $(VENV)/.test
	$(BIN)/python -m pytest -m slow

lint: $(VENV)/.lint
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/pyright

bench: .venv-bench/.ready
	.venv-bench/bin/python -m cellwise bench --out results/bench-cpu.json

report: $(VENV)/.ready
	$(BIN)/cellwise report --out docs/report

$(VENV)/.ready: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "cellwise needs Python 3.11 or newer; set PYTHON=/path/to/python3.11"; exit 2; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	touch $@

$(VENV)/.test: $(VENV)/.ready
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[test]"
	touch $@

$(VENV)/.lint: $(VENV)/.test
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[test,lint]"
	touch $@

.venv-bench/.ready: pyproject.toml
	$(PYTHON) -m venv .venv-bench
	.venv-bench/bin/python -m pip install --quiet --disable-pip-version-check --editable ".[bench]"
	touch $@

clean:
	rm -rf $(VENV) .venv-bench out
