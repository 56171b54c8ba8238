#!/usr/bin/env python3
"""Measure the house: rooms, imports, signatures, golden files.

Reads files alone; it imports nothing of the package, so that any version can be measured.
"""

import argparse
import ast
import json
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

PACKAGE = "dlcontainer"
# Copied into images as one folder; one file a command; one file a format.
EXEMPT = ("probe", "cli", "formats")
PROBES = frozenset({"import", "train"})
MANY = 5  # parameters


def modules(root: Path) -> dict[str, Path]:
    """Name every module of the package but the probe's, which runs inside images."""
    found = {}
    for path in sorted((root / PACKAGE).rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        if parts[1] != "probe" and "_data" not in parts:
            found[".".join(parts).removesuffix(".__init__")] = path
    return found


def trees(root: Path) -> dict[str, ast.Module]:
    """Parse every module."""
    return {name: ast.parse(path.read_text()) for name, path in modules(root).items()}


def imports(parsed: Mapping[str, ast.Module]) -> dict[str, set[str]]:
    """Map each module to those it imports, for type checking alone too."""
    graph: dict[str, set[str]] = {}
    for name, tree in parsed.items():
        graph[name] = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module:
                targets = (f"{node.module}.{alias.name}" for alias in node.names)
                both = {target if target in parsed else node.module for target in targets}
                graph[name] |= {target for target in both if target in parsed} - {name}
    return graph


def cycles(graph: Mapping[str, set[str]]) -> list[str]:
    """List the modules that can reach themselves."""

    def reaches(start: str) -> bool:
        seen: set[str] = set()
        todo = list(graph[start])
        while todo:
            name = todo.pop()
            if name == start:
                return True
            if name not in seen:
                seen.add(name)
                todo += graph[name]
        return False

    return [name for name in graph if reaches(name)]


def longest_chain(graph: Mapping[str, set[str]]) -> int:
    """Count the modules of the longest chain of imports; 0 where there is a cycle."""
    if cycles(graph):
        return 0

    @cache
    def length(name: str) -> int:
        return 1 + max((length(other) for other in graph[name]), default=0)

    return max(length(name) for name in graph)


def folders(root: Path) -> dict[str, int]:
    """Count the modules side by side in each folder, without its `__init__.py`."""
    counts: dict[str, int] = {}
    for path in (root / PACKAGE).rglob("*.py"):
        if path.name != "__init__.py":
            folder = path.parent.relative_to(root).as_posix()
            counts[folder] = counts.get(folder, 0) + 1
    return counts


def functions(parsed: Mapping[str, ast.Module]) -> Iterator[tuple[str, ast.FunctionDef]]:
    """Give every function with its module."""
    for name, tree in parsed.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef):
                yield name, node


def tuples(parsed: Mapping[str, ast.Module]) -> list[str]:
    """List the parameters that are tuples of several things: places without names."""
    return [
        f"{module}.{function.name}({parameter.arg})"
        for module, function in functions(parsed)
        for parameter in _parameters(function)
        if _is_tuple(parameter.annotation)
    ]


def _is_tuple(annotation: ast.expr | None) -> bool:
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        annotation = ast.parse(annotation.value, mode="eval").body
    if (
        isinstance(annotation, ast.Subscript)
        and isinstance(annotation.value, ast.Name)
        and annotation.value.id == "tuple"
        and isinstance(annotation.slice, ast.Tuple)
    ):
        kinds = [ast.unparse(kind) for kind in annotation.slice.elts]
        return len(kinds) > 1 and "..." not in kinds
    return False


def _parameters(function: ast.FunctionDef) -> list[ast.arg]:
    every = (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)
    return [parameter for parameter in every if parameter.arg not in {"self", "cls"}]


def wide(parsed: Mapping[str, ast.Module]) -> list[str]:
    """List the functions of more than five parameters outside the commands."""
    return [
        f"{module}.{function.name}"
        for module, function in functions(parsed)
        if not module.startswith(f"{PACKAGE}.cli") and len(_parameters(function)) > MANY
    ]


def probe_words(parsed: Mapping[str, ast.Module]) -> list[str]:
    """List the lines that name a probe outside the probes."""
    lines = {
        f"{module}:{node.lineno}"
        for module, tree in parsed.items()
        if not module.startswith(f"{PACKAGE}.bench.probes")
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and node.value in PROBES
    }
    return sorted(lines)


def layers(root: Path) -> list[int]:
    """Count the layers of each contract."""
    data = tomllib.loads((root / "pyproject.toml").read_text())
    contracts = data["tool"]["importlinter"]["contracts"]
    return [len(contract["layers"]) for contract in contracts if "layers" in contract]


def measure(root: Path) -> dict[str, object]:
    """Take all figures of a checkout."""
    parsed = trees(root)
    graph, counts = imports(parsed), folders(root)
    rooms = {
        folder: count
        for folder, count in counts.items()
        if folder.partition("/")[2].partition("/")[0] not in EXEMPT
    }
    largest = max(rooms, key=lambda folder: rooms[folder])
    golden = [path for path in (root / "tests" / "golden").rglob("*") if path.is_file()]
    return {
        "modules": len(parsed),
        "modules at the root": counts.get(PACKAGE, 0),
        "largest folder": f"{rooms[largest]} ({largest})",
        "layers of the contracts": layers(root),
        "longest chain of imports": longest_chain(graph),
        "modules in cycles": len(cycles(graph)),
        "parameters that are tuples": len(tuples(parsed)),
        "functions of more than 5 parameters": len(wide(parsed)),
        "lines that name a probe": len(probe_words(parsed)),
        "golden files": len(golden),
        "lines of the package": sum(
            len(path.read_text().splitlines()) for path in modules(root).values()
        ),
    }


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkout", type=Path, nargs="?", default=Path())
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--list", choices=["tuples", "wide", "probes"], help="name the places")
    options = parser.parse_args()
    root = options.checkout.resolve()
    if options.list:
        listing = {"tuples": tuples, "wide": wide, "probes": probe_words}[options.list]
        print("\n".join(listing(trees(root))))
        return
    figures = measure(root)
    if options.json:
        print(json.dumps(figures))
        return
    for name, figure in figures.items():
        print(f"{name:38} {figure}")


if __name__ == "__main__":
    main()
