"""Why an image without a digest is not built from, and the line that pins it."""

from dlcontainer.config.image_names import ImageReference
from dlcontainer.errors import BuildError
from dlcontainer.planning.plan import Plan
from dlcontainer.registry.base_image import find_digest
from dlcontainer.registry.connection import RegistryAccess


def refusal(plan: Plan, image: ImageReference, access: RegistryAccess) -> BuildError:
    """Say that a base is not pinned; its registry is asked which digest the tag has now."""
    origins = {key: origin for key, _, origin in plan.origins}
    what = f"the base {image} is not pinned"
    where = origins["base.image"].where
    pin = f"dlcontainer base pin {plan.recipe.name} --site {plan.site.name}"
    try:
        digest = find_digest(image, plan.site.arch, access)
    except BuildError as error:
        return BuildError(
            what,
            where=where,
            why="a tag may name another image tomorrow; which one it names now can't be told: "
            + "; ".join(filter(None, [error.what, error.why])),
            next_step=f"{pin} --image docker://… names a mirror that answers; or read its digest "
            "elsewhere: --set base.digest=sha256:…",
        )
    name = plan.recipe.name
    return BuildError(
        what,
        where=where,
        why=f"a tag may name another image tomorrow; today {image.tag!r} is {digest}",
        next_step=f"pin it with one of\n    --set base.digest={digest}\n"
        f"    overrides.yaml: recipes: {{{name}: {{base: {{digest: '{digest}'}}}}}}\n"
        f"    {pin}",
    )
