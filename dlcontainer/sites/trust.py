"""Whose signatures count at a site, and what an image must have before it is published there."""

from typing import Any, Literal, Self

from pydantic import ConfigDict, Field, model_validator

from dlcontainer.config.field_types import (
    KEY_ROLES,
    AbsolutePath,
    EvidenceKind,
    KeyRole,
    Strict,
    role_of,
)
from dlcontainer.sites.groups import SiteFacts


def _or_a_path(schema: dict[str, Any]) -> None:
    whole = dict(schema)
    schema.clear()
    schema["anyOf"] = [{"type": "string", "description": "a path alone: all roles"}, whole]


class KeyFile(Strict):
    """A signer's public key, and what it counts for; a path alone counts for everything."""

    model_config = ConfigDict(
        frozen=True, strict=True, extra="forbid", json_schema_extra=_or_a_path
    )

    file: AbsolutePath = Field(description="PEM file of a public key")
    roles: tuple[KeyRole, ...] = Field(
        default=KEY_ROLES,
        alias="for",
        min_length=1,
        description="image (with its record and bill), validate, proof, bench, report; "
        "default: all",
    )

    @model_validator(mode="before")
    @classmethod
    def _a_path_alone(cls, value: object) -> object:
        if isinstance(value, str):
            return {"file": value}
        # What comes out of a function of Python's is no JSON any more: its lists are not taken.
        if isinstance(value, dict) and isinstance(value.get("for"), list):
            return {**value, "for": tuple(value["for"])}
        return value


class Trust(SiteFacts):
    """The site's signers; their files are written by root or by the publisher."""

    keys: tuple[KeyFile, ...] = Field(
        default=(),
        description="PEM files of signers' public keys, for images and evidence; "
        "{file: PATH, for: [bench]} counts for that alone",
    )
    certificate_roots: AbsolutePath | None = Field(
        default=None, description="PEM file: a certificate below these, for signing code, counts"
    )
    keyrings: tuple[AbsolutePath, ...] = Field(
        default=(), description="files of PGP public keys, for images alone"
    )
    require_signed: bool = Field(default=False, description="nothing else is published")
    require_evidence: tuple[EvidenceKind, ...] = Field(
        default=(), description="kinds of signed evidence without which nothing is published"
    )

    @property
    def image_keys(self) -> tuple[str, ...]:
        """The files of the keys that release images."""
        return tuple(key.file for key in self.keys if "image" in key.roles)

    @model_validator(mode="after")
    def _demands_have_keys(self) -> Self:
        if self.require_signed and not (self.image_keys or self.certificate_roots or self.keyrings):
            raise ValueError(
                "'require_signed' needs 'keys' for image, 'certificate_roots' or 'keyrings'"
            )
        roles = {role for key in self.keys for role in key.roles}
        missing = [kind for kind in self.require_evidence if role_of(kind) not in roles]
        if missing and not self.certificate_roots:
            raise ValueError(
                f"'require_evidence' needs 'keys' for {', '.join(missing)}, or 'certificate_roots'"
            )
        return self


class VulnerabilityRules(Strict):
    """By what `scan` judges an image's bill, and whether `publish` asks it."""

    database: AbsolutePath | None = Field(
        default=None, description="a folder or zip of OSV records, which the centre renews"
    )
    max_age_days: int = Field(
        default=30,
        ge=1,
        le=3650,
        description="of the newest record of an ecosystem; older: it counts as not checked",
    )
    allowed: AbsolutePath | None = Field(
        default=None, description="a file of entries with reason and last day"
    )
    gate: Literal["none", "publish"] = Field(
        default="none", description="publish: only what `scan` calls clean is published"
    )

    @model_validator(mode="after")
    def _a_gate_has_data(self) -> Self:
        if self.gate != "none" and self.database is None:
            raise ValueError(f"'gate: {self.gate}' needs 'database'")
        return self
