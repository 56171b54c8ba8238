"""SHA256SUMS of a published version: what `sha256sum -c` reads, and only names that can be ours."""

import re
from collections.abc import Mapping

FILE = "SHA256SUMS"
# In its own folder, in bin/, job/, launch/ or evidence/, never hidden.
_LINE = re.compile(
    r"([0-9a-f]{64})  ((?:bin/|job/|launch/|evidence/)?[0-9A-Za-z][0-9A-Za-z._+-]{0,199})"
)


def text(sums: Mapping[str, str]) -> bytes:
    """Write checksums by name, as `sha256sum` does."""
    return "".join(f"{sha256}  {name}\n" for name, sha256 in sorted(sums.items())).encode()


def read(data: bytes) -> dict[str, str]:
    """Read checksums by name; raises ValueError with the line that is none."""
    sums: dict[str, str] = {}
    *lines, last = data.decode("ascii", "replace").split("\n")
    for number, line in enumerate(lines, start=1):
        match = _LINE.fullmatch(line)
        if match is None or match[2] in sums:
            raise ValueError(f"line {number} is not a checksum with a unique name")
        sums[match[2]] = match[1]
    if last:
        raise ValueError("its last line is truncated")
    return sums
