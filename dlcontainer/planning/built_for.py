"""The site that an image was built for, against the one that it is wanted for. Pure."""

from dataclasses import dataclass

from dlcontainer.image.record import ImageContent
from dlcontainer.sites.site import Site, SiteTarget


@dataclass(frozen=True, kw_only=True, slots=True)
class Mismatch:
    """Why an image is not a site's, and what to type."""

    what: str
    why: str
    next_step: str


def origin(content: ImageContent) -> str:
    """Name what an image was built for as `--site` takes it: SITE[@EPOCH][:NODE_TYPE]."""
    return target(content).named(content.site)


def target(content: ImageContent) -> SiteTarget:
    """Return the epoch and the kind of node that an image was built for."""
    return SiteTarget(epoch=content.epoch, node_type=content.node_type)


def named(site: Site) -> str:
    """Name a site as `--site` takes it: SITE[@EPOCH][:NODE_TYPE]."""
    return SiteTarget(epoch=site.epoch, node_type=site.node_type).named(site.name)


def mismatch(content: ImageContent, site: Site, *, whole: bool = True) -> Mismatch | None:
    """Return why an image is not this site's; None where it is.

    `whole`: its epoch and its kind of node must be the site's too.
    """
    built, site_name = (origin(content), named(site)) if whole else (content.site, site.name)
    if built == site_name:
        return None
    why = f"its base, libraries and settings follow the plan for {built}"
    if lacks_device_code(content, site):
        why = f"its recipe states no device code, and {site.name} has {accelerator(site)}; {why}"
    return Mismatch(
        what=f"built for the site {built}, not for {site_name}",
        why=why,
        next_step=again(content, site_name),
    )


def lacks_device_code(content: ImageContent, site: Site) -> bool:
    """Return whether an image's programs leave the site's accelerators alone."""
    return site.accelerator is not None and not content.may_have_device_code


def accelerator(site: Site) -> str:
    """Name the site's accelerator; an empty text where it has none."""
    return site.accelerator.model if site.accelerator else ""


def again(content: ImageContent, site: str) -> str:
    """Return what makes an image for a site."""
    if content.adopted is not None:
        return f"adopt it for this site: dlcontainer adopt SOURCE --site {site}"
    if content.extended is not None:
        return f"extend an image of this site: dlcontainer extend IMAGE -r FILE --site {site}"
    return f"build it for this site: dlcontainer build {content.offer.name} --site {site}"
