"""`scan` and its gate on a real image, and Debian's order against the real dpkg."""

import json
import shutil
import subprocess
from collections.abc import Mapping
from datetime import UTC, datetime
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

from dlcontainer.vulnerabilities import bill_packages, orders
from tests.integration.world import Built, World, missing
from tests.unit.vulnerabilities.cases import affected, record
from tests.unit.vulnerabilities.test_ranges import DEBIAN


def put(folder: Path, *records: Mapping[str, Any]) -> Path:
    """Write a database of today: commands have no other clock."""
    folder.mkdir(exist_ok=True)
    for body in records:
        now = {"modified": datetime.now(UTC).isoformat()}
        (folder / f"{body['id']}.json").write_text(json.dumps({**body, **now}))
    return folder


def ecosystems(image: Built) -> list[str]:
    packages = bill_packages.read(image.sbom.read_bytes()).packages
    return sorted({package.ecosystem for package in packages})


def cover(image: Built) -> dict[str, Any]:
    """Give a record for each ecosystem of an image that means no package of it."""
    parts = [affected(name, "not-there", {"introduced": "0"}) for name in ecosystems(image)]
    return record("MADE-cover", *parts)


def test_a_real_image(tiny_image: Built, world: World, tmp_path: Path) -> None:
    database = put(tmp_path / "osv", cover(tiny_image))
    words = ("scan", tiny_image.image, "--database", database)
    assert "clean: " in world.run(*words).stdout
    (system,) = [name for name in ecosystems(tiny_image) if name != "PyPI"]
    put(
        database,
        record("MADE-1", affected(system, "glibc", {"introduced": "0"})),
        record("MADE-2", affected("PyPI", "DLCtiny", {"introduced": "0"}, {"fixed": "99"})),
    )
    body = json.loads(world.run(*words, "--json", code=1).stdout)
    by_id = {finding["ids"][0]: finding for finding in body["findings"]}
    assert "libc6" in by_id["MADE-1"]["binaries"]
    assert (by_id["MADE-2"]["package"], by_id["MADE-2"]["fixed"]) == ("dlctiny", ["99"])


def test_a_bill_that_lies(as_built: Built, world: World, tmp_path: Path) -> None:
    database = put(tmp_path / "osv", cover(as_built))
    bill = json.loads(as_built.sbom.read_text())
    bill["components"] = [one for one in bill["components"] if one["name"] != "libc6"]
    as_built.sbom.write_text(json.dumps(bill))
    shown = world.run("scan", as_built.image, "--database", database, code=1)
    assert "not checked  the bill: not in the bill: pkg:deb/" in shown.stdout
    # Without the one beside it, the bill inside counts.
    as_built.sbom.unlink()
    assert "clean: " in world.run("scan", as_built.image, "--database", database).stdout


def test_publish_asks(as_built: Built, world: World, tmp_path: Path) -> None:
    database = put(tmp_path / "osv", cover(as_built))
    site = tmp_path / "lab.yaml"
    rules = f"vulnerabilities: {{database: {database}, gate: publish}}"
    site.write_text(
        "schema: 1\nname: local\nsummary: for tests\nfacts: host\ndefault_recipe: tiny\n" + rules
    )
    words = ("publish", as_built.image, "--site", site, "--root", tmp_path / "root")
    put(database, record("MADE-1", affected("PyPI", "dlctiny", {"introduced": "0"})))
    shown = world.run(*words, code=6)
    assert "is not published: 1 known vulnerability that no entry allows: MADE-1" in shown.stderr
    assert not (tmp_path / "root/current").exists()
    (database / "MADE-1.json").unlink()
    assert "module load tiny/1.0" in world.run(*words).stdout
    shown = world.run("modules", "find", "dlctiny", "--root", tmp_path / "root")
    assert "in 1 of 1 releases" in shown.stdout


def test_debian_s_order_is_dpkg_s() -> None:
    dpkg = shutil.which("dpkg")
    if dpkg is None:
        missing("dpkg")
    listed = subprocess.run(
        ["dpkg-query", "-W", "-f", "${Version}\n"], capture_output=True, text=True, check=True
    ).stdout.split()
    key = orders.of("Debian").key
    # Neighbours are the hard ones: installed versions in their own order, and those of deb-version.
    versions = sorted(set(listed), key=key)
    pairs = [*pairwise(versions), *combinations(DEBIAN, 2)]
    wrong = []
    for before, after in pairs:
        relation = "eq" if key(before) == key(after) else "lt"
        done = subprocess.run([dpkg, "--compare-versions", before, relation, after], check=False)
        wrong += [(before, relation, after)] if done.returncode else []
    assert len(pairs) > 150
    assert wrong == []
