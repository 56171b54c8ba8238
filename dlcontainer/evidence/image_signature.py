"""The signature inside an image (SIF): made and checked by the engine, with keys that are given.

Never with whatever is in a keyring: the engine gets a home of its own, made for the call. It reads
a PEM key from a file in memory, so a decrypted one is on no disk and in no argument; a passphrase
of a PGP key comes by its input (tried with Apptainer 1.4.5).
"""

import contextlib
import os
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from dlcontainer.engines import apptainer
from dlcontainer.engines.apptainer import Apptainer
from dlcontainer.errors import ChecksFailedError, ConfigError
from dlcontainer.evidence import keys
from dlcontainer.evidence.keys import PublicKey, SigningKey
from dlcontainer.evidence.trust_anchors import TrustAnchors
from dlcontainer.system.process import CommandFailedError, CompletedCommand, Runner

_LISTED = re.compile(r"^(\d+)\)\s+User:|^\s*Fingerprint:\s*([0-9A-Fa-f]{40})", re.MULTILINE)
# One text: as a word of its own it would read as the probe of that name (tests/unit/test_house.py).
_TAKE_KEY = "key import"
_FINGERPRINT = re.compile(r"[0-9A-F]{40}")
# What the engine says (1.4.5) -> what it means; the first that fits, the most telling first.
_CAUSES = (
    ("integrity compromised", "was changed after it was signed"),
    (
        "certificate has expired",
        "is signed with a certificate that has expired, or is not yet valid",
    ),
    ("not yet valid", "is signed with a certificate that has expired, or is not yet valid"),
    ("unknown authority", "is signed with a certificate from another authority"),
    ("incompatible key usage", "is signed with a certificate that is not for signing code"),
    ("object not signed", "contains an unsigned part"),
    ("not associated with object group", "contains an unsigned part"),
    ("signature not found", "is not signed"),
    ("unknown entity", "is signed by somebody else"),
    ("do not match threshold", "is signed by somebody else"),
    ("key material not provided", "is signed by somebody else"),
)
_OTHER = "has an invalid signature"


@dataclass(frozen=True, kw_only=True, slots=True)
class SignatureEngine:
    """The engine that signs and verifies; `start` gives the door, with descriptors to inherit."""

    program: Apptainer
    start: Callable[[tuple[int, ...]], Runner]
    environ: Mapping[str, str]
    scratch: Path


@dataclass(frozen=True, kw_only=True, slots=True)
class Signer:
    """The signer of an image, named; `key` is theirs where it is a PEM key or a certificate."""

    name: str
    key: PublicKey | None


def sign_with_key(image: Path, key: SigningKey, engine: SignatureEngine) -> None:
    """Sign a private copy of an image with a PEM key; raises ChecksFailedError."""
    with _home(engine) as home, _in_memory(key.pem) as number:
        words = ["sign", "--key", _path(number), str(image)]
        _run(engine, _CallHome(home=home), words, inherited=(number,))


def sign_with_pgp(
    image: Path, fingerprint: str, keyring: Path, passphrase: str | None, engine: SignatureEngine
) -> None:
    """Sign a private copy of an image with one key of the user's ring.

    Raises ConfigError for a key that is not there, ChecksFailedError where the engine fails.
    """
    normalized = fingerprint.replace(" ", "").upper()
    if not _FINGERPRINT.fullmatch(normalized):
        raise ConfigError(
            f"{fingerprint!r} is not a PGP key fingerprint",
            next_step="give 40 hex digits, as printed by: apptainer key list --secret",
        )
    with _home(engine) as home:
        typed = None if passphrase is None else f"{passphrase}\n"
        call = _CallHome(home=home, ring=keyring, stdin=typed)
        listed = _run(engine, call, ["key", "list", "--secret"]).stdout
        number = _number(listed, normalized)
        if number is None:
            raise ConfigError(
                f"the keyring {keyring} has no private key {normalized}",
                next_step="import it: apptainer key import FILE",
            )
        _run(engine, call, ["sign", "--keyidx", number, str(image)])


def _number(listed: str, fingerprint: str) -> str | None:
    number = None
    for match in _LISTED.finditer(listed):
        number = match[1] or number
        if match[2] and match[2].upper() == fingerprint:
            return number
    return None


