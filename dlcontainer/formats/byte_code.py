"""The commands that compile an environment's Python files, so that no start has to."""

from dlcontainer.config.templating import Text, quote

# Packages ship files for other Pythons too, which pip leaves as source; so does this.
_OTHERWISE = "|| echo 'left as source: files that are not for this Python (named above)'"

# Of a file that has its byte code already only the source is read, which is far quicker than to
# compile it again. `compileall` can't tell such files: it knows time stamps alone.
_PROGRAM = "; ".join(
    (
        "import sys",
        "from compileall import compile_file",
        "from concurrent.futures import ProcessPoolExecutor",
        "from functools import partial",
        "from importlib.util import MAGIC_NUMBER, cache_from_source, source_hash",
        "from pathlib import Path",
        "from py_compile import PycInvalidationMode",
        'kind = MAGIC_NUMBER + b"\\1\\0\\0\\0"',
        "code = lambda file: Path(cache_from_source(str(file)))",
        'head = lambda file: file.is_file() and file.open("rb").read(16)',
        "want = lambda file: kind + source_hash(file.read_bytes())",
        'found = [file for file in Path(sys.argv[1]).rglob("*.py") if file.is_file()]',
        "stale = [str(file) for file in found if head(code(file)) != want(file)]",
        "mode = PycInvalidationMode.UNCHECKED_HASH",
        "work = partial(compile_file, force=True, quiet=1, invalidation_mode=mode)",
        "sys.exit(not all(list(ProcessPoolExecutor().map(work, stale, chunksize=32))))",
    )
)


def all_files(python: Text, folder: Text) -> Text:
    """Return the command that compiles every file below a folder.

    Hash-based and unchecked: byte code stays valid when an image maker rewrites time stamps.
    """
    # -f: what the environment's own pip came with has the other kind, which counts as fresh.
    return Text(
        f"{python} -m compileall -q -f -j 0 --invalidation-mode unchecked-hash {folder}"
        f" {_OTHERWISE}"
    )


def new_files(python: Text, folder: Text) -> Text:
    """Return the command that compiles what has no byte code of its source below a folder."""
    return Text(f"{python} -c {quote(_PROGRAM)} {folder} {_OTHERWISE}")
