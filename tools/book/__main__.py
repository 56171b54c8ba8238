"""`python -m tools.book`: check docs/, build its site; exit 1 with `file:line` for each fault."""

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from dlcontainer.system import atomic_files
from tools.book import checks, site, source

PROJECT = Path(__file__).resolve().parents[2]
# Sphinx leaves it in what it built; a folder without it is somebody's.
MARK = ".buildinfo"


def main(arguments: list[str] | None = None) -> int:
    """Build the book and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tools.book", description=__doc__)
    parser.add_argument("--root", type=Path, default=PROJECT, help="the checkout that has docs/")
    parser.add_argument("-o", "--output", type=Path, default=Path("book"), help="the site's folder")
    options = parser.parse_args(arguments)
    root, out = options.root.absolute(), options.output.absolute()
    if out.exists() and not (out / MARK).is_file():
        print(f"error: {out} is there and is no book: give another folder with -o", file=sys.stderr)
        return 2
    found = checks.check(root)
    lines = [str(problem) for problem in found.problems]
    if not lines:
        out.parent.mkdir(parents=True, exist_ok=True)
        # Beside its place: the finished folder is renamed there, whole.
        with tempfile.TemporaryDirectory(prefix=".dlcontainer-book-", dir=out.parent) as folder:
            prepared, built = Path(folder) / "source", Path(folder) / "html"
            source.write(found.book, found.commands, prepared)
            lines = site.build(prepared, built, root / "docs")
            if not lines:
                shutil.rmtree(out, ignore_errors=True)
                atomic_files.move_folder(built, out)
    if lines:
        print("\n".join(lines), file=sys.stderr)
        print(f"error: the book is not built: {len(lines)} to fix, see above", file=sys.stderr)
        return 1
    print(f"the book: {out / 'index.html'} (open it from the disk; its search works there too)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
