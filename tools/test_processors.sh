#!/bin/sh
# Run the tests and the quickstart as other processors would compute them, and print a line for each.
#
#     tools/test_processors.sh PYTHON
#
# PyTorch and its libraries choose instructions by the processor, and round differently with each
# choice. Failed tests are named, build/processors/ keeps the whole output of each setting, and the
# exit status is 1 if a test failed.

python=$1
logs=build/processors
mkdir -p $logs
failed=0
for setting in ATEN_CPU_CAPABILITY=default ATEN_CPU_CAPABILITY=avx2 ONEDNN_MAX_CPU_ISA=AVX2 \
    MKL_ENABLE_INSTRUCTIONS=AVX2 OMP_NUM_THREADS=2; do
    # Two workers have a core each, which two threads would fight for.
    workers="-n 2 --dist loadfile --no-loadscope-reorder"
    test $setting = OMP_NUM_THREADS=2 && workers=
    for tests in "$workers tests" "-m slow tests/cli/test_quickstart.py"; do
        log=$logs/$setting-$(basename "${tests##* }" .py).log
        # shellcheck disable=SC2086 # several words
        env OMP_NUM_THREADS=1 $setting "$python" -m pytest -q $tests > "$log" 2>&1 || failed=1
        grep ^FAILED "$log"
        echo "$setting, ${tests##* }: $(tail -n 1 "$log")"
    done
done
exit $failed
