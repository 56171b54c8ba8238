"""Pins: which digest a base's image has now, read from its registry, and written down."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from dlcontainer import config
from dlcontainer.config.image_names import ImageReference
from dlcontainer.errors import ConfigError
from dlcontainer.packages import host_access
from dlcontainer.planning.plan import Plan
from dlcontainer.registry import base_image
from dlcontainer.system import atomic_files
from dlcontainer.system.machine import HostMachine

_HEAD = """\
# Written by `dlcontainer base pin`: images by the digests that their registries gave. In the form
# of overrides.yaml, which lies over it; what is below a site's name may stand in its site file.
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class ImagePin:
    """An image as recipes name it, and the same by the digest that its registry gave."""

    image: str
    pinned: str
    # the recipe's base is a root tree: the site has to say that an image takes its place
    replaces_tree: bool


def read(
    plan: Plan, replacement: ImageReference | None, host: HostMachine, *, replaces_tree: bool
) -> ImagePin:
    """Ask the registry which digest a plan's image has, or the image that is to take its place.

    Raises ConfigError for an image that its recipe pins, BuildError where the registry gives no
    digest, one that its bytes have not, or nothing for the plan's architecture.
    """
    named = plan.recipe.base.reference
    if named is None or named.digest is not None:
        raise ConfigError(
            f"the base of {plan.recipe.name} is pinned in its recipe: {plan.recipe.base.title}",
            next_step="build as it is, or choose another image for `plan` and `build`: "
            "--set base.image=docker://…",
        )
    reference, access = replacement or named, host_access.registry_way(plan, host)
    arch = plan.site.arch
    if reference.digest is None:
        digest = base_image.find_digest(reference, arch, access)
    else:
        digest = base_image.check(reference, arch, access).digest
    tagged = replace(reference, digest=None).tagged
    return ImagePin(
        image=f"docker://{named.tagged}",
        pinned=f"docker://{tagged}@{digest}",
        replaces_tree=replaces_tree,
    )


def write(path: Path, site: str, pin: ImagePin) -> None:
    """Add a pin to the user's file of pins; raises ConfigError where it can't be written."""
    written = config.load(path, layer="pins", display=str(path)).data if path.exists() else {}
    sites = _mapping(written.get("sites"))
    pins_of_site = _mapping(sites.get(site))
    images = {**_mapping(pins_of_site.get("images")), pin.image: pin.pinned}
    changed = {**pins_of_site, "images": images}
    if pin.replaces_tree:
        changed["base"] = {**_mapping(pins_of_site.get("base")), "kind": "oci"}
    data = {**written, "sites": {**sites, site: changed}}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # JSON is YAML too, and quotes whatever a name may hold.
        atomic_files.write(path, _HEAD + json.dumps(data, indent=2, sort_keys=True) + "\n")
    except OSError as error:
        raise ConfigError(
            f"can't write {path}: {error.strerror}",
            next_step="add --print: it shows the lines for a site file",
        ) from None


def as_site_lines(pin: ImagePin) -> str:
    """Return the lines that say the same in a site file."""
    kind = "base: {kind: oci}\n" if pin.replaces_tree else ""
    return f"{kind}images:\n  {pin.image}: {pin.pinned}"


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}
