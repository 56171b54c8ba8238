"""Which library and kernel ran: what oneDNN, oneMKL and PyTorch say of one call. Python >= 3.6.

oneDNN and oneMKL print a line a call where they are told to be verbose; what they print is taken
from file descriptor 1, as they write it, and read by the marks between. PyTorch's profiler names the
operations that it ran: where no library says a word, they are the kernel.
"""

import ctypes
import os
import re
import sys
import tempfile

MARK = "dlc-row "
# They make or view a tensor, and compute nothing.
_TRIVIAL = frozenset(
    "aten::" + name
    for name in ("_nnpack_available", "_reshape_alias", "as_strided", "as_strided_", "contiguous",
                 "detach", "empty", "empty_like", "empty_strided", "expand", "fill_", "new_empty",
                 "permute", "reshape", "resize_", "resolve_conj", "resolve_neg", "select", "slice", "t",
                 "transpose", "unsqueeze", "view", "zero_", "zeros")
)  # fmt: skip
_MKL = re.compile(r"MKL_VERBOSE ([A-Z][A-Z0-9_]*)\(")


class Captured(object):
    """What this process writes to its file descriptor 1, C libraries included, while it lasts."""

    def __enter__(self):
        self._libc = ctypes.CDLL(None)
        self._flush()
        self._kept, self._file = os.dup(1), tempfile.TemporaryFile()
        os.dup2(self._file.fileno(), 1)
        return self

    def __exit__(self, *_problem):
        self._flush()
        os.dup2(self._kept, 1)
        os.close(self._kept)
        self._file.seek(0)
        self.text = self._file.read().decode("utf-8", "replace")
        self._file.close()

    def _flush(self):
        sys.stdout.flush()
        self._libc.fflush(None)

    def mark(self, number):
        """Say where the next row begins."""
        self._flush()
        os.write(1, "{}{}\n".format(MARK, number).encode())


def parts(text):
    """Give the text between marks, by the numbers of these."""
    found, own = {}, None
    for line in text.splitlines():
        if line.startswith(MARK):
            own = found.setdefault(int(line[len(MARK) :]), [])
        elif own is not None:
            own.append(line)
    return {number: "\n".join(lines) for number, lines in found.items()}


def libraries(text):
    """Name the libraries that printed a line, with their kernels, in the order of the first call."""
    names = []
    for line in text.splitlines():
        name = _onednn(line) or _onemkl(line)
        if name and name not in names:
            names.append(name)
    return names


def _onednn(line):
    # onednn_verbose,v1,primitive,exec,cpu,convolution,jit:avx512_core,...; before 3.3 without v1
    # and primitive; dnnl_verbose before 2.6.
    words = line.split(",")
    if words[0] not in ("onednn_verbose", "dnnl_verbose", "mkldnn_verbose") or "exec" not in words:
        return None
    at = words.index("exec")
    if len(words) < at + 4:
        return None
    kernel, implementation = words[at + 2 : at + 4]
    # Which of the copies into another layout ran says nothing of the kernel.
    return "oneDNN " + (kernel if kernel == "reorder" else "{} {}".format(kernel, implementation).strip())


def _onemkl(line):
    match = _MKL.match(line)
    return match and "oneMKL " + match.group(1)


def operations(events):
    """Name the operations of PyTorch that computed: the innermost of each chain of calls.

    An event has a name and its children; those that are no operation are passed through.
    """
    names = []
    for event in events:
        for name in _innermost(event):
            if name not in names:
                names.append(name)
    return names


def _innermost(event):
    found = [name for child in event.cpu_children for name in _innermost(child)]
    is_own = event.name.startswith("aten::") and event.name not in _TRIVIAL
    return found or ([event.name] if is_own else [])


def said(names, innermost):
    """Say it on one line."""
    return "; ".join([", ".join(part) for part in (names, innermost) if part]) or "not known"
