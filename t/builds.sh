#!/bin/bash
# Compiles the module against newer NGINX than the installed one.
# Usage: t/builds.sh quick|full [FOLDER...]
# The sources are those of Debian 13 and of Debian's unstable, from the
# registry that apt uses (CHAT_DEBIAN: another mirror), or the FOLDERs. They
# are kept in build/builds; a source that cannot be had is skipped.
# quick: one dynamic build for the newest of them, by clang, without PCRE and
# without optimisation. What has not changed is not compiled again.
# full: each compiler, dynamic and static, without PCRE, with hiredis 1.x;
# each NGINX is built and reads a configuration, and each version runs a test.
# The last lines are the totals that t/all.sh adds up.
set -u
cd "$(dirname "$0")/.."

form=${1:?quick or full}
shift
top=$PWD
cache=$top/build/builds
mirror=${CHAT_DEBIAN:-http://deb.debian.org/debian}
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
passed=0
failed=0
mkdir -p "$cache"

# fetch SUITE PACKAGE...: their upstream sources, unpacked, in build/builds.
# The packages that are there already are not asked for again.
fetch()
{
    local suite=$1 dir=$cache/$1 missing= package apt log
    shift
    log=$dir/apt.log
    # What could not be had is asked for again after half a day.
    [ -z "$(find "$log" -mmin -720 2>/dev/null)" ] || return 0
    for package in "$@"; do
        [ -e "$dir/$package/.whole" ] || missing="$missing $package"
    done
    [ -n "$missing" ] || return 0

    mkdir -p "$dir/lists/partial" "$dir/cache/archives/partial"
    echo "deb-src [signed-by=$keyring] $mirror $suite main" > "$dir/list"
    apt="apt-get -q -o Dir::Etc::sourcelist=$dir/list
        -o Dir::Etc::sourceparts=/dev/null -o Dir::State::lists=$dir/lists
        -o Dir::Cache=$dir/cache -o APT::Sandbox::User=root
        -o Acquire::Retries=2 -o Acquire::http::Timeout=20"
    # shellcheck disable=SC2086
    timeout 300 $apt -o APT::Update::Error-Mode=any update > "$log" 2>&1 \
        || return 1
    for package in $missing; do
        # shellcheck disable=SC2086
        (cd "$dir" && timeout 120 $apt source --download-only --tar-only \
            "$package") >> "$log" 2>&1 || continue
        rm -rf "${dir:?}/$package" && mkdir "$dir/$package" \
            && tar xf "$dir/$package"_*.orig.tar.* --strip-components=1 \
                -C "$dir/$package" \
            && touch "$dir/$package/.whole"
    done
    rm -rf "$dir/lists" "$dir/cache"
}

# Silent where the source is there; why it is not, where it is not.
have()
{
    [ -e "$cache/$1/$2/.whole" ] && return 0
    echo "skipped: the source of $2 from Debian's $1 cannot be had:" \
        "$(grep -m 1 -E '^(E|Err)' "$cache/$1/apt.log" 2>/dev/null \
            || echo "no apt-get here")"
    return 1
}

# What the module's directives are in a small configuration.
configuration()
{
    [ "$2" = static ] || echo "load_module $1/ngx_chat_module.so;"
    cat <<END
pid $1/nginx.pid;
error_log stderr;
events {}
http {
    access_log off;
    chat_store shm:1m;
    server {
        listen 127.0.0.1:1;
        location / { chat auto; proxy_pass http://127.0.0.1:2; }
    }
}
END
}

# try FOLDER KIND: the NGINX in it reads a configuration, and runs a test.
try()
{
    local out=$1 kind=$2
    configuration "$out" "$kind" > "$out/try.conf" || return 1
    mkdir -p "$out/prefix/logs"
    "$out/nginx" -t -p "$out/prefix" -c "$out/try.conf" || return 1
    [ "$kind" = live ] || return 0
    CHAT_NGINX=$out/nginx CHAT_MODULE=$out/ngx_chat_module.so \
        timeout 600 node --test t/barrier/barrier.test.mjs
}

version()
{
    local header=$1/src/core/angie.h
    [ -e "$header" ] || header=$1/src/core/nginx.h
    echo "$(basename "$header" .h) $(sed -n -E \
        's/^#define (NGINX|ANGIE)_VERSION +"(.*)"/\2/p' "$header")"
}

# build SOURCE NAME dynamic|static|live CC CC_OPT [OPTION...]
# live: dynamic, and a live test. One build, counted; its log is in its folder.
build()
{
    local source=$1 name kind=$3 cc=$4 opt=$5 out key since=$SECONDS
    name="$(version "$1"), $2"
    shift 5
    out=$cache/$(echo "$form $name" | tr -c 'a-zA-Z0-9.\n' _)
    key=$(echo "$source $cc $opt $* $(find shared ngx_chat_module -name '*.[ch]' | sort)"
          cat config)
    if ! command -v "$cc" >/dev/null; then
        echo "skipped: $name: no $cc here"
        return
    fi
    if [ "$key" != "$(cat "$out/key" 2>/dev/null)" ]; then
        rm -rf "$out" && mkdir -p "$out"
    fi
    if configured "$@" && made; then
        passed=$((passed + 1))
        echo "ok - $name, $((SECONDS - since)) s"
    else
        failed=$((failed + 1))
        grep -hE 'error:|undefined reference|\[emerg\]|^not ok' \
            "$out"/*.log | head -n 12
        echo "not ok - $name (logs in ${out#"$top"/})"
    fi
}

# Both see the variables of build().
configured()
{
    local add=--add-dynamic-module configure=./configure
    [ ! -e "$out/key" ] || return 0
    [ "$kind" != static ] || add=--add-module
    [ -x "$source/configure" ] || configure=auto/configure # a git tree
    (cd "$source" && bash $configure --with-compat --with-threads \
        --with-http_ssl_module --with-http_v2_module \
        --with-http_gunzip_module --with-http_auth_request_module \
        --with-http_realip_module --with-cc="$cc" --with-cc-opt="$opt" \
        $add="$top" --builddir="$out" "$@") > "$out/configure.log" 2>&1 \
        && echo "$key" > "$out/key"
}

made()
{
    local target='binary modules'
    [ "$form" = full ] || target=modules
    # shellcheck disable=SC2086
    make -C "$source" -f "$out/Makefile" -s -j"$(nproc)" $target \
        > "$out/make.log" 2>&1 || return 1
    [ "$form" = quick ] || try "$out" "$kind" > "$out/try.log" 2>&1
}


[ ! -d /usr/lib/ccache ] || PATH=/usr/lib/ccache:$PATH
sources=("$@")
hiredis=
if [ $# -eq 0 ]; then
    for suite in trixie sid; do
        fetch $suite nginx $([ $suite != trixie ] || echo hiredis)
        if have $suite nginx; then
            sources+=("$cache/$suite/nginx")
        fi
    done
    if have trixie hiredis; then
        mkdir -p "$cache/include"
        ln -sfn "$cache/trixie/hiredis" "$cache/include/hiredis"
        hiredis=$cache/include
    fi
fi

if [ "$form" = quick ] && [ ${#sources[@]} -gt 0 ]; then
    build "${sources[-1]}" 'clang, without PCRE' dynamic clang '-O0 -g0' \
        --without-http_rewrite_module --without-pcre
fi

if [ "$form" = full ]; then
    for source in "${sources[@]}"; do
        build "$source" gcc live gcc -O2
        build "$source" 'gcc, static' static gcc -O2
        build "$source" clang dynamic clang -O1
        build "$source" 'clang, static, without PCRE' static clang -O1 \
            --without-http_rewrite_module --without-pcre
        [ -z "$hiredis" ] || build "$source" 'gcc, hiredis of Debian 13' \
            dynamic gcc "-O1 -I$hiredis"
    done
fi

echo "# pass $passed"
echo "# fail $failed"
[ $failed -eq 0 ]
