#!/bin/sh
# Builds Horovod from its sdist:  horovod.sh PREFIX VERSION SHA256 SONAME
#
# PREFIX holds the Python with the framework; mpicxx on PATH is the MPI to build against, whose
# library is called SONAME. How it is built otherwise: Horovod's own variables, HOROVOD_*.
set -eu
prefix=$1 version=$2 sha256=$3 soname=$4
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
pip() { "$prefix/bin/python" -m pip "$@"; }
# The record's list of wheels is that of the step before; what is made here has no published hash.
unset PIP_REPORT

# Whichever index serves it: this file or none.
printf 'horovod==%s --hash=sha256:%s\n' "$version" "$sha256" > sdist.txt
pip download --no-cache-dir --no-deps --no-binary=:all: --no-build-isolation --require-hashes \
    --requirement sdist.txt
tar -xzf "horovod-$version.tar.gz"

# PyTorch's headers are C++17 since 2.1; Horovod's build still asks for 14.
if "$prefix/bin/python" -c \
    'import sys, torch; sys.exit(tuple(map(int, torch.__version__.split(".")[:2])) < (2, 1))'
then
    sed -i 's/set(CMAKE_CXX_STANDARD 14)/set(CMAKE_CXX_STANDARD 17)/' \
        "horovod-$version/CMakeLists.txt" "horovod-$version/horovod/torch/CMakeLists.txt"
fi
export HOROVOD_WITH_PYTORCH=1 HOROVOD_WITHOUT_TENSORFLOW=1 HOROVOD_WITHOUT_MXNET=1
export HOROVOD_WITH_MPI=1 HOROVOD_WITH_GLOO=1
# CMake 4 no longer takes what Horovod's oldest parts ask for.
export CMAKE_POLICY_VERSION_MINIMUM=3.5
MAKEFLAGS=-j$(nproc)
export MAKEFLAGS
pip wheel --no-cache-dir --no-deps --no-build-isolation --wheel-dir . "./horovod-$version"
pip install --no-cache-dir --no-compile --no-deps --no-index --find-links . --only-binary=:all: \
    "horovod==$version"

# Linked to the library that jobs will find, by its name alone.
library=$("$prefix/bin/python" -c \
    'import glob, sysconfig; print(glob.glob(sysconfig.get_path("platlib") + "/horovod/torch/mpi_lib*.so")[0])')
readelf -d "$library" > dynamic.txt
grep -q "NEEDED.*\[$soname\]" dynamic.txt || {
    echo "horovod.sh: $library is not linked to $soname:" >&2
    grep NEEDED dynamic.txt >&2
    exit 1
}
strip --strip-unneeded "$library"