def verify(image: int, where: Path, trust: TrustAnchors, engine: SignatureEngine) -> Signer:
    """Find the believed signer of an open image; every part must be signed.

    Raises ChecksFailedError that says why none of the given keys holds, or that the one that does
    may not release images.
    """
    refusals: list[str] = []
    for attempt in _ways(trust):
        if _holds(image, attempt, engine, refusals):
            return attempt.signer
    for key in trust.keys_besides("image"):
        if _holds(image, _by_key(key), engine, []):
            raise ChecksFailedError(
                f"{where} is signed with a key that may not sign images",
                why=f"key sha256:{key.id[:16]}… ({key.where}) may sign evidence only",
                next_step="have it signed with a key for images, or give this key the role `image`",
            )
    raise _refused(where, refusals)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Verification:
    """A way to verify: the signer, the files to hand over, and words with their places."""

    signer: Signer
    material: tuple[bytes, ...]
    words: tuple[str, ...] = ()


def _holds(
    image: int, attempt: _Verification, engine: SignatureEngine, refusals: list[str]
) -> bool:
    """Ask the engine; note what it says where the signature does not hold."""
    with _home(engine) as home, contextlib.ExitStack() as stack:
        call = _CallHome(home=home)
        numbers = tuple(stack.enter_context(_in_memory(data)) for data in attempt.material)
        paths = dict(zip(("{0}", "{1}"), map(_path, numbers), strict=False))
        words = [paths.get(word, word) for word in attempt.words]
        try:
            if not words:
                take = [*_TAKE_KEY.split(), _path(numbers[0])]
                _run(engine, call, take, inherited=(numbers[0],))
                words = ["--local"]
            words = ["verify", "--all", *words, _path(image)]
            _run(engine, call, words, inherited=(image, *numbers))
        except CommandFailedError as error:
            refusals.append(error.completed.stderr + error.completed.stdout)
            return False
    return True


def _ways(trust: TrustAnchors) -> Iterator[_Verification]:
    yield from map(_by_key, trust.keys_for("image"))
    if trust.roots is not None:
        for certificate in trust.certificates:
            key = keys.of_certificate(certificate, "certificate")
            yield _Verification(
                signer=Signer(name=f"certificate sha256:{key.id[:16]}…", key=key),
                material=(certificate, trust.roots),
                words=("--certificate", "{0}", "--certificate-roots", "{1}"),
            )
    for ring in trust.keyrings:
        signer = Signer(name="a PGP key of the given ring", key=None)
        yield _Verification(signer=signer, material=(ring,))


def _by_key(key: PublicKey) -> _Verification:
    name = f"key sha256:{key.id[:16]}… ({key.where})"
    return _Verification(
        signer=Signer(name=name, key=key), material=(key.pem,), words=("--key", "{0}")
    )


def _refused(where: Path, refusals: list[str]) -> ChecksFailedError:
    text = "\n".join(refusals)
    meaning = next((cause for sign, cause in _CAUSES if sign in text), _OTHER)
    if not refusals:
        meaning = "can't be verified: it came without a certificate from these authorities"
    fatal = re.findall(r"FATAL:\s*(.+)", text)
    return ChecksFailedError(
        f"{where} {meaning}",
        why=f"the engine: {fatal[-1][:300]}" if fatal else None,
        next_step="ask the signer for a new copy of the image, or give the signer's own key",
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class _CallHome:
    """A call's private home, the ring of keys that it sees, and its input."""

    home: Path
    ring: Path | None = None
    stdin: str | None = None


def _run(
    engine: SignatureEngine, call: _CallHome, words: list[str], *, inherited: tuple[int, ...] = ()
) -> CompletedCommand:
    runner, home = engine.start(inherited), call.home
    argv = [str(engine.program.program), "--nocolor", *words]
    ring = str(call.ring or home / "keys")
    environ = apptainer.environment(engine.environ, tmpdir=home, state=home)
    environ |= {"HOME": str(home), "APPTAINER_KEYSDIR": ring, "SINGULARITY_SYPGPDIR": ring}
    try:
        return runner(argv, env=environ, stdin=call.stdin)
    except CommandFailedError as error:
        if words[0] == "verify":
            raise
        errors = re.findall(r"FATAL:\s*(.+)", error.completed.stderr)
        raise ChecksFailedError(
            f"the engine's `{' '.join(words[:2]) if words[0] == 'key' else 'sign'}` failed",
            why=errors[-1][:300] if errors else str(error)[:300],
            next_step="see docs/centre/signing.md for the keys that the engine accepts",
        ) from None


@contextlib.contextmanager
def _home(engine: SignatureEngine) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="dlcontainer-keys-", dir=engine.scratch) as name:
        yield Path(name)


@contextlib.contextmanager
def _in_memory(data: bytes) -> Iterator[int]:
    """Yield a descriptor of a file that is on no disk."""
    number = os.memfd_create("key", os.MFD_CLOEXEC)
    try:
        with os.fdopen(os.dup(number), "wb") as file:
            file.write(data)
        yield number
    finally:
        os.close(number)


def _path(number: int) -> str:
    return f"/proc/self/fd/{number}"
