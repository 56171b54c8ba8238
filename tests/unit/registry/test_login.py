"""Logins: from a private file alone, and never repeated."""

import base64
import json
from pathlib import Path

import pytest

from dlcontainer.errors import ConfigError
from dlcontainer.registry import login

WORD = "canary-4711"


def file(tmp_path: Path, text: str, mode: int = 0o600) -> Path:
    path = tmp_path / "login"
    path.write_text(text)
    path.chmod(mode)
    return path


def test_a_line_and_a_file_of_docker(tmp_path: Path) -> None:
    found = login.read(file(tmp_path, f"me:{WORD}:x\n"), "host")
    assert (found.user, found.password) == ("me", f"{WORD}:x")
    assert WORD not in repr(found)
    auth = base64.b64encode(f"me:{WORD}".encode()).decode()
    text = json.dumps({"auths": {"https://host:5000": {"auth": auth}}})
    assert login.read(file(tmp_path, text), "host:5000").password == WORD


@pytest.mark.parametrize(
    ("text", "mode", "why"),
    [
        (f"me:{WORD}", 0o640, "other users can read or change the login file"),
        (WORD, 0o600, "not one line USER:PASSWORD"),
        (f"me:{WORD}\nmore", 0o600, "not one line USER:PASSWORD"),
        ("", 0o600, "not one line USER:PASSWORD"),
        (json.dumps({"auths": {"else": {"auth": WORD}}}), 0o600, "has no 'auth' for host"),
        (json.dumps({"auths": [WORD]}), 0o600, "can't be read"),
        (json.dumps({"auths": {"host": {"auth": "%%%"}}}), 0o600, "can't be read"),
    ],
)
def test_what_is_refused_says_no_secret(tmp_path: Path, text: str, mode: int, why: str) -> None:
    with pytest.raises(ConfigError) as caught:
        login.read(file(tmp_path, text, mode), "host")
    assert why in str(caught.value)
    assert WORD not in str(caught.value)
