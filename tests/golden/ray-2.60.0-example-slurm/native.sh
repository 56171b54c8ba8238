#!/bin/sh
# ray 2.60.0 for site example-slurm (x86_64)
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

echo "==> step 1/3 framework"
[ -x "$prefix"/bin/python ] || /usr/bin/python3 -m venv "$prefix"
: "${DLC_UPSTREAM_PYTORCH_CPU=https://download.pytorch.org/whl/cpu}"
"$prefix"/bin/python -m pip install --no-cache-dir --no-compile --no-deps --only-binary=:all: ${DLC_UPSTREAM_PYTORCH_CPU:+--extra-index-url "$DLC_UPSTREAM_PYTORCH_CPU"} torch==2.13.0+cpu filelock==3.20.0 fsspec==2025.10.0 jinja2==3.1.6 markupsafe==3.0.3 mpmath==1.3.0 networkx==3.5 numpy==2.3.5 setuptools==80.9.0 sympy==1.14.0 typing-extensions==4.15.0
"$prefix"/bin/python -m pip check
"$prefix"/bin/python -m compileall -q -f -j 0 --invalidation-mode unchecked-hash "$prefix"/lib || echo 'left as source: files that are not for this Python (named above)'

echo "==> step 2/3 packages"
[ -x "$prefix"/bin/python ] || /usr/bin/python3 -m venv "$prefix"
"$prefix"/bin/python -m pip install --no-cache-dir --no-compile --no-deps --only-binary=:all: ray==2.60.0 aiohappyeyeballs==2.7.1 aiohttp==3.14.5 aiohttp-cors==0.8.1 aiosignal==1.4.0 annotated-types==0.8.0 attrs==26.1.0 certifi==2026.10.19.post1 cffi==2.1.1 charset-normalizer==3.5.3 click==8.5.1 colorful==0.5.8 cryptography==50.0.2 distlib==0.4.4 frozenlist==1.8.0 google-api-core==2.44.0 google-auth==2.63.0 googleapis-common-protos==1.76.0 grpcio==1.85.3 idna==3.20 jsonschema==4.26.0 jsonschema-specifications==2025.9.1 msgpack==1.2.4 multidict==7.2.1 opencensus==0.11.4 opencensus-context==0.1.3 opentelemetry-api==1.45.2 opentelemetry-exporter-prometheus==0.66b2 opentelemetry-proto==1.45.2 opentelemetry-sdk==1.45.2 opentelemetry-semantic-conventions==0.66b2 packaging==26.4 platformdirs==4.14.8 prometheus-client==0.26.0 propcache==0.5.4 proto-plus==1.29.0 protobuf==7.36.2 py-spy==0.4.3 pyasn1==0.6.5 pyasn1-modules==0.4.2 pycparser==3.12 pydantic==2.13.5 pydantic-core==2.46.5 pyyaml==6.0.4 referencing==0.37.0 requests==2.34.2 rpds-py==2026.9.1 six==1.17.0 smart-open==9.0.2 typing-inspection==0.4.5 urllib3==2.8.0 virtualenv==20.35.4 wrapt==2.5.2 yarl==1.25.1
"$prefix"/bin/python -m pip check
"$prefix"/bin/python -c 'import sys; from compileall import compile_file; from concurrent.futures import ProcessPoolExecutor; from functools import partial; from importlib.util import MAGIC_NUMBER, cache_from_source, source_hash; from pathlib import Path; from py_compile import PycInvalidationMode; kind = MAGIC_NUMBER + b"\1\0\0\0"; code = lambda file: Path(cache_from_source(str(file))); head = lambda file: file.is_file() and file.open("rb").read(16); want = lambda file: kind + source_hash(file.read_bytes()); found = [file for file in Path(sys.argv[1]).rglob("*.py") if file.is_file()]; stale = [str(file) for file in found if head(code(file)) != want(file)]; mode = PycInvalidationMode.UNCHECKED_HASH; work = partial(compile_file, force=True, quiet=1, invalidation_mode=mode); sys.exit(not all(list(ProcessPoolExecutor().map(work, stale, chunksize=32))))' "$prefix"/lib || echo 'left as source: files that are not for this Python (named above)'

echo "==> step 3/3 verify-pytorch"
[ ! -r "$dlc_here/verify-pytorch.py" ] || "$prefix/bin/python" "$dlc_here/verify-pytorch.py"

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
