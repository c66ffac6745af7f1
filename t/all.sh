#!/bin/bash
# Usage: t/all.sh test | test-all
# Runs the tests, stage by stage, and counts: the last line is the sum.
# A stage that fails does not keep the next ones from running; a stage that
# fails without a failed test of its own (a build, say) counts as one.
# `test` runs each live test in the passes that its file names (run.mjs);
# `test-all` runs each in every pass, the fuzzers for a minute each, the
# simulation with a million schedules, and the limits (soak/limits.mjs).
# A test that fails beside others and passes alone is named as flaky; it fails
# `test-all` only.
# Called by make, which has installed what is needed.
set -u
cd "$(dirname "$0")/.."

logs=build/test
mkdir -p $logs
passed=0
failed=0
broken=
whys=
flaky=
times=

# The sum of the numbers that sed finds in a log.
sum()
{
    local total=0 number
    for number in $(sed -n -E "$1" "$2"); do
        total=$((total + number))
    done
    echo $total
}

# What a stage's log says of its first failures, at most 16 lines.
why()
{
    awk -v stage="$1" '
        /failing tests:$/ { told = 1; next }
        told && /^test at / { where = $3; left = 8; next }
        told && left > 0 && NF {
            print substr(left == 8 ? stage " " where " " $0 : $0, 1, 200)
            left--
        }
        /^\[  FAILED  \]|^not ok|\.[ch]:[0-9:]+ error/ {
            print stage ": " substr($0, 1, 200)
        }' "$2" | head -n 16
}

# Sets REPLY to the seconds of CPU that all that has ended here has taken.
cpu()
{
    # Not in a pipe: a shell of its own has no such children.
    times > $logs/times
    REPLY=$(awk 'NR == 2 {
        split($1 "m" $2, part, /[ms]+/)
        printf "%d", part[1] * 60 + part[2] + part[3] * 60 + part[4]
    }' $logs/times)
}

stage()
{
    local name=$1 log=$logs/$1.log code good bad since=$SECONDS
    local spent found
    cpu
    spent=$REPLY
    shift
    echo "== $name"
    "$@" 2>&1 | tee "$log"
    code=${PIPESTATUS[0]}
    # cmocka's totals, node's totals, the lines of fuzzers, simulation, limits.
    good=$(sum 's/^\[  PASSED  \] ([0-9]+) test.*/\1/p
                s/^(#|ℹ) pass ([0-9]+)$/\2/p
                s/^ok - (build.fuzz|limits|[0-9]+ schedules).*/1/p' "$log")
    bad=$(sum 's/^\[  FAILED  \] [^:]*: ([0-9]+) test.*/\1/p
               s/^(#|ℹ) fail ([0-9]+)$/\2/p
               s/^not ok - (build.fuzz|limits).*/1/p' "$log")
    if [ "$code" -ne 0 ]; then
        [ "$bad" -gt 0 ] || bad=1
        broken="$broken $name"
        whys="$whys$(why "$name" "$log")"$'\n'
    fi
    found=$(grep '^flaky: ' "$log")
    [ -z "$found" ] || flaky="$flaky$found"$'\n'
    cpu
    times="$times $name $((SECONDS - since))/$((REPLY - spent))"
    passed=$((passed + good))
    failed=$((failed + bad))
}

# Live tests: run OPTIONS... FILES..., their logs in a folder of the stage.
live()
{
    local name=$1
    shift
    stage "$name" node t/run.mjs --log="$logs/$name" "$@"
}

# The layout is a matter of style. The clients write the compatibility table.
tests=$(ls t/{.,barrier,stream,record,store,config,lib,lib/redis}/*.test.mjs |
    grep -v /layout)
clients=$(ls t/clients/*.test.mjs)
rm -rf build/compatibility

stage module make -s module
stage contract make -s contract
stage asan make -s asan
stage unit make -s unit
stage style make -s style
stage deb make -s deb
stage clients-packages make -s clients-packages
# shellcheck disable=SC2086
if [ "${1:-test}" = test ]; then
    stage builds t/builds.sh quick
    stage sim make -s sim
    stage fuzz make -s fuzz FUZZ_TIME="${FUZZ_TIME:-5}"
    # All in one queue: while one file waits, others use the cores.
    live live --pass=asan,plain,redis,sentinel,cluster $tests $clients \
        t/install/deb.test.mjs
else
    stage builds t/builds.sh full
    stage sim make -s sim SIM_SCHEDULES=1000000
    stage fuzz make -s fuzz FUZZ_TIME="${FUZZ_TIME:-60}"
    for pass in asan asan_redis plain redis; do
        live live-$pass --strict --every --pass=$pass $tests
    done
    stage limits node t/soak/limits.mjs
    live install --strict --jobs=1 --pass=plain \
        t/install/{deb,docker}.test.mjs
    stage debian13 make -s test-debian13
    live live-stores --strict --pass=sentinel,cluster $tests
    live clients --strict --every --pass=asan,plain,redis $clients
fi
stage compatibility node t/clients/table.mjs --check

echo "seconds, and of CPU:$times"
[ -z "$broken" ] || echo "${whys}failed:$broken (logs in $logs)"
[ -z "$flaky" ] || echo "${flaky}Each flaky test is a defect to be mended."
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
