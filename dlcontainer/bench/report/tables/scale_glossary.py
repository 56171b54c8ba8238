"""What the words of a matrix's cells mean, for who was not there."""

from collections.abc import Mapping

from dlcontainer.bench.report.table import Table
from dlcontainer.bench.scale.cells import MOUNT_WORDS
from dlcontainer.bench.scale.matrix_records import MatrixSession

_WORDS: Mapping[str, Mapping[str, str]] = {
    "where": {
        "shared": "the bytes lie on the file system that nodes share",
        "local": "the bytes were copied to this node's disk (TMPDIR) before",
        "tmpfs": "the bytes were copied to this node's memory (/dev/shm) before",
    },
    "open": {
        "files": "a tree of single files; an image's is unpacked before, and the engine runs it",
        "engine": "the image, as the container engine opens it",
        "kernel": "one SquashFS, mounted by the kernel before the ranks start",
        "squashfuse": "one SquashFS, mounted by squashfuse before the ranks start",
        "squashfuse_ll": "one SquashFS, mounted by squashfuse_ll before the ranks start",
    },
    "mount": {
        "rank": "each rank mounts the image for itself",
        "node": "all ranks of a node share one; making it is in the time",
        "kept": "all ranks of a node share one that was made before the launch",
    },
    "state": {
        "cold": "not in this node's memory before the launch",
        "warm": "read before the launch, by one rank",
    },
    "start": {
        "storm": "ranks wait for each other and import at once",
        "natural": "each rank imports as soon as it is there",
    },
}
_LAYERED = "the bytes lie behind the stand-in for a slow file system that nodes share"


def table(scale: MatrixSession) -> Table:
    """Explain the subjects and the words that occur in cells."""
    declared = scale.header.declared
    rows = [
        (name, _subject(declared.subjects[name]))
        for name in dict.fromkeys(cell.subject for cell in scale.cells)
        if name in declared.subjects
    ]
    for factor, words in _WORDS.items():
        used = {getattr(cell, factor) for cell in scale.cells}
        rows += [
            (MOUNT_WORDS[name] if factor == "mount" else name, meaning)
            for name, meaning in words.items()
            if name in used
        ]
    meanings = dict(rows)
    if declared.matrix.get("stand_in") is not None and "shared" in meanings:
        meanings["shared"] = _LAYERED
    return Table(name="The words", head=("word", "meaning"), rows=tuple(meanings.items()))


def _subject(body: Mapping[str, object]) -> str:
    if "image" in body:
        return f"the image {body['image']}, sha256 {str(body.get('sha256'))[:12]}"
    return f"the Python folder {body.get('prefix')} of the host ({body.get('why')})"
