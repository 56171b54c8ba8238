#!/usr/bin/env python3
"""Measure the house: rooms, imports, signatures, names, golden files.

Reads files alone; it imports nothing of the package, so that any version can be measured.
"""

import argparse
import ast
import json
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from pathlib import Path

PACKAGE = "dlcontainer"
# Copied into images as one folder; one file a command; one file a format.
EXEMPT = ("probe", "cli", "formats")
PROBES = frozenset({"import", "train"})
MANY = 5  # parameters
# Words that stand for whatever was at hand: the thing's own name is better.
_FILLERS = """
    found own one said there wanted told given seen around beside known made asked held left each
    both other others here way ways
"""
FILLERS = frozenset(_FILLERS.split())
GENERIC = frozenset({"item", "value", "data", "entry", "result"})
# What was done to a thing is no name of it. Regular ones end in -ed; these nouns do too.
_IRREGULAR = """
    Begun Bought Brought Built Chosen Done Drawn Driven Found Given Gone Held Hidden Kept Known Laid
    Left Lent Lost Made Met Paid Ran Said Seen Sent Shown Spent Sought Taken Thrown Told Understood
    Written
"""
IRREGULAR = frozenset(_IRREGULAR.split())
NOUNS = frozenset({"Seed", "Speed", "Need", "Feed", "Bed"})


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
    """Yield every function with its module."""
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


def classes(parsed: Mapping[str, ast.Module]) -> Iterator[tuple[str, str]]:
    """Yield every class, nested ones too: its own name, and where it stands."""
    for module, tree in parsed.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                yield node.name, f"{module}:{node.lineno}"


def homonyms(parsed: Mapping[str, ast.Module]) -> list[str]:
    """List the names that several classes bear, with the places."""
    places: dict[str, list[str]] = {}
    for name, place in classes(parsed):
        places.setdefault(name, []).append(place)
    return [f"{name}: {', '.join(p)}" for name, p in sorted(places.items()) if len(p) > 1]


def participles(parsed: Mapping[str, ast.Module]) -> list[str]:
    """List the classes whose last word is a participle: Found, Told, JobEnded."""
    return [f"{place} {name}" for name, place in classes(parsed) if _is_participle(name)]


def _is_participle(name: str) -> bool:
    words = re.findall(r"[A-Z][a-z]+", name)
    last = words[-1] if words else ""
    return last not in NOUNS and (last.endswith("ed") or last in IRREGULAR)


def bindings(parsed: Mapping[str, ast.Module]) -> Iterator[tuple[str, str]]:
    """Yield every name that is bound, parameters too: the name, and where it stands."""
    for module, tree in parsed.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                yield node.id, f"{module}:{node.lineno}"
            elif isinstance(node, ast.arg) and node.arg not in {"self", "cls"}:
                yield node.arg, f"{module}:{node.lineno}"
            elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
                yield node.name, f"{module}:{node.lineno}"


def bound_to(words: frozenset[str], parsed: Mapping[str, ast.Module]) -> list[str]:
    """List the bindings of some words, with their places."""
    return [f"{place} {name}" for name, place in bindings(parsed) if name in words]


def share(words: frozenset[str], parsed: Mapping[str, ast.Module]) -> float:
    """Return the share of all bindings that these words have, percent."""
    names = [name for name, _ in bindings(parsed)]
    return round(100 * sum(name in words for name in names) / max(1, len(names)), 2)


def giving(parsed: Mapping[str, ast.Module]) -> list[str]:
    """List the functions whose docstring begins with Give: they return, or yield."""
    return [
        f"{module}.{function.name}"
        for module, function in functions(parsed)
        if (ast.get_docstring(function) or "").startswith("Give ")
    ]


def twins(parsed: Mapping[str, ast.Module]) -> list[str]:
    """List the names that more than two modules bear; those of `cli/` are the commands' own."""
    counts = Counter(name.rpartition(".")[2] for name in parsed if ".cli." not in name)
    return [f"{name}: {count}" for name, count in sorted(counts.items()) if count > 2]


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
        "names borne by several classes": len(homonyms(parsed)),
        "names borne by more than two modules": len(twins(parsed)),
        "classes that are participles": len(participles(parsed)),
        "bindings that are fillers, %": share(FILLERS, parsed),
        "bindings that are generic, %": share(GENERIC, parsed),
        "docstrings that begin with Give": len(giving(parsed)),
        "golden files": len(golden),
        "lines of the package": sum(
            len(path.read_text().splitlines()) for path in modules(root).values()
        ),
    }


LISTS: dict[str, Callable[[Mapping[str, ast.Module]], list[str]]] = {
    "tuples": tuples,
    "wide": wide,
    "probes": probe_words,
    "homonyms": homonyms,
    "modules": twins,
    "participles": participles,
    "fillers": partial(bound_to, FILLERS),
    "generic": partial(bound_to, GENERIC),
    "give": giving,
}


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkout", type=Path, nargs="?", default=Path())
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--list", choices=list(LISTS), help="name the places")
    options = parser.parse_args()
    root = options.checkout.resolve()
    if options.list:
        print("\n".join(LISTS[options.list](trees(root))))
        return
    figures = measure(root)
    if options.json:
        print(json.dumps(figures))
        return
    for name, figure in figures.items():
        print(f"{name:38} {figure}")


if __name__ == "__main__":
    main()
