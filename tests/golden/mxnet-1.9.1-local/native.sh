#!/bin/sh
# mxnet 1.9.1 for site local (x86_64)
# base: debian bookworm, minimal root tree
# plan: sha256:PLAN-DIGEST
# Rendered by dlcontainer: change the recipe or the site config, not this file.
#
# The native twin: the same versions from the same wheels, without a container and without root.
# Usage: sh native.sh FOLDER
set -eu
umask 022
[ $# -eq 1 ] || { echo "usage: sh native.sh FOLDER" >&2; exit 2; }
prefix=$1
case $prefix in /*) ;; *) prefix=$PWD/$prefix ;; esac
dlc_here=$(cd "$(dirname "$0")" && pwd)

fail() { echo "native.sh: $1" >&2; exit 3; }

[ ! -e "$prefix" ] || fail "there is something at $prefix already: give another folder, or remove it"
[ "$(uname -m)" = x86_64 ] || fail "made for x86_64, this machine is $(uname -m)"
. /etc/os-release
[ "${ID-}/${VERSION_CODENAME-}" = debian/bookworm ] ||
    fail "made for debian bookworm, this machine is ${ID-} ${VERSION_CODENAME-}: no twin here"

missing=
for package in ca-certificates libgomp1 libquadmath0 python3 python3-venv; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' ||
        missing="$missing $package"
done
[ -z "$missing" ] || fail "OS packages are missing; type: sudo apt-get install$missing"

# What the image's steps see, and nothing that this host's shell says to compilers and to Python.
unset PYTHONPATH PYTHONHOME PYTHONSTARTUP PYTHONUSERBASE PYTHONPLATLIBDIR PYTHONEXECUTABLE PYTHONNOUSERSITE PYTHONPYCACHEPREFIX __PYVENV_LAUNCHER__ CC CXX FC F77 F90 CPP CFLAGS CXXFLAGS CPPFLAGS FFLAGS FCFLAGS LDFLAGS NVCC_PREPEND_FLAGS NVCC_APPEND_FLAGS CPATH COMPILER_PATH GCC_EXEC_PREFIX LD_LIBRARY_PATH LD_PRELOAD
export LC_ALL=C.UTF-8
export LANG=C.UTF-8
export PATH="$prefix/bin":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin

echo "==> step 1/1 framework"
[ -x "$prefix"/bin/python ] || /usr/bin/python3 -m venv "$prefix"
"$prefix"/bin/python -m pip install --no-cache-dir --no-compile --no-deps --only-binary=:all: mxnet==1.9.1 certifi==2026.10.19.post1 charset-normalizer==3.5.3 graphviz==0.8.4 idna==3.20 numpy==1.23.5 requests==2.34.2 urllib3==2.8.0
"$prefix"/bin/python -m pip check
"$prefix"/bin/python -m compileall -q -f -j 0 --invalidation-mode unchecked-hash "$prefix"/lib || echo 'left as source: files that are not for this Python (named above)'

mkdir -p "$prefix"
quoted=$(printf '%s\n' "$prefix" | sed "s/'/'\\\\''/g")
{
    printf '%s\n' 'export LANG=C.UTF-8'
    printf "export PATH='%s/bin':\"\$PATH\"\n" "$quoted"
} > "$prefix/activate.sh"

if [ -r "$dlc_here/verify.py" ]; then
    echo "==> verify"
    "$prefix/bin/python" "$dlc_here/verify.py"
fi
echo "native twin ready; type: . '$quoted/activate.sh'"
