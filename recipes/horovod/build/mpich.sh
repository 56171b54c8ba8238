#!/bin/sh
# Builds MPICH from its source archive:  mpich.sh URL SHA256 PREFIX
#
# For its ABI: a Cray's own library takes its place at run time, found by LD_LIBRARY_PATH. So no
# RPATH, which would win over that; and not Debian's or Ubuntu's package, whose library is called
# libmpich.so.12: a program linked to that never asks for libmpi.so.12.
# Source of the options: argonne-lcf/user-guides@91dabfb2^ docs/theta (--disable-wrapper-rpath);
# olcf/olcf-user-docs software/containers_on_frontier.rst (ch4:ofi).
set -eu
url=$1 sha256=$2 prefix=$3
[ -n "$url" ] || { echo "mpich.sh: no address of the source archive" >&2; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
curl --fail --silent --show-error --location --output mpich.tar.gz "$url"
printf '%s  mpich.tar.gz\n' "$sha256" > sums
sha256sum --check --strict sums
tar -xzf mpich.tar.gz --strip-components=1
./configure --prefix="$prefix" --with-device=ch4:ofi --disable-wrapper-rpath --disable-fortran \
    --disable-static --quiet
make -s -j"$(nproc)"
make -s install-strip
readelf -d "$prefix/lib/libmpi.so" | grep -q 'SONAME.*\[libmpi\.so\.12\]'
