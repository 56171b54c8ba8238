#!/bin/bash
# pytorch 1.13.0 for site summit-2024 (ppc64le)
# base: docker://nvidia/cuda:11.7.1-base-ubi8, not pinned
# The base's tag may name another image tomorrow: pin it (base.digest).
# plan: sha256:PLAN-DIGEST
# Rendered by dlcontainer: change the recipe or the site config, not this file.
#
# Builds the image at the site, the way that the centre documents. Run it in the folder of the
# Dockerfile: dlcontainer render --format route -o FOLDER/ writes both.
# source: olcf/olcf-user-docs@d900d52^ software/containers_on_summit.rst (of 2025-01-14)
set -eu
dlc_fail() { printf 'route: %s\n' "$1" >&2; printf '  next: %s\n' "$2" >&2; exit 3; }
cd "$(dirname -- "$0")"
[ -r Dockerfile ] || dlc_fail "no Dockerfile here" "dlcontainer render --format route -o FOLDER/"
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
podman build --net=host -f Dockerfile -t pytorch:1.13.0-summit-2024 .
podman save -o pytorch-1.13.0-summit-2024.tar localhost/pytorch:1.13.0-summit-2024
apptainer build --disable-cache pytorch-1.13.0-summit-2024.sif docker-archive://pytorch-1.13.0-summit-2024.tar
