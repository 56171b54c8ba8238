#!/bin/sh
# llm 2.13.0 for site example-slurm (x86_64)
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
"$prefix"/bin/python -m pip install --no-cache-dir --no-compile --no-deps --only-binary=:all: accelerate==1.15.0 annotated-doc==0.0.7 annotated-types==0.8.0 anyio==4.14.2 click==8.5.1 datasets==5.2.0 dill==0.4.1 h11==0.16.0 hf-xet==1.8.0 httpcore2==2.16.2 httpx2==2.16.2 huggingface-hub==2.4.0 idna==3.20 markdown-it-py==4.3.0 mdurl==0.1.2 multiprocess==0.70.19 packaging==26.4 pandas==3.1.1 peft==0.21.2 psutil==7.2.2 pyarrow==26.0.1 pydantic==2.13.5 pydantic-core==2.46.5 pygments==2.21.0 python-dateutil==4.0.0 pyyaml==6.0.4 regex==2026.11.19 rich==15.0.0 safetensors==0.8.0 shellingham==1.5.4 tokenizers==0.23.3 tqdm==4.70.1 transformers==5.24.0 trl==1.16.0 truststore==0.10.5 typer==0.29.2 typing-inspection==0.4.5 tzdata==2026.6 xxhash==4.1.0
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
