"""The site's signers: what is demanded needs keys."""

import pytest
from pydantic import ValidationError

from dlcontainer.sites.trust import Trust


def test_a_demand_without_keys_is_refused() -> None:
    with pytest.raises(ValidationError, match="'require_signed' needs"):
        Trust(require_signed=True)
    with pytest.raises(ValidationError, match="'require_evidence' needs"):
        Trust(require_evidence=("bench",), keyrings=("/ring.asc",))
    given = {"require_evidence": ("bench",), "keys": ("/a.pub",)}
    assert Trust.model_validate(given).require_evidence == ("bench",)
    assert Trust(require_signed=True, keyrings=("/ring.asc",)).require_signed
