import signal

import pytest


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
