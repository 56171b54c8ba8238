"""The site's signers: what is demanded needs keys."""

import pytest
from pydantic import ValidationError

from dlcontainer.errors import ConfigError
from dlcontainer.sites.site import Site
from dlcontainer.sites.trust import Trust
from tests.values import site_of


def test_a_demand_without_keys_is_refused() -> None:
    with pytest.raises(ValidationError, match="'require_signed' needs"):
        Trust(require_signed=True)
    with pytest.raises(ValidationError, match="'require_evidence' needs"):
        Trust(require_evidence=("bench",), keyrings=("/ring.asc",))
    given = {"require_evidence": ("bench",), "keys": ("/a.pub",)}
    assert Trust.model_validate(given).require_evidence == ("bench",)
    assert Trust(require_signed=True, keyrings=("/ring.asc",)).require_signed


def test_keys_have_roles() -> None:
    given = {"keys": ["/all.pub", {"file": "/bench.pub", "for": ["bench", "report"]}]}
    trust = site_of(trust=given).value.trust
    assert [(key.file, key.roles) for key in trust.keys] == [
        ("/all.pub", ("image", "validate", "proof", "bench", "report")),
        ("/bench.pub", ("bench", "report")),
    ]
    assert trust.image_keys == ("/all.pub",)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"require_signed": True}, "'require_signed' needs 'keys' for image"),
        ({"require_evidence": ["bench", "bill"]}, "'require_evidence' needs 'keys' for bill"),
        ({"keys": [{"file": "/b.pub", "for": []}]}, "for"),
        ({"keys": [{"file": "/b.pub", "for": ["images"]}]}, "images"),
        ({"keys": [{"file": "b.pub"}]}, "must be an absolute path"),
        ({"keys": [{"for": ["bench"]}]}, "file"),
        ({"keys": [{"file": "/b.pub", "role": "x"}]}, "role"),
        ({"keys": [7]}, "keys"),
    ],
)
def test_what_is_no_key_of_a_site(given: dict[str, object], why: str) -> None:
    bench = {"keys": [{"file": "/bench.pub", "for": ["bench"]}]}
    with pytest.raises(ConfigError) as caught:
        site_of(trust={**bench, **given})
    assert why in str(caught.value)


def test_the_schema_has_both_forms() -> None:
    (path, whole) = Site.model_json_schema()["$defs"]["KeyFile"]["anyOf"]
    assert path["type"] == "string"
    assert set(whole["properties"]) == {"file", "for"}
