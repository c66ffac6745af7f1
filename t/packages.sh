#!/bin/sh
# Installs the Debian packages that a task needs and that are missing.
# Usage: t/packages.sh TASK...
# Tasks: make module deb install docker unit fuzz style live npm clients
#   asan builds coverage bench alternatives
# Silent and quick when all are there; uses sudo where it is not root.
set -eu

wanted()
{
    for task in "$@"; do
        case $task in
        make)
            echo make
            ;;
        module)
            echo make gcc libc6-dev nginx nginx-dev
            echo libhiredis-dev libssl-dev
            ;;
        deb)
            wanted module
            echo build-essential debhelper
            ;;
        install)
            wanted deb live
            echo mmdebstrap
            ;;
        docker)
            wanted install npm
            echo docker.io docker-compose buildah
            # Debian 13 has the client in a package of its own.
            ! apt-cache show docker-cli >/dev/null 2>&1 || echo docker-cli
            ;;
        unit)
            echo make gcc libc6-dev libcmocka-dev libyajl-dev libssl-dev
            ;;
        fuzz)
            echo make clang libclang-rt-dev libc6-dev libyajl-dev libssl-dev
            ;;
        style)
            echo clang-format
            node_wanted
            ;;
        live)
            # Of redis-server the program; its service may run or not.
            echo nginx openssl
            command -v "${CHAT_REDIS:-redis-server}" >/dev/null \
                || echo "${CHAT_REDIS:-redis-server}"
            node_wanted
            # promtool; large, and a test does without it elsewhere
            [ -z "${CI:-}" ] || command -v promtool >/dev/null \
                || echo prometheus
            ;;
        bench)
            echo gcc libc6-dev zlib1g-dev
            ;;
        alternatives)
            # What the benchmark compares the module with.
            echo libnginx-mod-http-lua lua-cjson libnginx-mod-http-js
            ;;
        npm)
            node_wanted
            command -v npm >/dev/null || echo npm
            ;;
        clients)
            wanted npm
            [ -x "${CHAT_CHROMIUM:-}" ] || echo chromium-headless-shell
            ;;
        asan)
            # gcc brings the sanitizers' libraries.
            echo gcc libc6-dev
            ;;
        coverage)
            echo gcovr
            ;;
        builds)
            echo make gcc clang libc6-dev libhiredis-dev libssl-dev
            echo libpcre2-dev zlib1g-dev
            ;;
        *)
            echo "$0: unknown task $task" >&2
            exit 2
            ;;
        esac
    done
}

# Any node from 18 on will do, wherever it comes from.
node_wanted()
{
    major=$(node --version 2>/dev/null | sed 's/^v\([0-9]*\).*/\1/') || :
    [ "${major:-0}" -ge 18 ] || echo nodejs
}

there()
{
    case $(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null) in
    installed) return 0 ;;
    *) return 1 ;;
    esac
}

# Another make or compiler than Debian's is as good.
usable()
{
    case $1 in
    make | gcc | clang | clang-format) command -v "$1" >/dev/null ;;
    *) false ;;
    esac
}

packages=$(wanted "$@")
missing=
for package in $packages; do
    case " $missing " in *" $package "*) continue ;; esac
    there "$package" || usable "$package" || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

if ! command -v apt-get >/dev/null; then
    echo "$0: no apt-get here; please install:$missing" >&2
    exit 1
fi

sudo=
if [ "$(id -u)" -ne 0 ]; then
    sudo=sudo
    if ! command -v sudo >/dev/null; then
        echo "$0: not root and no sudo; please install:$missing" >&2
        exit 1
    fi
fi

install()
{
    # shellcheck disable=SC2086
    $sudo env DEBIAN_FRONTEND=noninteractive apt-get \
        -o DPkg::Lock::Timeout=300 install -y -q --no-install-recommends \
        $missing
}

echo "Installing Debian packages:$missing"
if ! apt-cache show make >/dev/null 2>&1 || ! install; then
    $sudo apt-get -o DPkg::Lock::Timeout=300 update -q
    install
fi
