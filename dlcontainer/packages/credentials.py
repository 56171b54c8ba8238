"""Passwords and tokens in the addresses of a build's routing, in every form that a tool writes."""

import base64
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from urllib.parse import parse_qsl, quote, unquote, urlsplit

HIDDEN = "***"
# A shorter text stands in any image by chance; a password of its own is this long.
_SHORTEST, _LONG = 6, 8

_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*://[^\s'\"<>]+")
# A path has lost one of an address's slashes, where somebody typed one for a file.
_ANY_ADDRESS = re.compile(
    r"((?:[A-Za-z][A-Za-z0-9+.-]*:/|\b(?:docker|oras|oci|https?|ftp):)/)([^\s'\"<>]+)"
)
_SECRET_NAME = re.compile(r"token|key|secret|sig|passw|auth|credential", re.IGNORECASE)
_QUERY_SECRET = re.compile(
    rf"([?&;][^=&;#]*(?:{_SECRET_NAME.pattern})[^=&;#]*=)[^&;#]+", re.IGNORECASE
)
# Of variables: names that only a secret has. What splits text into tokens is none.
SECRET_VARIABLE = re.compile(
    r"TOKEN(?!I[ZS])|SECRET|PASSW|CREDENTIAL|API_?KEY|PRIVATE", re.IGNORECASE
)
# A token of anaconda.org, and no name of a page: forums have addresses with /t/ too.
_TOKEN_SHOWN = re.compile(r"/t/[A-Za-z]{2}-[0-9A-Fa-f-]{16,}/")
# conda's way to give a token: docs.anaconda.com, "Using tokens".
_CONDA_TOKEN = re.compile(r"/t/([^/]+)/")


@dataclass(frozen=True, kw_only=True, slots=True)
class Credential:
    """A password or token; `origin` names the setting that has it, which may be told."""

    origin: str
    forms: tuple[bytes, ...]


def of(settings: Mapping[str, Iterable[str]]) -> tuple[Credential, ...]:
    """Return the credentials in some settings' addresses: the name of each setting -> its texts."""
    secrets: dict[bytes, str] = {}
    for origin, texts in settings.items():
        for text in texts:
            for address in _ADDRESS.findall(text):
                for form in _forms(address):
                    secrets.setdefault(form, origin)
    by_origin: dict[str, list[bytes]] = {}
    for form, origin in secrets.items():
        by_origin.setdefault(origin, []).append(form)
    return tuple(
        Credential(origin=origin, forms=tuple(sorted(forms))) for origin, forms in by_origin.items()
    )


def masked(text: str, credentials: Iterable[Credential]) -> str:
    """Return a text without the credentials in it."""
    data = text.encode(errors="surrogateescape")
    return hidden(data, credentials).decode(errors="surrogateescape")


def hidden(data: bytes, credentials: Iterable[Credential]) -> bytes:
    """Return bytes without the credentials in them: the longest form first, which holds others."""
    forms = {form for credential in credentials for form in credential.forms}
    for form in sorted(forms, key=len, reverse=True):
        data = data.replace(form, HIDDEN.encode())
    return data


def shown(text: str) -> str:
    """Return a text whose addresses show no password and no token, known ones or not."""
    return _ANY_ADDRESS.sub(lambda match: match[1] + _shown_rest(match[2]), text)


def _shown_rest(rest: str) -> str:
    """Hide what of an address behind its scheme is a secret."""
    authority = re.split(r"[/?#]", rest, maxsplit=1)[0]
    if "@" in authority:
        end = authority.rindex("@")
    elif re.match(r"[^:\[]*:(?!\d*([/?#]|$))", rest) and "@" in rest:
        end = rest.rindex("@")  # a password with a '/' that nobody quoted
    else:
        return _shown_path(rest)
    user, colon, _ = rest[:end].partition(":")
    hides = bool(colon) or is_telling(user)
    return (
        f"{f'{user}:' if colon else ''}{HIDDEN if hides else user}@{_shown_path(rest[end + 1 :])}"
    )


def _shown_path(rest: str) -> str:
    return _TOKEN_SHOWN.sub(rf"/t/{HIDDEN}/", _QUERY_SECRET.sub(rf"\1{HIDDEN}", rest))


def shortest(credentials: Iterable[Credential]) -> list[bytes]:
    """Return the forms that hold no other one: where a longer one stands, they stand."""
    forms = {form for credential in credentials for form in credential.forms}
    return sorted(form for form in forms if not any(o in form for o in forms if o != form))


def _forms(address: str) -> set[bytes]:
    texts: set[str] = set()
    for secret in _secrets(address):
        if is_telling(secret):
            plain = unquote(secret)
            texts |= {secret, plain, quote(plain, safe=""), quote(plain), _base64(plain)}
    userinfo = _userinfo(address)
    user, _, password = map(unquote, userinfo.partition(":"))
    if user and (password or is_telling(user)):
        # As a request carries it: a token may stand alone, in the place of a user's name.
        texts |= {_base64(f"{user}:{password}"), _base64(userinfo)}
    if user and password:
        texts |= {userinfo, f"{user}:{password}"}
    return {text.encode() for text in texts if len(text) >= _SHORTEST}


def _secrets(address: str) -> list[str]:
    user, _, password = _userinfo(address).partition(":")
    secrets = [password] if password else [user]
    try:
        parts = urlsplit(address)
    except ValueError:
        return secrets
    secrets += [value for name, value in parse_qsl(parts.query) if _SECRET_NAME.search(name)]
    return [*secrets, *_CONDA_TOKEN.findall(parts.path)]


def is_telling(secret: str) -> bool:
    """Return whether a text stands nowhere by chance: a word or a number is looked for with its
    user.

    A password that is `password` would otherwise be found in every Python.
    """
    return len(secret) >= _LONG and not (secret.isalpha() or secret.isdigit())


def _userinfo(address: str) -> str:
    rest = address.partition("://")[2]
    authority = re.split(r"[/?#]", rest, maxsplit=1)[0]
    return authority.rpartition("@")[0]


def _base64(text: str) -> str:
    # Without its end: how a text ends in base64 depends on its length alone.
    return base64.b64encode(text.encode()).decode().rstrip("=")
