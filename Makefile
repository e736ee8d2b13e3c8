# make run and make test do all set-up themselves: environment, build, installation. See CONTRIBUTING.md.

SHELL := /bin/sh
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
RUN_EXTRAS := spark,cli,zstd,crypto,schema
SOURCES := pyproject.toml setup.py MANIFEST.in $(wildcard README.md) LICENSE \
           $(shell find src binlog_core -name '*.py' -o -name '*.py[xi]' -o -name '*.px[di]' -o -name '*.h' -o -name py.typed) \
           $(wildcard pyspark_binlog.py)

# Where `make run` reads and writes.
LOGS := tests/data/mysql97
OUT := out/changes

# Nothing run from here may import the source folder, Spark's workers neither: it has no compiled modules.
export PYTHONSAFEPATH := 1

.PHONY: run test clean

# The main job: changes of the bundled logs, one Parquet directory per table, through Spark on all cores.
run: $(VENV)/.run
	rm -rf $(OUT)
	$(BIN)/binlog-core export $(LOGS) $(OUT) --show 5

# `pytest`, not `python -m pytest`: that would import the source folder. The first line makes sure.
test: $(VENV)/.test
	cd / && $(abspath $(BIN))/python -c 'import binlog_core, sys; f = binlog_core.__file__; print("testing", f); sys.exit("site-packages" not in f)'
	$(BIN)/pytest tests $(PYTEST_ARGS)

# ---- set-up; stamps in .venv tell what is done ----

$(VENV)/.created: .ci/prepare
	@python=$$(.ci/prepare) && echo "Creating $(VENV) with $$python" && "$$python" -m venv --clear $(VENV)
	$(PIP) install -q --upgrade pip build
	@touch $@

# Compiled Python files of an earlier tree must not slip into the wheel, so what was copied goes; objects stay.
build/.wheel: $(SOURCES) $(VENV)/.created
	@mkdir -p build && find build -path '*/lib*' -name '*.py*' -type f -delete
	rm -rf build/dist *.egg-info
	$(BIN)/python -m build --wheel --outdir build/dist .
	@touch $@

# First whatever the extras need, then this very wheel, whose version may be the one installed already.
define install
	wheel=$$(ls build/dist/*.whl) && $(PIP) install -q "$$wheel[$(1)]" && $(PIP) install -q --no-deps --force-reinstall "$$wheel"
	@touch $@
endef

$(VENV)/.run: build/.wheel
	$(call install,$(RUN_EXTRAS))

$(VENV)/.test: build/.wheel
	$(call install,all$(comma)dev)

comma := ,

clean:
	rm -rf build dist wheels/dist out *.egg-info $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis .benchmarks
	rm -f src/*.c src/*.html binlog_core/*.so
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
