import signal
from pathlib import Path

import pytest

_TESTS = Path(__file__).parent


def pytest_configure() -> None:
    """Settle what holds for all tests."""
    from hypothesis import HealthCheck, settings

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


# Before xdist reads the marks.
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep on one worker what shares a daemon, a cluster or a built image.

    That is a folder of integration tests, and elsewhere a file.
    """
    for item in items:
        kind, name, *more = item.path.relative_to(_TESTS).parts
        group = f"{kind}/{name}" if kind == "integration" and more else str(item.path)
        item.add_marker(pytest.mark.xdist_group(group))
