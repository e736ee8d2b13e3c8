# make run and make test do all set-up themselves: environment, build, installation. See CONTRIBUTING.md.

SHELL := /bin/sh
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
RUN_EXTRAS := spark,cli,zstd,crypto,schema
SOURCES := pyproject.toml setup.py wheels/backend.py MANIFEST.in README.md LICENSE \
           $(shell find src binlog_core -name '*.py' -o -name '*.py[xi]' -o -name '*.px[di]' -o -name '*.h' -o -name py.typed) \
           $(wildcard pyspark_binlog.py)

# Where `make run` reads and writes.
LOGS := 'tests/data/mysql97/dml_*.binlog'
OUT := out/changes
CURRENT := out/current

# Nothing run from here may import the source folder, which has no compiled modules; Spark's workers may not either.
export PYTHONSAFEPATH := 1

.PHONY: run test dev oldest-spark lint format sanitize sanitize-short sanitize-logs bench guard peers docs wheel reproducible clean

# The main job through Spark on all cores: the changes in the bundled logs, one Parquet directory per table, and beside
# them the tables as these changes leave them.
run: $(VENV)/.run
	rm -rf $(OUT) $(CURRENT)
	$(BIN)/binlog-core export $(LOGS) $(OUT) --current $(CURRENT) --show 3

# `pytest`, not `python -m pytest`: that would import the source folder. The first line makes sure.
# One worker more than processors, since workers also wait for Spark and servers (see group_of in tests/conftest.py).
test: $(VENV)/.test build/.java-classes
	cd / && $(abspath $(BIN))/python -c 'import binlog_core, sys; f = binlog_core.__file__; print("testing", f); sys.exit("site-packages" not in f)'
	$(BIN)/pytest tests -n 3 --dist loadgroup $(PYTEST_ARGS)

# pytest's options for the tests of a marker. Only their files are named, since to import all takes longer.
marked = $(shell grep -rlw $(addprefix -e mark.,$(filter-out or,$(1))) --include='test_*.py' tests) -m "$(1)"

# An editable install: changes in .py files take effect at once, and another `make dev` compiles what changed in src/.
# A later `make test` installs the wheel over it.
dev: $(VENV)/.dev
	$(PIP) install -q --no-build-isolation --no-deps -e .

$(VENV)/.dev: pyproject.toml $(VENV)/.created
	$(PIP) install -q --no-build-isolation -e '.[all,dev]'
	@rm -f $(VENV)/.test $(VENV)/.run
	@touch $@

# Tests what differs between the oldest supported Spark and the newest, in a separate environment.
# (Spark 4.0 does not run on Python 3.14.)
SPARK_OLDEST := 4.0
SPARK_VENV := .venv-spark
oldest-spark: $(SPARK_VENV)/.done
	$(SPARK_VENV)/bin/pytest $(call marked,oldest_spark) $(PYTEST_ARGS)

