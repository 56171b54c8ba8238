"""Licences by their SPDX names: what packages write, and what it means without a doubt.

Sources: spdx.org/licenses; SPDX 2.3, annex D (expressions); Debian's copyright-format 1.0, section
7.1 (short names); PEP 639, "Mapping License Classifiers to SPDX Identifiers". Read 2026-11-27. A
name that may mean several licences (GPL, Artistic, BSD, "Apache Software License") is no key here.
"""

import re
from collections.abc import Sequence

# Identifiers that are taken as such, however their letters are written.
IDS = {
    name.lower(): name
    for name in (
        "0BSD", "AFL-2.1", "AFL-3.0", "AGPL-3.0-only", "AGPL-3.0-or-later", "Apache-1.1",
        "Apache-2.0", "Artistic-2.0", "BSD-2-Clause", "BSD-3-Clause", "BSD-4-Clause",
        "BSD-4-Clause-UC", "BSD-3-Clause-LBNL", "BSL-1.0", "CC-BY-3.0", "CC-BY-4.0",
        "CC-BY-SA-3.0", "CC-BY-SA-4.0", "CC0-1.0", "CNRI-Python", "curl", "EPL-1.0", "EPL-2.0",
        "FSFAP", "FSFUL", "FSFULLR", "GFDL-1.2-only", "GFDL-1.2-or-later", "GFDL-1.3-only",
        "GFDL-1.3-or-later", "GPL-1.0-only", "GPL-1.0-or-later", "GPL-2.0-only",
        "GPL-2.0-or-later", "GPL-3.0-only", "GPL-3.0-or-later", "HPND", "ICU", "ISC", "JSON",
        "LGPL-2.0-only", "LGPL-2.0-or-later", "LGPL-2.1-only", "LGPL-2.1-or-later",
        "LGPL-3.0-only", "LGPL-3.0-or-later", "libtiff", "MIT", "MIT-0", "MPL-1.1", "MPL-2.0",
        "MS-PL", "NCSA", "OFL-1.1", "OpenSSL", "PostgreSQL", "PSF-2.0", "Python-2.0",
        "Python-2.0.1", "Sleepycat", "TCL", "Unicode-3.0", "Unicode-DFS-2016", "Unlicense",
        "Vim", "W3C", "WTFPL", "X11", "Zlib", "ZPL-2.1",
    )
}  # fmt: skip
_GNU = re.compile(r"(a?gpl|lgpl|gfdl)-([123])(?:\.([0-3]))?(\+|-or-later|-only)?")
_VERSIONS = {
    "gpl": ("1.0", "2.0", "3.0"),
    "agpl": ("3.0",),
    "lgpl": ("2.0", "2.1", "3.0"),
    "gfdl": ("1.2", "1.3"),
}
# Debian's short names. "GFDL-NIV" (no invariant sections) is its own; MIT there is "many licences".
_DEBIAN = {
    "expat": "MIT",
    "apache-2": "Apache-2.0",
    "mpl-2": "MPL-2.0",
    "bsl-1": "BSL-1.0",
    "artistic-2": "Artistic-2.0",
    "cc0": "CC0-1.0",
    "gfdl-niv-1.3": "GFDL-1.3-no-invariants-only",
    "gfdl-niv-1.3+": "GFDL-1.3-no-invariants-or-later",
    "gfdl-niv-1.2": "GFDL-1.2-no-invariants-only",
    "gfdl-niv-1.2+": "GFDL-1.2-no-invariants-or-later",
}
_MANY_IN_DEBIAN = ("mit", "python-2.0")
# What people write into a field for a licence.
_WRITTEN = {
    "mit license": "MIT",
    "the mit license": "MIT",
    "the mit license (mit)": "MIT",
    "expat": "MIT",
    "apache 2": "Apache-2.0",
    "apache 2.0": "Apache-2.0",
    "apache2": "Apache-2.0",
    "apache license 2.0": "Apache-2.0",
    "apache license, version 2.0": "Apache-2.0",
    "apache license version 2.0": "Apache-2.0",
    "apache software license 2.0": "Apache-2.0",
    "bsd 2-clause": "BSD-2-Clause",
    "bsd 3-clause": "BSD-3-Clause",
    "bsd 3-clause license": "BSD-3-Clause",
    "3-clause bsd": "BSD-3-Clause",
    "3-clause bsd license": "BSD-3-Clause",
    "new bsd": "BSD-3-Clause",
    "new bsd license": "BSD-3-Clause",
    "modified bsd license": "BSD-3-Clause",
    "isc license": "ISC",
    "mpl 2.0": "MPL-2.0",
    "mozilla public license 2.0": "MPL-2.0",
    "mozilla public license 2.0 (mpl 2.0)": "MPL-2.0",
    "psf": "PSF-2.0",
    "the unlicense": "Unlicense",
    "zlib/libpng": "Zlib",
    "gplv2+": "GPL-2.0-or-later",
    "gplv3+": "GPL-3.0-or-later",
    "lgplv3+": "LGPL-3.0-or-later",
}
# Of Python's classifiers those that PEP 639 calls unambiguous, by their last part.
CLASSIFIERS = {
    "MIT License": "MIT",
    "MIT No Attribution License (MIT-0)": "MIT-0",
    "ISC License (ISCL)": "ISC",
    "Mozilla Public License 1.1 (MPL 1.1)": "MPL-1.1",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "Boost Software License 1.0 (BSL-1.0)": "BSL-1.0",
    "The Unlicense (Unlicense)": "Unlicense",
    "Python Software Foundation License": "PSF-2.0",
    "Historical Permission Notice and Disclaimer (HPND)": "HPND",
    "Zero-Clause BSD (0BSD)": "0BSD",
    "GNU General Public License v2 or later (GPLv2+)": "GPL-2.0-or-later",
    "GNU General Public License v3 or later (GPLv3+)": "GPL-3.0-or-later",
    "GNU Lesser General Public License v3 or later (LGPLv3+)": "LGPL-3.0-or-later",
    "zlib/libpng License": "Zlib",
}
_REF = "LicenseRef-"
_OPERATORS = ("AND", "OR", "WITH")
_PARTS = re.compile(r"[()]|[^\s()]+")
_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9.:-]*\+?")
_LONGEST = 2000


