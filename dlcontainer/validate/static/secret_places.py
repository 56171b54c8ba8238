"""Where an image may have a password or token: files that are one, settings with addresses."""

import re
from collections.abc import Iterator

from dlcontainer.packages import credentials

# A settings file; larger ones are no settings.
MOST_BYTES = 1024 * 1024
_LONGEST_ADDRESS = 2000
# By the names that ssh, curl, git, AWS and Hugging Face give them.
_PRIVATE = re.compile(
    r"(?:.*/(?:\.ssh/id_(?:rsa|dsa|ecdsa|ed25519)|[._]netrc|\.git-credentials|\.aws/credentials"
    r"|(?:\.cache/)?\.?huggingface/token)|/etc/ssh/ssh_host_\w+_key)",
    re.DOTALL,
)
# Settings of package managers, of git and of shells; what built the image.
_SETTINGS = re.compile(
    r"(?:.*/(?:pip\.conf|\.?condarc|uv\.toml|\.npmrc|\.gitconfig|\.git/config|\.bash_history"
    r"|\.bashrc|\.profile)|/etc/apt/.*\.(?:list|sources|conf)|/etc/(?:yum\.|zypp/)repos\.d/.*\.repo"
    r"|/etc/environment|/\.singularity\.d/(?:Singularity|runscript|startscript))",
    re.DOTALL,
)
_END = re.compile(r"[\s'\"<>]")
# Filled in when it is used: no secret stands there.
_TEMPLATE = re.compile(r"\$[{(A-Za-z_]|\{\{")


def is_private(path: str) -> bool:
    """Return whether a file is a credential, by its name."""
    return _PRIVATE.fullmatch(path) is not None


def is_settings(path: str) -> bool:
    """Return whether a file may have addresses with a password."""
    return _SETTINGS.fullmatch(path) is not None


def has_secret_address(text: str) -> bool:
    """Return whether an address in a text has a password or token."""
    return any(credentials.shown(address) != address for address in _addresses(text))


def _addresses(text: str) -> Iterator[str]:
    """Yield addresses; each is cut out before, since a search for schemes in any text is slow."""
    for rest in text.split("://")[1:]:
        address = _END.split(rest[:_LONGEST_ADDRESS], maxsplit=1)[0]
        if not _TEMPLATE.search(address):
            yield f"https://{address}"
