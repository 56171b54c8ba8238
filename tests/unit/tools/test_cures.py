"""Failed commands of the set-up: what to do is read from their last lines."""

import pytest

from dlcontainer.engine_setup.commands import cure
from dlcontainer.errors import EngineError
from tools import setup_venv


@pytest.mark.parametrize(
    ("said", "step"),
    [
        ("OSError: [Errno 28] No space left on device", "the disk is full"),
        ("E: Write error - write (28: No space left on device)", "the disk is full"),
        ("dpkg-deb: error: failed to write (Disk quota exceeded)", "the disk is full"),
        ("mkdir: cannot create directory 'x': Read-only file system", "not writable"),
        (
            "ProxyError('Tunnel connection failed: 407 Proxy Authentication Required')",
            "HTTPS_PROXY",
        ),
        ("E: Failed to fetch x  407  Proxy Authentication Required", "name and a password"),
        ("ProxyError('Cannot connect to proxy.', NewConnectionError('x'))", "does not answer"),
        ("PermissionError: [Errno 13] Permission denied: '/x/.venv'", "not writable for you"),
        ("SSLError: CERTIFICATE_VERIFY_FAILED", "certificate authority"),
        ("Certificate verification failed: The certificate is NOT trusted", "SSL_CERT_FILE"),
        ("Temporary failure resolving 'a.example'", "PIP_INDEX_URL"),
        ("Could not connect to a.example:80 (192.0.2.1), connection timed out", "a mirror"),
        ("ERROR: No matching distribution found for hatchling<2,>=1.27", "PIP_INDEX_URL"),
    ],
)
def test_a_failure_names_what_to_do(said: str, step: str) -> None:
    assert step in str(cure(f"Reading package lists...\n{said}\n"))


def test_of_what_is_not_known_nothing_is_said() -> None:
    assert cure("E: Unable to locate package x") is None


@pytest.mark.parametrize(("known", "wanted"), [("free some", "free some"), (None, "HTTPS_PROXY")])
def test_pips_own_advice_is_for_what_is_not_known(
    monkeypatch: pytest.MonkeyPatch, known: str | None, wanted: str
) -> None:
    def stream(*rest: object, **options: object) -> None:
        raise EngineError("failed (1): pip", why="...", next_step=known)

    monkeypatch.setattr(setup_venv, "stream", stream)
    with pytest.raises(EngineError) as caught:
        setup_venv.install_project(setup_venv.PROJECT, setup_venv.PROJECT / "none", "")
    assert wanted in str(caught.value.next_step)