$(SPARK_VENV)/.done: build/.wheel
	$(BIN)/python -m venv --clear $(SPARK_VENV)
	wheel=$$(ls build/dist/*.whl) && $(SPARK_VENV)/bin/python -m pip --disable-pip-version-check install -q "pyspark==$(SPARK_OLDEST).*" \
	    "$$wheel[spark]" deltalake pytest pytest-xdist
	@touch $@

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --strict binlog_core tests/examples
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/cython-lint src

format: $(VENV)/.test
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Ratios to zlib.crc32 of the same bytes; BINLOG_BENCH_MB is the size of each generated log.
bench: $(VENV)/.test
	$(BIN)/pytest benchmarks $(PYTEST_ARGS)

# Instructions per row image, at most 5 % above those of the base commit (BINLOG_BASE); needs valgrind.
guard: $(VENV)/.test
	$(BIN)/python benchmarks/guard.py

# Other decoders on the same logs (PEER_LOGS, or the generated ones), as far as this machine can build them.
PEER_LOGS :=
peers: $(VENV)/.test
	$(BIN)/python benchmarks/peers/run $(PEER_LOGS)

docs: $(VENV)/.test
	$(BIN)/mkdocs build --strict

wheel:
	wheels/build

# Two builds, in two folders: the same bytes of sdist and wheel.
reproducible: $(VENV)/.test
	wheels/reproducible

# The core under AddressSanitizer and UndefinedBehaviorSanitizer (clang), built apart from the installed wheel, once for
# these tests and for the fuzzers: the tests that pass bytes, especially hostile ones, to the compiled modules. Not the
# tests of the layers above, which make the same calls: Spark (whose JVM does not start under a preloaded sanitizer),
# the command line, servers, archives, definitions, replay; nor those of foreign programs (DuckDB, browsers, servers of
# object stores).
# Tests that measure memory skip themselves, since a sanitizer takes memory of its own.
# The quarantine of freed memory is kept small, since some tests measure how much memory is held.
SANITIZED := build/sanitized/lib
# What Python runs with to find the sanitizers' hooks.
UNDER_SANITIZERS = LD_PRELOAD="$$(.ci/clang)" \
	ASAN_OPTIONS=detect_leaks=0:quarantine_size_mb=32:malloc_context_size=4:external_symbolizer_path=$(abspath fuzz/llvm-symbolizer) \
	UBSAN_OPTIONS=print_stacktrace=1 PYTHONMALLOC=$(PYTHONMALLOC) PYTHONPATH=$(abspath $(SANITIZED))
SANITIZED_TESTS = $(call marked,sanitize or sanitize_logs or sanitize_long)

# With Python's own allocator a sanitizer does not see what is read behind one of Python's objects of at most 512 bytes,
# or after its end, but what reads logs takes a third of the time.
sanitize sanitize-short fuzz-answers: PYTHONMALLOC := malloc
sanitize-logs: PYTHONMALLOC := pymalloc

sanitize-short: SANITIZED_TESTS = $(call marked,sanitize)
sanitize-logs: SANITIZED_TESTS = $(call marked,sanitize_logs)

# sanitize-short and sanitize-logs are for CI, which fuzzes the compiled modules under the sanitizers as well: without
# what is mostly Python.
sanitize sanitize-short sanitize-logs: build/.sanitized $(VENV)/.test
	$(UNDER_SANITIZERS) sh -c 'python=$(abspath $(BIN))/python; \
	    $$python -c "import binlog_core, sys; f = binlog_core.__file__; print(\"testing\", f); sys.exit(\"sanitize\" not in f)" && \
	    $$python $(BIN)/pytest $(SANITIZED_TESTS) --hypothesis-profile=ci -n auto --dist worksteal $(PYTEST_ARGS)'

build/.sanitized: $(SOURCES) $(wildcard fuzz/*.p[yx]* fuzz/main.c) $(VENV)/.created
	.ci/clang
	$(BIN)/python fuzz/build.py
	@touch $@

# ---- set-up; stamps in .venv record what is done ----

$(VENV)/.created: .ci/prepare
	@python=$$(.ci/prepare) && echo "Creating $(VENV) with $$python" && "$$python" -m venv --clear $(VENV)
	$(PIP) install -q --upgrade pip build
	$(PIP) install -q $$($(BIN)/python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["build-system"]["requires"])')
	@touch $@

# Python files of an earlier tree must not get into the wheel, so copies are removed; object files stay. Without
# isolation, so that only changed modules are compiled: otherwise Cython would be newer each time than its C files.
build/.wheel: $(SOURCES) $(VENV)/.created
	@rm -rf build/dist *.egg-info && find build/lib* -name '*.py*' -type f -delete 2>/dev/null || true
	$(BIN)/python -m build --wheel --no-isolation --outdir build/dist .
	@touch $@

# First the extras' dependencies, then exactly this wheel, whose version may already be installed. Spark's workers look
# in the zip files before what is installed, and compile Spark's modules each time: 0.8 s for each worker.
define install
	wheel=$$(ls build/dist/*.whl) && $(PIP) install -q "$$wheel[$(1)]" && $(PIP) install -q --no-deps --force-reinstall "$$wheel"
	@rm -f $(VENV)/lib/python*/site-packages/pyspark/python/lib/*.zip
	@touch $@
endef

$(VENV)/.run: build/.wheel
	$(call install,$(RUN_EXTRAS))

$(VENV)/.test: build/.wheel
	$(call install,all$(comma)dev)

# Without the archive, the tests take longer; so making it may fail, and is tried once. Meanwhile pytest compiles the
# tests with its asserts, which each worker would do for all of them otherwise.
build/.java-classes: tests/support/java_classes.py | $(VENV)/.test
	@mkdir -p build
	-@$(BIN)/pytest tests --collect-only -qq >/dev/null 2>&1 & \
	    $(BIN)/python tests/support/java_classes.py build/java-classes.jsa >build/java-classes.log 2>&1 || tail -3 build/java-classes.log; \
	    wait
	@touch $@

comma := ,

include fuzz/Makefile.inc

clean:
	rm -rf build dist wheels/dist out *.egg-info $(VENV) $(SPARK_VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis .benchmarks
	rm -f src/*/*.c src/*/*.html binlog_core/_core/*.so
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
