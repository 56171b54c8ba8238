import signal

import pytest


def pytest_configure() -> None:
    # In the background of a script (nohup, a batch job) signals may arrive as ignored, and what a
    # test starts would ignore them too.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="Write the golden files anew.",
    )
