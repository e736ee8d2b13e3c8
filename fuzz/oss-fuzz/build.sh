#!/usr/bin/env bash
# All fuzz targets in one folder that also runs elsewhere, as OSS-Fuzz asks for them: for each a program of its name,
# NAME_seed_corpus.zip and NAME.options; beside them the Python, the packages and the compiled core that they use.
#
# OUT: that folder. PYTHON: one with a shared libpython and the project's development dependencies; CC: clang.
set -euo pipefail
cd "$(dirname "$0")/../.."
source fuzz/targets.sh

OUT=${OUT:?"the folder that is to have the targets"}
PYTHON=${PYTHON:-python3}
mkdir -p "$OUT"
OUT=$(cd "$OUT" && pwd)

# The engine and the sanitizers are those of fuzz/build.py, whatever CFLAGS and LIB_FUZZING_ENGINE say.
CLANG=${CC:-clang} "$PYTHON" fuzz/build.py
PYTHONPATH=${BINLOG_CORE:-} "$PYTHON" fuzz/seeds.py build/fuzz/seeds

python_says() { "$PYTHON" -c "import sys, sysconfig; print($1)"; }
home=$OUT/python
stdlib=$(python_says 'sysconfig.get_path("stdlib")')
version=$(python_says '"python%d.%d" % sys.version_info[:2]')
mkdir -p "$home/bin" "$home/lib/$version/site-packages" "$OUT/lib"
cp -L "$(python_says 'sys.executable')" "$home/bin/python3"
cp -P "$(python_says 'sysconfig.get_config_var("LIBDIR")')"/libpython* "$home/lib/"
tar -C "$stdlib" --exclude=site-packages --exclude=test --exclude=__pycache__ -c . | tar -C "$home/lib/$version" -x
for package in numpy pyarrow cryptography cffi _cffi_backend zstandard; do
    for path in "$(python_says 'sysconfig.get_path("platlib")')/$package"*; do
        if [ -e "$path" ]; then cp -r "$path" "$home/lib/$version/site-packages/"; fi
    done
done
mkdir -p "$OUT/tests"
cp -r tests/data "$OUT/tests/"    # of which entry_points.py takes descriptors and keys
cp -r build/sanitized/lib/. fuzz/entry_points.py fuzz/lies.py fuzz/page_lies.py "$OUT/lib/"
cp build/sanitized/fuzz "$OUT/lib/fuzz"

for target in $HOT $LOOPS $INSTRUMENTED $PLAIN; do
    cat > "$OUT/$target" <<WRAPPER
#!/bin/sh
# LLVMFuzzerTestOneInput is in lib/fuzz; this line lets OSS-Fuzz know a target by its text.
here=\$(cd "\$(dirname "\$0")" && pwd)
export PYTHONHOME="\$here/python" PYTHONPATH="\$here/lib" PYTHONMALLOC=malloc PYTHONHASHSEED=0
export LD_LIBRARY_PATH="\$here/python/lib" BINLOG_FUZZ_PYTHON="\$here/python/bin/python3"
export BINLOG_FUZZ_TARGET=$(module_of "$target"):$target
export ASAN_OPTIONS="\$ASAN_OPTIONS:detect_leaks=0:allocator_may_return_null=1"
exec "\$here/lib/fuzz" "\$@"
WRAPPER
    chmod +x "$OUT/$target"
    printf '[libfuzzer]\nmax_len = %s\ndetect_leaks = 0\n' "$(largest "$target")" > "$OUT/$target.options"
    mkdir -p "build/fuzz/seeds/$target"
    rm -f "$OUT/${target}_seed_corpus.zip"
    (cd "build/fuzz/seeds/$target" && "$PYTHON" -m zipfile -c "$OUT/${target}_seed_corpus.zip" .)
done
