"""Who we are to a registry: from a file of the user's own that nobody else may read.

One line USER:PASSWORD, or the file that `docker login` and `apptainer registry login` write. No
file is looked for: what is used is what was named.
"""

import base64
import binascii
import os
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dlcontainer.errors import ConfigError
from dlcontainer.system import foreign_files

_MOST_BYTES = 1_000_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Login:
    """A name and a password; neither is ever shown."""

    user: str = field(repr=False)
    password: str = field(repr=False)

    @property
    def basic(self) -> str:
        """Return the header's value."""
        credentials = f"{self.user}:{self.password}".encode()
        return f"Basic {base64.b64encode(credentials).decode()}"


def read(path: Path, address: str) -> Login:
    """Read the login for a registry's HOST or HOST:PORT; raises ConfigError.

    No message repeats any of the file.
    """
    try:
        with foreign_files.opened(path) as file:
            info = os.fstat(file.fileno())
            if info.st_uid not in (0, os.geteuid()) or stat.S_IMODE(info.st_mode) & 0o077:
                raise ConfigError(
                    f"other users can read or change the login file {path}",
                    why=f"its mode is {stat.S_IMODE(info.st_mode):04o}",
                    next_step=f"chmod 600 {path}, and change the password",
                )
            text = foreign_files.content(file, _MOST_BYTES).decode()
    except OSError as error:
        raise ConfigError(
            f"can't read the login file {path}: {error.strerror}",
            next_step="write USER:PASSWORD into a file of mode 0600",
        ) from None
    except UnicodeDecodeError:
        raise _unfit(path, "it is not UTF-8") from None
    return _of_config(text, path, address) if text.lstrip().startswith("{") else _of(text, path)


def _of(text: str, path: Path) -> Login:
    lines = text.splitlines()
    user, colon, password = lines[0].partition(":") if len(lines) == 1 else ("", "", "")
    if not (user and colon and password and text.strip().isprintable()):
        raise _unfit(path, "it is not one line USER:PASSWORD")
    return Login(user=user, password=password)


def _of_config(text: str, path: Path, address: str) -> Login:
    try:
        body: Any = foreign_files.loads(text)
        auths = body.get("auths") or {}
        entry = auths.get(address) or auths.get(f"https://{address}") or {}
        decoded = base64.b64decode(str(entry.get("auth", "")), validate=True).decode()
    except (ValueError, AttributeError, binascii.Error):
        raise _unfit(path, "its 'auths' can't be read") from None
    if not decoded:
        why = f"it has no 'auth' for {address}; credential helpers are not asked"
        raise _unfit(path, why)
    return _of(decoded, path)


def _unfit(path: Path, why: str) -> ConfigError:
    return ConfigError(
        f"{path} contains no login",
        why=why,
        next_step="write USER:PASSWORD into a file of mode 0600, or: "
        "apptainer registry login --username USER oras://HOST",
    )
