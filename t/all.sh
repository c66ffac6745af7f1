#!/bin/bash
# Runs all tests, stage by stage, and counts: the last line is the sum.
# A stage that fails does not keep the next ones from running; a stage that
# fails without a failed test of its own (a build, say) counts as one.
# Called by `make test`, which has installed what is needed.
set -u
cd "$(dirname "$0")/.."

logs=build/test
mkdir -p $logs
passed=0
failed=0
broken=
whys=
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

stage()
{
    local name=$1 log=$logs/$1.log code good bad since=$SECONDS
    shift
    echo "== $name"
    "$@" 2>&1 | tee "$log"
    code=${PIPESTATUS[0]}
    # cmocka's totals, node's totals, and the fuzzers' lines.
    good=$(sum 's/^\[  PASSED  \] ([0-9]+) test.*/\1/p
                s/^(#|ℹ) pass ([0-9]+)$/\2/p
                s/^ok - build.fuzz.*/1/p' "$log")
    bad=$(sum 's/^\[  FAILED  \] [^:]*: ([0-9]+) test.*/\1/p
               s/^(#|ℹ) fail ([0-9]+)$/\2/p
               s/^not ok - build.fuzz.*/1/p' "$log")
    if [ "$code" -ne 0 ]; then
        [ "$bad" -gt 0 ] || bad=1
        broken="$broken $name"
        whys="$whys$(why "$name" "$log")"$'\n'
    fi
    times="$times $name $((SECONDS - since))"
    passed=$((passed + good))
    failed=$((failed + bad))
}

# Tests that say nothing of the store, or bring their own: once is enough.
storeless='badanswer chaos cluster cluster_record config demo docs nodes
           passthrough provider redis redis_away redis_bad redis_harness
           results_stores scenarios sentinel stall status_nodes'

# Two files at a time wait for one another less than they wait for nginx.
flags=
if node --help | grep -q -e --test-concurrency \
    && [ "$(nproc)" -le 2 ]; then
    flags=--test-concurrency=2
fi

# What waits for ever is a failure, and not the end of all.
bounded='timeout 1800'

# live every|stores|half|other_half COMMAND...: these files of the live tests
live()
{
    local which=$1 tests='' file name number=0
    shift
    for file in t/*.test.mjs; do
        name=$(basename "$file" .test.mjs)
        [ "$name" != layout ] || continue
        case " $(echo $storeless) " in
        *" $name "*) [ "$which" != stores ] || continue ;;
        esac
        number=$((number + 1))
        case $name:$which$((number % 2)) in
        contract:*) ;; # the laws of both stores
        *:half0 | *:other_half1) continue ;;
        esac
        tests="$tests $file"
    done
    # shellcheck disable=SC2086
    "$@" $bounded node --test $flags --test-reporter=spec $tests
}

# Those whose store is the one that CHAT_STORE names.
clients_tests()
{
    find t/clients -maxdepth 1 -name '*.test.mjs' \
        ! -name recordings.test.mjs | sort
}

# clients COMMAND...: the real client libraries, and the page about them
clients()
{
    rm -rf build/compatibility
    # shellcheck disable=SC2046,SC2086
    "$@" $bounded node --test $flags --test-reporter=spec $(clients_tests) \
        && node t/clients/table.mjs --check
}

stage module make -s module
stage contract make -s contract
stage unit make -s unit
stage style make -s style
stage fuzz make -s fuzz FUZZ_TIME="${FUZZ_TIME:-10}"
stage live-shm live every env CHAT_STORE=shm
stage live-redis live stores env CHAT_STORE=redis
for store in sentinel cluster; do
    stage contract-$store env CHAT_STORE=$store \
        node --test --test-reporter=spec t/contract.test.mjs
done
stage clients-packages make -s clients-packages
stage clients-shm clients env CHAT_STORE=shm
stage clients-redis clients env CHAT_STORE=redis
stage clients-recordings node --test --test-reporter=spec \
    t/clients/recordings.test.mjs
stage asan make -s asan
stage live-asan live half env CHAT_ASAN=1 CHAT_STORE=shm
stage live-asan-redis live other_half env CHAT_ASAN=1 CHAT_STORE=redis
stage clients-asan env CHAT_ASAN=1 CHAT_STORE=redis \
    node --test --test-reporter=spec t/clients/chat.test.mjs

echo "seconds:$times"
[ -z "$broken" ] || echo "${whys}failed:$broken (logs in $logs)"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
