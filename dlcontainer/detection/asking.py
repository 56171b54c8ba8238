"""How a node is asked: by a program that stands alone, started here or inside a job's script."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from dlcontainer.detection import evidence
from dlcontainer.detection.evidence import NodeEvidence
from dlcontainer.errors import ChecksFailedError
from dlcontainer.system.process import CommandTimeoutError, Runner

COLLECT = Path(__file__).resolve().with_name("collect.py")
# Its programs end within ALL_COMMANDS_S; a file of a dead server may hold it up.
_LIMIT_S = 180.0
_END = "DLC_COLLECT_ENDS_HERE"
_PROXIES = ("http_proxy", "https_proxy", "ftp_proxy", "all_proxy", "no_proxy")
_SCRIPT = """\
#!/bin/sh
{lines}# Written by `dlcontainer site detect --job`: this node says what it is. It changes nothing.
dlc_python=
for dlc_name in python3 /usr/libexec/platform-python; do
    if command -v "$dlc_name" >/dev/null 2>&1; then
        dlc_python=$dlc_name
        break
    fi
done
if [ -z "$dlc_python" ]; then
    echo "no python3 on $(uname -n)"
    exit 1
fi
exec "$dlc_python" -I - <<'{end}'
{program}{end}
"""


def here(runner: Runner, environ: Mapping[str, str]) -> NodeEvidence:
    """Ask this node; raises ChecksFailedError where it says nothing."""
    try:
        completed = runner([sys.executable, "-I", str(COLLECT)], timeout=_LIMIT_S, check=False)
    except CommandTimeoutError as error:
        raise ChecksFailedError(
            "this node did not answer",
            why=f"{error}: a file system of it may not answer",
            next_step="find a mount that hangs: stat each of `df -l`, then try again",
        ) from None
    collected = evidence.read(completed.stdout + completed.stderr, "this node")
    # What starts programs hands down no address with a password: the names come from here.
    proxies = (name for name in environ if name.lower() in _PROXIES)
    return replace(collected, proxies=tuple(sorted(proxies)))


def script(lines: Sequence[str]) -> str:
    """Return the script of a job that asks its node: it needs nothing but a Python there.

    `lines` are those of its head, a line of text each.
    """
    program = COLLECT.read_text(encoding="utf-8")
    if _END in program or any("\n" in line for line in lines):
        raise ValueError("a line of the script would end it early")
    return _SCRIPT.format(lines="".join(f"{line}\n" for line in lines), end=_END, program=program)
