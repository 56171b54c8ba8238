"""The base's kind is content: a root tree, or an image of a registry. Recipe, site, user choose it.

`kind: oci` puts the distribution's own image in the place of its root tree. The table `images` of
a site pins images by digest, or names the mirror that they are taken from there. Pure.
"""

from dlcontainer import config
from dlcontainer.config import Document, KeyPath, SelectedDocument, ValueOrigin
from dlcontainer.config.image_names import parse_image
from dlcontainer.recipes.distributions import DISTRIBUTIONS, Distribution
from dlcontainer.sites.site import Site

_KEPT = ("digest", "source", "system")


def settle(merged: Document, site: SelectedDocument[Site]) -> Document:
    """Settle the base of a recipe whose layers are laid over each other."""
    return _pinned(_of_kind(merged), site)


def _of_kind(merged: Document) -> Document:
    base = merged.data.get("base")
    if not isinstance(base, dict) or base.get("kind") != "oci" or "image" in base:
        return merged
    distribution = DISTRIBUTIONS.get((str(base.get("distribution")), str(base.get("release"))))
    if distribution is None:
        return merged  # validating the recipe says what is wrong with it
    chosen = merged.origin(("base", "kind"))
    data: dict[str, object] = {
        "kind": "oci",
        "image": distribution.image,
        "system": _system(distribution),
    }
    data |= {key: base[key] for key in _KEPT if key in base}
    origins: dict[KeyPath, ValueOrigin] = {(): chosen}
    for key in data:
        origins[(key,)] = merged.origin(("base", key)) if key in base else chosen
    return config.replaced(merged, {("base",): Document(data=data, origins=origins)})


def _system(distribution: Distribution) -> dict[str, object]:
    return {
        "distribution": distribution.name,
        "release": distribution.release,
        "glibc": distribution.glibc,
        "python": distribution.python,
        "source": "dlcontainer/recipes/distributions.py",
    }


def _pinned(merged: Document, site: SelectedDocument[Site]) -> Document:
    base = merged.data.get("base")
    image = base.get("image") if isinstance(base, dict) else None
    if not isinstance(base, dict) or not isinstance(image, str) or base.get("digest"):
        return merged
    for name, pinned in site.value.images.items():
        if _same(name, image):
            origin = site.document.origin(("images", name))
            part = Document(
                data={**base, "image": pinned},
                origins={
                    key[1:]: old for key, old in merged.origins.items() if key[:1] == ("base",)
                }
                | {("image",): origin},
            )
            return config.replaced(merged, {("base",): part})
    return merged


def _same(name: str, image: str) -> bool:
    try:
        listed, reference = parse_image(name), parse_image(image)
    except ValueError:
        return False  # validating the recipe says what is wrong with it
    # A digest in the recipe is its pin already.
    return reference.digest is None and listed.tagged == reference.tagged
