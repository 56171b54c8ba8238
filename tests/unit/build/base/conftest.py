from pathlib import Path

import pytest

from dlcontainer.planning.plan import Plan
from dlcontainer.system.machine import HostMachine
from tests.values import folder_of, host, plan_of


@pytest.fixture
def tools(tmp_path: Path) -> HostMachine:
    folder = tmp_path / "it's bin"
    folder.mkdir()
    for name in ("mmdebstrap", "mksquashfs"):
        (folder / name).write_text("#!/bin/sh\n")
        (folder / name).chmod(0o755)
    return host(environ={"PATH": str(folder), "HOME": "/home/ada", "LD_PRELOAD": "/evil.so"})


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    return plan_of(folder_of(tmp_path))
