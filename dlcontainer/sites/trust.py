"""Whose signatures count at a site, and what an image must have before it is published there."""

from typing import Self

from pydantic import Field, model_validator

from dlcontainer.config.field_types import AbsolutePath, EvidenceKind
from dlcontainer.sites.facts import Facts


class Trust(Facts):
    """The site's signers; their files are written by root or by the publisher."""

    keys: tuple[AbsolutePath, ...] = Field(
        default=(), description="PEM files of signers' public keys, for images and evidence"
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

    @model_validator(mode="after")
    def _demands_have_keys(self) -> Self:
        if self.require_signed and not (self.keys or self.certificate_roots or self.keyrings):
            raise ValueError("'require_signed' needs 'keys', 'certificate_roots' or 'keyrings'")
        if self.require_evidence and not (self.keys or self.certificate_roots):
            raise ValueError("'require_evidence' needs 'keys' or 'certificate_roots'")
        return self
