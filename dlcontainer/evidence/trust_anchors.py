"""Whose signatures count, and for what: keys with roles, certificates below roots, PGP rings."""

from dataclasses import dataclass, replace

from dlcontainer.config.field_types import KEY_ROLES, KeyRole
from dlcontainer.evidence.keys import PublicKey


@dataclass(frozen=True, kw_only=True, slots=True)
class TrustedKey:
    """A key, and what its signatures count for; `image` is all that `sign` signs."""

    key: PublicKey
    roles: tuple[KeyRole, ...] = KEY_ROLES


@dataclass(frozen=True, kw_only=True, slots=True)
class TrustAnchors:
    """The signers that are believed: keys, certificates below roots, rings of PGP keys."""

    keys: tuple[TrustedKey, ...] = ()
    roots: bytes | None = None
    certificates: tuple[bytes, ...] = ()
    keyrings: tuple[bytes, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Return whether nobody is believed."""
        return not (self.keys or self.roots or self.keyrings)

    def keys_for(self, role: KeyRole) -> tuple[PublicKey, ...]:
        """Return the keys that count for a role."""
        return tuple(trusted.key for trusted in self.keys if role in trusted.roles)

    def keys_besides(self, role: KeyRole) -> tuple[PublicKey, ...]:
        """Return the keys that count, and not for this role."""
        ids = {key.id for key in self.keys_for(role)}
        return tuple(trusted.key for trusted in self.keys if trusted.key.id not in ids)

    def with_certified(self, key: PublicKey) -> "TrustAnchors":
        """Believe an image's signer too; one known by a certificate alone, for everything."""
        if key.id in {trusted.key.id for trusted in self.keys}:
            return self
        return replace(self, keys=(*self.keys, TrustedKey(key=key)))
