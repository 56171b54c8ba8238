"""Debian's copyright files: the licences that a package states.

Source: Debian's "Machine-readable debian/copyright file", version 1.0, sections 5 to 7.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from dlcontainer.image.licensing import spdx
from dlcontainer.image.licensing.package_license import PackageLicense

FOLDER = "/usr/share/doc/"
_NAME = "copyright"
_FORMAT = re.compile(r"copyright-format|dep-?5", re.IGNORECASE)
_COMMON = re.compile(r"/usr/share/common-licenses/([A-Za-z0-9][A-Za-z0-9.-]*)")
# No package comes near it.
_MOST = 200


def wanted(path: str) -> bool:
    """Return whether a file of the tree is a package's copyright file."""
    return path.startswith(FOLDER) and path.endswith(f"/{_NAME}") and path.count("/") == 5


def path_of(package: str) -> str:
    """Return where a package has its copyright file; the folder may be a link."""
    return f"{FOLDER}{package}/{_NAME}"


def license_of(file: Path, path: str) -> PackageLicense | None:
    """Return the licence that a copyright file states; None where it names none.

    A text for people names licences by their files in /usr/share/common-licenses at most, and
    never how they combine.
    """
    text = file.read_text(encoding="utf-8", errors="replace")
    paragraphs = [dict(_fields(paragraph)) for paragraph in re.split(r"\n[ \t]*\n", text)]
    head = paragraphs[0] if paragraphs else {}
    if _FORMAT.search(head.get("format", "") or head.get("format-specification", "")):
        stated = [
            fields["license"]
            for number, fields in enumerate(paragraphs)
            if "license" in fields and (number == 0 or "files" in fields)
        ]
        clauses = sorted({clause for text in stated for clause in _clauses(text)})[:_MOST]
        if clauses:
            return PackageLicense(expression=_all_of(clauses), source=path)
    names = sorted({name.rstrip(".-") for name in _COMMON.findall(text)})
    return PackageLicense(names=tuple(names), source=path, is_declared=False) if names else None


def _fields(paragraph: str) -> Iterator[tuple[str, str]]:
    """Yield the fields with their first lines: what follows a licence's name is its text."""
    for line in paragraph.splitlines():
        name, colon, value = line.partition(":")
        if colon and name and not line[0].isspace():
            yield name.strip().lower(), value.strip()


def _clauses(stated: str) -> Iterator[str]:
    """Turn "A or B, and C" into "A OR B" and "C": a comma binds less than and, or."""
    for group in re.split(r",\s*(?:and\s+)?", stated):
        alternatives = [_names(part) for part in _parts(group, "or")]
        if len(alternatives) == 1:
            yield from alternatives[0]
        elif all(alternatives):
            yield " OR ".join(sorted({" AND ".join(names) for names in alternatives}))


def _names(text: str) -> list[str]:
    return [name for part in _parts(text, "and") if (name := spdx.of_debian(part))]


def _parts(text: str, word: str) -> list[str]:
    return re.split(rf"\s+{word}\s+", text.strip(), flags=re.IGNORECASE)


def _all_of(clauses: Sequence[str]) -> str:
    if len(clauses) == 1:
        return clauses[0]
    return " AND ".join(f"({text})" if " OR " in text else text for text in clauses)