def identifier(name: str) -> str:
    """Return the SPDX identifier that a name has; "" for what is none, or several."""
    plain = " ".join(name.lower().split())
    old = _gnu(plain) if "." in plain else ""  # GPL-2.0+ was an identifier, GPL-2 never
    return IDS.get(plain) or old or _WRITTEN.get(plain, "")


def of_debian(name: str) -> str:
    """Return the identifier of a short name of Debian's copyright files, a LicenseRef else."""
    plain = " ".join(name.lower().split())
    spdx = _DEBIAN.get(plain) or _gnu(plain) or IDS.get(plain, "")
    if spdx and plain not in _MANY_IN_DEBIAN:
        return spdx
    word = re.sub(r"[^A-Za-z0-9.-]+", "-", name.replace("+", "-or-later")).strip("-.")
    return f"{_REF}Debian-{word}" if word else ""


def expression(text: str, *, strict: bool = False) -> str:
    """Return an SPDX expression in its usual form; "" for what is none.

    With `strict` its identifiers must be in the table here, or LicenseRefs.
    """
    words = _PARTS.findall(text) if len(text) <= _LONGEST else []
    written = [word.upper() if word.upper() in _OPERATORS else word for word in words]
    for place, word in enumerate(written):
        is_exception = place > 0 and written[place - 1] == "WITH"
        if word in ("(", ")", *_OPERATORS) or is_exception:
            continue
        spdx = identifier(word)
        if strict and not spdx and not word.startswith(_REF):
            return ""
        written[place] = spdx or word
    if not _is_well_formed(written):
        return ""
    return " ".join(written).replace("( ", "(").replace(" )", ")")


def is_open(text: str) -> bool:
    """Return whether each licence of an expression is one of the table: all of those are open."""
    words = [word for word in _PARTS.findall(text) if word not in ("(", ")", *_OPERATORS)]
    return bool(words) and all(word.lower() in IDS for word in words)


def _is_well_formed(words: Sequence[str]) -> bool:
    depth, wants_name = 0, True
    for word in words:
        depth += (word == "(") - (word == ")")
        is_name = word not in ("(", ")", *_OPERATORS)
        if (word == "(" or is_name) != wants_name or depth < 0:
            return False
        if is_name and not _WORD.fullmatch(word):
            return False
        wants_name = word == "(" or word in _OPERATORS
    return depth == 0 and not wants_name


def _gnu(name: str) -> str:
    match = _GNU.fullmatch(name)
    if match is None:
        return ""
    family, major, minor, later = match.groups()
    version = f"{major}.{minor or '0'}"
    if version not in _VERSIONS[family]:
        return ""
    return f"{family.upper()}-{version}-{'or-later' if later in ('+', '-or-later') else 'only'}"
