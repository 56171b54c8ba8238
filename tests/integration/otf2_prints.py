"""An archive of `bench trace` as Debian's `otf2-print` says it."""

import re
import subprocess
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

_SEEN = re.compile(r'^(?:ENTER|LEAVE) .*Region: "seen: .*\n', re.MULTILINE)


def printed(archive: Path, *options: str) -> str:
    """Return what the reader prints."""
    words = ["otf2-print", *options, str(archive)]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


def without_looks(text: str) -> str:
    """Return what was traced, without what was seen of processes."""
    return _SEEN.sub("", text)


def require_watched(text: str, side: Mapping[str, Any]) -> None:
    """Hold metrics to the processes of a trace: each has its figures at its last look."""
    values = re.findall(r'^METRIC .*\("([^"]+)" <\d+>; \w+; ([0-9.]+)\)', text, re.MULTILINE)
    by_name: dict[str, Counter[float]] = {}
    for name, value in values:
        by_name.setdefault(name, Counter())[float(value)] += 1
    processes = side["watch"]["processes"]
    peaks = [of["peak_bytes"] for of in processes if of["peak_bytes"] is not None]
    assert by_name["peak memory"] == Counter(map(float, peaks))
    children = sorted(by_name["processor time, ended children"].elements())
    assert children == pytest.approx(sorted(of["children_s"] for of in processes), abs=1e-5)
    # Looks that read figures, beside the last ones.
    assert by_name["processor time, user"].total() > len(processes)
    read = by_name["bytes read"]
    assert all(read[of["read_bytes"]] for of in processes if of["read_bytes"] is not None)
    assert _SEEN.search(text)
