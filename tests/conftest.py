import os
import signal
from typing import Any

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Settle what holds for all tests."""
    from hypothesis import HealthCheck, settings

    from tests import leftovers

    if not hasattr(config, "workerinput"):  # a worker's folders are its controller's
        leftovers.unmount(os.environ, config.option.basetemp)
    # How long an example takes says how busy the machine is: a test is no stopwatch.
    settings.register_profile(
        "dlcontainer", deadline=None, suppress_health_check=[HealthCheck.too_slow]
    )
    settings.load_profile("dlcontainer")
    # In the background of a script (nohup, a batch job) signals may arrive as ignored, and what a
    # test starts would ignore them too.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="Write the golden files again.",
    )


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Keep on one worker what shares a daemon, a cluster or a built image.

    That is a folder of integration tests, and elsewhere a file.
    """
    from xdist.scheduler import LoadScopeScheduling

    class ByFolder(LoadScopeScheduling):  # type: ignore[misc]  # xdist is untyped
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.partition("::")[0]
            parts = file.split("/")
            return "/".join(parts[:3]) if parts[1] == "integration" else file

    return ByFolder(config, log)
