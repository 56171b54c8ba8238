#!/bin/sh
# tensorflow 2.21.0 for site example-slurm (x86_64)
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
for package in ca-certificates libgomp1 python3 python3-venv; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' ||
        missing="$missing $package"
done
[ -z "$missing" ] || fail "OS packages are missing; type: sudo apt-get install$missing"

# What the image's steps see, and nothing that this host's shell says to compilers and to Python.
unset PYTHONPATH PYTHONHOME PYTHONSTARTUP PYTHONUSERBASE PYTHONPLATLIBDIR PYTHONEXECUTABLE PYTHONNOUSERSITE PYTHONPYCACHEPREFIX __PYVENV_LAUNCHER__ CC CXX FC F77 F90 CPP CFLAGS CXXFLAGS CPPFLAGS FFLAGS FCFLAGS LDFLAGS NVCC_PREPEND_FLAGS NVCC_APPEND_FLAGS CPATH COMPILER_PATH GCC_EXEC_PREFIX LD_LIBRARY_PATH LD_PRELOAD
export LC_ALL=C.UTF-8
export LANG=C.UTF-8
export OMP_PROC_BIND=close
export PATH="$prefix/bin":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin

echo "==> step 1/1 framework"
[ -x "$prefix"/bin/python ] || /usr/bin/python3 -m venv "$prefix"
"$prefix"/bin/python -m pip install --no-cache-dir --no-compile --no-deps --only-binary=:all: tensorflow-cpu==2.21.0 keras==3.15.1 absl-py==2.5.1 astunparse==1.6.3 certifi==2026.10.19.post1 charset-normalizer==3.5.3 flatbuffers==25.12.19 gast==0.7.0 google-pasta==0.2.0 grpcio==1.85.3 h5py==3.14.0 idna==3.20 libclang==18.1.1 markdown-it-py==4.3.0 mdurl==0.1.2 ml-dtypes==0.6.0 namex==0.1.0 numpy==2.4.6 opt-einsum==3.4.0 optree==0.20.0 packaging==26.4 protobuf==7.36.2 pygments==2.21.0 requests==2.34.2 rich==15.0.0 setuptools==84.2.1 six==1.17.0 termcolor==3.3.0 typing-extensions==4.16.0 urllib3==2.8.0 wheel==0.48.0 wrapt==2.5.2
"$prefix"/bin/python -m pip check
"$prefix"/bin/python -m compileall -q -f -j 0 --invalidation-mode unchecked-hash "$prefix"/lib || echo 'left as source: files that are not for this Python (named above)'

mkdir -p "$prefix"
quoted=$(printf '%s\n' "$prefix" | sed "s/'/'\\\\''/g")
{
    printf '%s\n' 'export LANG=C.UTF-8'
    printf '%s\n' 'export OMP_PROC_BIND=close'
    printf "export PATH='%s/bin':\"\$PATH\"\n" "$quoted"
} > "$prefix/activate.sh"

if [ -r "$dlc_here/verify.py" ]; then
    echo "==> verify"
    "$prefix/bin/python" "$dlc_here/verify.py"
fi
echo "native twin ready; type: . '$quoted/activate.sh'"
