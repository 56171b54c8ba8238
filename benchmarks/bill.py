#!/usr/bin/env python3
"""What bills of materials tell: of how many components a hash, a licence, and whom they need.

Counts, no times: the same bill gives the same figures. Of a root tree's tar it makes the bill.
"""

import argparse
import json
import os
import sys
from collections import Counter
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
# Not this folder: its statistics.py is not Python's.
sys.path[:] = [str(HERE.parent), *(entry for entry in sys.path if Path(entry).resolve() != HERE)]

from dlcontainer.image import bill_file, contents, sbom
from dlcontainer.image.contents.rpm import RpmReader
from dlcontainer.image.contents.tar_tree import TarTree
from dlcontainer.system.process import ProcessRunner

PROPERTY = "org.dlcontainer."


def main() -> None:
    """Print the counts of each bill as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bills", type=Path, nargs="+", metavar="IMAGE_BILL_OR_TAR")
    for path in parser.parse_args().bills:
        text = _bill(path)
        if text is None:
            parser.exit(1, f"{path}: no bill of materials in it or beside it\n")
        print(json.dumps({"file": path.name, **counted(json.loads(text))}))


def _bill(path: Path) -> str | bytes | None:
    match path.suffix:
        case ".json":
            return path.read_bytes()
        case ".tar":
            reader = RpmReader(runner=ProcessRunner(environ=os.environ), environ=os.environ)
            subject = sbom.BillSubject(name=path.stem, version="0", digest="", arch="x86_64")
            return sbom.render(subject, contents.take(TarTree(path=path), reader))
        case _:
            return bill_file.of_image(path)


def counted(bill: dict[str, Any]) -> dict[str, object]:
    """Count a bill's components by what is told of them; edges are needs between components."""
    components, (_, *graph) = bill["components"], bill["dependencies"]
    hashed = [component for component in components if "hashes" in component]
    licensed = [component for component in components if "licenses" in component]
    return {
        "components": len(components),
        "hashes": len(hashed),
        "hashes_of_packages_files": sum(_is_of_a_file(component) for component in hashed),
        "licences": len(licensed),
        "licences_by": dict(sorted(Counter(map(_form, licensed)).items())),
        "needs_known": len(graph),
        "edges": sum(len(node["dependsOn"]) for node in graph),
        "not_free": dict(sorted(Counter(filter(None, map(_verdict, components))).items())),
    }


def _properties(component: dict[str, Any]) -> dict[str, str]:
    return {entry["name"]: entry["value"] for entry in component.get("properties", ())}


def _is_of_a_file(component: dict[str, Any]) -> bool:
    """Return whether a hash is of the package's file, not of its list of installed files."""
    return not _properties(component).get(f"{PROPERTY}sha256-of", "").startswith("/")


def _verdict(component: dict[str, Any]) -> str:
    verdict = _properties(component).get(f"{PROPERTY}redistribution", "")
    return "" if verdict == "free" else verdict


def _form(component: dict[str, Any]) -> str:
    first = component["licenses"][0]
    if "expression" in first:
        return "expression"
    return "identifier" if "id" in first["license"] else "names alone"


if __name__ == "__main__":
    main()
