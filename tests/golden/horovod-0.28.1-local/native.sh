#!/bin/sh
# horovod 0.28.1 for site local (x86_64)
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
for package in ca-certificates cmake g++ libgomp1 libopenmpi-dev make openmpi-bin openssh-client python3 python3-dev python3-venv; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' ||
        missing="$missing $package"
done
[ -z "$missing" ] || fail "OS packages are missing; type: sudo apt-get install$missing"

# What the image's steps see, and nothing that this host's shell says to compilers and to Python.
unset PYTHONPATH PYTHONHOME PYTHONSTARTUP PYTHONUSERBASE PYTHONPLATLIBDIR PYTHONEXECUTABLE PYTHONNOUSERSITE PYTHONPYCACHEPREFIX __PYVENV_LAUNCHER__ CC CXX FC F77 F90 CPP CFLAGS CXXFLAGS CPPFLAGS FFLAGS FCFLAGS LDFLAGS NVCC_PREPEND_FLAGS NVCC_APPEND_FLAGS CPATH COMPILER_PATH GCC_EXEC_PREFIX LD_LIBRARY_PATH LD_PRELOAD
export LC_ALL=C.UTF-8
export LANG=C.UTF-8
export OMPI_MCA_btl_vader_single_copy_mechanism=none
export PATH="$prefix/bin":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin

echo "==> step 1/2 pytorch"
[ -x "$prefix"/bin/python ] || /usr/bin/python3 -m venv "$prefix"
: "${DLC_UPSTREAM_PYTORCH_CPU=https://download.pytorch.org/whl/cpu}"
"$prefix"/bin/python -m pip install --no-cache-dir --no-compile --no-deps --only-binary=:all: ${DLC_UPSTREAM_PYTORCH_CPU:+--extra-index-url "$DLC_UPSTREAM_PYTORCH_CPU"} cffi==2.1.1 cloudpickle==3.1.2 packaging==26.3 psutil==7.2.2 pycparser==3.12 pyyaml==6.0.3 setuptools==80.9.0 wheel==0.45.1 torch==2.13.0+cpu filelock==3.20.0 fsspec==2025.10.0 jinja2==3.1.6 markupsafe==3.0.3 mpmath==1.3.0 networkx==3.5 numpy==2.3.5 sympy==1.14.0 typing-extensions==4.15.0
"$prefix"/bin/python -m pip check
"$prefix"/bin/python -m compileall -q -f -j 0 --invalidation-mode unchecked-hash "$prefix"/lib || echo 'left as source: files that are not for this Python (named above)'

echo "==> step 2/2 horovod"
(
version=0.28.1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
export KERAS_HOME="$work"  # Keras leaves a file in the home when it is imported
pip() { "$prefix/bin/python" -m pip "$@"; }
# The record's list of wheels is that of the step before; what is made here has no published hash.
unset PIP_REPORT

# Whichever index serves it: this file or none.
printf 'horovod==%s --hash=sha256:%s\n' "$version" \
    92a43f5a94c43907a56805bad15f19700c62ffc83b7ca483f9e104e229f67ef0 > sdist.txt
pip download --no-cache-dir --no-deps --no-binary=:all: --no-build-isolation \
    --require-hashes --requirement sdist.txt
tar -xzf "horovod-$version.tar.gz"

# PyTorch's headers are C++17 since 2.1; Horovod's build still asks for 14.
sed -i 's/set(CMAKE_CXX_STANDARD 14)/set(CMAKE_CXX_STANDARD 17)/' \
    "horovod-$version/CMakeLists.txt" "horovod-$version/horovod/torch/CMakeLists.txt"

# For the frameworks that are here, and no guessing.
export HOROVOD_WITH_MPI=1 HOROVOD_WITH_GLOO=1 HOROVOD_WITHOUT_MXNET=1
for each in torch:PYTORCH tensorflow:TENSORFLOW; do
    with=WITHOUT
    if "$prefix/bin/python" -c "import ${each%:*}" 2>/dev/null; then with=WITH; fi
    export "HOROVOD_${with}_${each#*:}=1"
done
# Without this the flags follow the machine that builds.
export HOROVOD_BUILD_ARCH_FLAGS=-march=x86-64-v3
MAKEFLAGS="-j$(nproc)"
export MAKEFLAGS
pip wheel --no-cache-dir --no-deps --no-build-isolation --wheel-dir . "./horovod-$version"
pip install --no-cache-dir --no-compile --no-deps --no-index --find-links . \
    --only-binary=:all: "horovod==$version"
pip check

# Names for debuggers are 50 MB a library.
site=$("$prefix/bin/python" -c 'import sysconfig; print(sysconfig.get_path("platlib"))')
find "$site/horovod" -name '*.so' -exec strip --strip-unneeded {} +
"$prefix/bin/python" -m compileall -q --invalidation-mode unchecked-hash "$site/horovod"
)

mkdir -p "$prefix"
quoted=$(printf '%s\n' "$prefix" | sed "s/'/'\\\\''/g")
{
    printf '%s\n' 'export LANG=C.UTF-8'
    printf '%s\n' 'export OMPI_MCA_btl_vader_single_copy_mechanism=none'
    printf "export PATH='%s/bin':\"\$PATH\"\n" "$quoted"
} > "$prefix/activate.sh"

if [ -r "$dlc_here/verify.py" ]; then
    echo "==> verify"
    "$prefix/bin/python" "$dlc_here/verify.py"
fi
echo "native twin ready; type: . '$quoted/activate.sh'"
