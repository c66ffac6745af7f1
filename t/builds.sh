#!/bin/bash
# Compiles the module against other NGINX than the installed one.
# Usage: t/builds.sh quick|full|table [FOLDER...]
# The sources are those of Debian 12, 13 and unstable, from the registry that
# apt uses (CHAT_DEBIAN: another mirror), and the FOLDERs. They are kept in
# build/builds; a source that cannot be had is skipped.
# quick: one dynamic build for the newest of them, by clang, without PCRE and
# without optimisation. What has not changed is not compiled again.
# full: each version by each compiler, dynamic and static; each NGINX holds and
# releases requests (t/barrier/barrier.test.mjs).
# table: the same; docs/install.md then has the table of what passed.
# The last lines are the totals that t/all.sh adds up.
set -u
cd "$(dirname "$0")/.."

form=${1:?quick, full or table}
shift
top=$PWD
cache=$top/build/builds
mirror=${CHAT_DEBIAN:-http://deb.debian.org/debian}
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
passed=0
failed=0
declare -A good=() # "VERSION, COMPILER": kinds of builds that passed
mkdir -p "$cache"

# fetch SUITE: the upstream source of its nginx, unpacked, in build/builds.
# A source that is there already is not asked for again.
fetch()
{
    local suite=$1 dir=$cache/$1 log apt
    log=$dir/apt.log
    [ ! -e "$dir/nginx/.whole" ] || return 0
    # What could not be had is asked for again after half a day.
    [ -z "$(find "$log" -mmin -720 2>/dev/null)" ] || return 0

    mkdir -p "$dir/lists/partial" "$dir/cache/archives/partial"
    echo "deb-src [signed-by=$keyring] $mirror $suite main" > "$dir/list"
    apt="apt-get -q -o Dir::Etc::sourcelist=$dir/list
        -o Dir::Etc::sourceparts=/dev/null -o Dir::State::lists=$dir/lists
        -o Dir::Cache=$dir/cache -o APT::Sandbox::User=root
        -o Acquire::Retries=2 -o Acquire::http::Timeout=20"
    rm -rf "$dir/nginx"
    # shellcheck disable=SC2086
    timeout 300 $apt -o APT::Update::Error-Mode=any update > "$log" 2>&1 \
        && (cd "$dir" && timeout 120 $apt source --download-only --tar-only \
            nginx) >> "$log" 2>&1 \
        && mkdir "$dir/nginx" \
        && tar xf "$dir"/nginx_*.orig.tar.* --strip-components=1 \
            -C "$dir/nginx" \
        && touch "$dir/nginx/.whole"
    rm -rf "$dir/lists" "$dir/cache"
}

# Silent where the source is there; why it is not, where it is not.
have()
{
    [ -e "$cache/$1/nginx/.whole" ] && return 0
    echo "skipped: the source of nginx from Debian's $1 cannot be had:" \
        "$(grep -m 1 -E '^(E|Err)' "$cache/$1/apt.log" 2>/dev/null \
            || echo "no apt-get here")"
    return 1
}

# A live test with the NGINX in this folder; a static one loads no module.
try()
{
    local out=$1 kind=$2 nginx module=
    nginx=$(find "$out" -maxdepth 1 -name nginx -o -maxdepth 1 -name angie)
    [ "$kind" = static ] || module=$out/ngx_chat_module.so
    CHAT_NGINX=$nginx CHAT_MODULE=$module \
        timeout 600 node --test --test-name-pattern='other proxy settings' \
        t/barrier/barrier.test.mjs
}

version()
{
    local header=$1/src/core/angie.h name=Angie
    [ -e "$header" ] || { header=$1/src/core/nginx.h; name=NGINX; }
    echo "$name $(sed -n -E \
        's/^#define (NGINX|ANGIE)_VERSION +"(.*)"/\2/p' "$header")"
}

# build SOURCE dynamic|static CC CC_OPT [OPTION...]
# One build, counted; its logs are in its folder. It adds to the table.
build()
{
    local source=$1 kind=$2 cc=$3 opt=$4 version name out key since=$SECONDS
    version=$(version "$1")
    shift 4
    name="$version, $cc, $kind"
    [ "$*" = "" ] || name="$name, without PCRE"
    # One folder for both kinds: ccache then compiles once for both.
    out=$cache/$(echo "${form/table/full} $version $cc" \
        | tr -c 'a-zA-Z0-9.\n' _)
    opt="$opt -fPIC"
    key=$(echo "$source $kind $cc $opt $*"
          find shared ngx_chat_module -name '*.[ch]' | sort
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
        good[$version, $cc]="${good[$version, $cc]:+${good[$version, $cc]}, }$kind"
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
    [ "$form" != quick ] || target=modules
    # shellcheck disable=SC2086
    make -C "$source" -f "$out/Makefile" -s -j"$(nproc)" $target \
        > "$out/make.log" 2>&1 || return 1
    [ "$form" = quick ] || try "$out" "$kind" > "$out/try.log" 2>&1
}


# The table of the builds that passed, in Markdown.
table()
{
    local source version
    echo "| version | gcc $(gcc -dumpversion | cut -d. -f1) |" \
        "clang $(clang -dumpversion | cut -d. -f1) |"
    echo '|---|---|---|'
    for source in "${sources[@]}"; do
        version=$(version "$source")
        echo "| $version | ${good[$version, gcc]:-none} |" \
            "${good[$version, clang]:-none} |"
    done | sort -u -V
}


[ ! -d /usr/lib/ccache ] || PATH=/usr/lib/ccache:$PATH
sources=("$@")
suites='trixie sid'
[ "$form" = quick ] || suites="bookworm $suites"
for suite in $suites; do
    fetch "$suite"
    if have "$suite"; then
        sources+=("$cache/$suite/nginx")
    fi
done

if [ "$form" = quick ] && [ ${#sources[@]} -gt 0 ]; then
    build "${sources[-1]}" dynamic clang '-O0 -g0' \
        --without-http_rewrite_module --without-pcre
fi

if [ "$form" != quick ]; then
    for source in "${sources[@]}"; do
        build "$source" dynamic gcc -O1
        build "$source" static gcc -O1
        build "$source" dynamic clang '-O0 -g0'
        build "$source" static clang '-O0 -g0' \
            --without-http_rewrite_module --without-pcre
    done
fi

if [ "$form" = table ]; then
    table > "$cache/table.md"
    awk -v rows="$cache/table.md" '
        /^### Tested versions/ { wanted = 1 }
        wanted && /^\|/ {
            while ((getline line < rows) > 0)
                print line
            wanted = 0
            skip = 1
        }
        !/^\|/ { skip = 0 }
        !skip' docs/install.md > "$cache/install.md" \
        && cp "$cache/install.md" docs/install.md
fi

echo "# pass $passed"
echo "# fail $failed"
[ $failed -eq 0 ]
