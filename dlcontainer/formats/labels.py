"""What every format says of an image: head comment, labels, the files that it carries."""

import json

from dlcontainer import __version__
from dlcontainer.config.field_types import OCI_ARCH
from dlcontainer.image import layout
from dlcontainer.planning.launch import surroundings
from dlcontainer.planning.plan import Plan

PREFIX = "org.dlcontainer"
PROBE = "probe"  # a folder in the build's `files/`


def head(plan: Plan) -> list[str]:
    """Return the comment lines at the head of every text."""
    image = plan.recipe.base.reference
    unpinned = ["The base's tag may name another image tomorrow: pin it (base.digest)."]
    lines = [
        f"{plan.recipe.name} {plan.recipe.version} for site {plan.site.target} ({plan.site.arch})",
        f"base: {plan.recipe.base.title}",
        *(unpinned if image and image.digest is None else []),
        f"plan: sha256:{plan.digest}",
        "Rendered by dlcontainer: change the recipe or the site config, not this file.",
    ]
    mpi = surroundings.used_mpi(plan)
    if mpi and mpi.mode == "compile":
        lines.append(f"compiled against the site's {mpi.name}: build with {mpi.root} bound")
        if plan.site.engine.route:
            lines.append("how, at the site: dlcontainer render --format route -o FOLDER/")
    return lines


def labels(plan: Plan) -> dict[str, str]:
    """Return the labels of an image: OCI's own names first, then ours."""
    recipe, image = plan.recipe, plan.recipe.base.reference
    texts = {
        "org.opencontainers.image.title": recipe.name,
        "org.opencontainers.image.version": recipe.version,
        "org.opencontainers.image.description": recipe.summary,
        "org.opencontainers.image.url": recipe.homepage,
        "org.opencontainers.image.licenses": recipe.license,
        "org.opencontainers.image.base.name": image.tagged if image else None,
        "org.opencontainers.image.base.digest": image.digest if image else None,
        f"{PREFIX}.arch": OCI_ARCH[plan.site.arch],
        f"{PREFIX}.digest": f"sha256:{plan.digest}",
        f"{PREFIX}.recipe": recipe.name,
        f"{PREFIX}.site": plan.site.target,
        f"{PREFIX}.variant": plan.recipe.variant,
    }
    return {key: value for key, value in texts.items() if value is not None}


def manifest(plan: Plan) -> str:
    """Describe the image to itself, as JSON: what `validate` reads inside."""
    body = {
        "schema": "dlcontainer/manifest/1",
        "dlcontainer": __version__,
        "digest": plan.digest,
        "python": plan.python,
        "verify": layout.VERIFY,
        "content": plan.content,
    }
    return json.dumps(body, indent=1, sort_keys=True) + "\n"


def staged_names(plan: Plan) -> list[str]:
    """Name the recipe's files in the build's `files/` folder, one for each of `plan.files`."""
    return [
        f"{number:02}-{entry.target.rsplit('/', 1)[-1]}" for number, entry in enumerate(plan.files)
    ]


def image_files(plan: Plan) -> list[tuple[str, str]]:
    """Name the files that go in: (name in the build's `files/` folder, path in the image)."""
    targets = [entry.target for entry in plan.files]
    probe = [(PROBE, layout.PROBE)] if plan.probe else []
    return [
        ("manifest.json", layout.MANIFEST),
        *zip(staged_names(plan), targets, strict=True),
        *probe,
    ]
