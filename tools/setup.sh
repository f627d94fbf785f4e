#!/bin/sh
# Make this machine able to build and test: tools/setup.sh PART...
#
#   build   compiler, zstd, zlib, ISA-L, libedit, Python 3.11 and the build tools in .venv
#   torch   torch, for the demo and the torch tests
#   test    what the unit tests and `make lint` need
#   fuzz    clang and its coverage tools
#
# Nothing is installed that is already there, so a second run takes a moment. On
# Debian what is missing comes from apt; elsewhere one sentence names it.
set -eu
cd "$(dirname "$0")/.."

fail() {
    echo "setup: $*" >&2
    exit 1
}

has() { command -v "$1" >/dev/null 2>&1; }
compiles() { echo "#include <$1>" | cc -E - >/dev/null 2>&1; }
clang_has_runtime() { test -e "$(clang --rtlib=compiler-rt -print-libgcc-file-name)"; }

# Prints a Python 3.11 that can make virtualenvs and has its headers.
python311() {
    for python in ${PYTHON311:+"$PYTHON311"} python3.11 python3 /usr/bin/python3; do
        if "$python" - 2>/dev/null <<'END'; then
import ensurepip, os, sys, sysconfig, venv
header = os.path.join(sysconfig.get_paths()["include"], "Python.h")
sys.exit(sys.version_info[:2] != (3, 11) or not os.path.exists(header))
END
            echo "$python"
            return
        fi
    done
    return 1
}

# Each line: the Debian package, and the test that says it is not needed. clang's
# own runtime is named after its version, so it is only known once clang is there.
missing_for() {
    case $1 in
    build)
        has cc || echo gcc
        compiles stdio.h || echo libc6-dev
        has git || echo git
        has pkg-config || echo pkg-config
        pkg-config --exists libzstd 2>/dev/null || echo libzstd-dev
        pkg-config --exists libisal 2>/dev/null || echo libisal-dev
        pkg-config --exists zlib 2>/dev/null || echo zlib1g-dev
        pkg-config --exists libedit 2>/dev/null || echo libedit-dev
        python311 >/dev/null || echo python3 python3-venv python3-dev
        ;;
    test)
        pkg-config --exists cmocka 2>/dev/null || echo libcmocka-dev
        has clang-format || echo clang-format
        has shellcheck || echo shellcheck
        # Readers of the formats that we write.
        has callgrind_annotate || echo valgrind
        [ -e /usr/share/perl5/Devel/NYTProf/flamegraph.pl ] || echo libdevel-nytprof-perl
        has chromium || echo chromium
        has go || echo golang-go
        has npm || echo npm
        ;;
    fuzz)
        has clang || echo clang
        has llvm-cov || echo llvm
        ;;
    fuzz-runtime)
        clang_has_runtime || echo "libclang-rt-$(clang -dumpversion | cut -d. -f1)-dev"
        ;;
    esac
}

as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    elif has sudo; then
        sudo "$@"
    else
        fail "not root and no sudo; as root: $*"
    fi
}

install_missing() {
    packages=$(for part; do missing_for "$part"; done | sort -u | paste -s -d ' ' -)
    [ -n "$packages" ] || return 0
    has apt-get || fail "not Debian, so please install what it calls $packages"
    echo "setup: installing $packages"
    as_root apt-get update -q
    # shellcheck disable=SC2086  # a list of words
    as_root env DEBIAN_FRONTEND=noninteractive \
        apt-get install -q -y --no-install-recommends $packages
}

# A virtualenv that moved, or whose Python is gone, is made again.
make_venv() {
    if [ "$(.venv/bin/python -c 'import sys; print(sys.prefix)' 2>/dev/null)" = \
        "$PWD/.venv" ]; then
        return
    fi
    python=$(python311) || fail "Python 3.11 with venv and headers is missing; set PYTHON311"
    rm -rf .venv
    "$python" -m venv .venv
}

# Install the pinned packages of a list once: a copy of it in .venv says it is done.
install_python() {
    cmp -s "tools/$1" ".venv/$1" && return
    echo "setup: installing $(grep -c '^[a-z]' "tools/$1") Python packages of tools/$1"
    .venv/bin/python -m pip install -qq --disable-pip-version-check -r "tools/$1"
    cp "tools/$1" ".venv/$1"
}

# The same for the packages of npm.
install_node() {
    cmp -s tools/package.json .venv/node/installed.json && return
    echo "setup: installing the npm packages of tools/package.json"
    mkdir -p .venv/node
    cp tools/package.json .venv/node/
    npm install --prefix .venv/node --silent --no-audit --no-fund --ignore-scripts
    cp tools/package.json .venv/node/installed.json
}

[ $# -gt 0 ] || fail "usage: tools/setup.sh build|torch|test|fuzz ..."
install_missing build "$@"
make_venv
install_python requirements-build.txt
for part; do
    case $part in
    build) ;;
    torch) install_python requirements-torch.txt ;;
    test)
        install_python requirements-test.txt
        install_node
        ;;
    fuzz) install_missing fuzz-runtime ;;
    *) fail "no part called $part" ;;
    esac
done
