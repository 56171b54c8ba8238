#!/bin/bash
# mxnet 1.9.1 for site perlmutter-cpu (x86_64)
# base: debian bookworm, minimal root tree
# plan: sha256:PLAN-DIGEST
# Rendered by dlcontainer: change the recipe or the site config, not this file.
#
# Builds the image at the site, the way that the centre documents. Run it in the folder of the
# Dockerfile: dlcontainer render --format route -o FOLDER/ writes both.
# source: NERSC/podman-hpc@823cb34 README.md (of 2025-12-10, the same on 2026-04-24)
set -eu
dlc_fail() { printf 'route: %s\n' "$1" >&2; printf '  next: %s\n' "$2" >&2; exit 3; }
cd "$(dirname -- "$0")"
[ -r Dockerfile ] || dlc_fail "no Dockerfile here" "dlcontainer render --format route -o FOLDER/"
[ -r rootfs.tar ] || dlc_fail "no rootfs.tar here, which the Dockerfile begins with" \
    "dlcontainer render --format route --with-base -o FOLDER/"
# A relative or empty entry of PATH is the current folder or one below it, where anybody's files may
# lie: the engine and its helpers are not taken from there.
case ":${PATH-}:" in
    *:[!/]*)
        dlc_rest=${PATH-}: dlc_path=
        while [ -n "$dlc_rest" ]; do
            dlc_one=${dlc_rest%%:*} dlc_rest=${dlc_rest#*:}
            case $dlc_one in /*) dlc_path=${dlc_path:+$dlc_path:}$dlc_one ;; esac
        done
        PATH=${dlc_path:-/usr/bin:/bin}
        export PATH
        ;;
esac

# What is compiled in the image is compiled against the bound folder, which the job binds too.
podman-hpc build -f Dockerfile -t mxnet:1.9.1-perlmutter-cpu .
podman-hpc migrate mxnet:1.9.1-perlmutter-cpu
