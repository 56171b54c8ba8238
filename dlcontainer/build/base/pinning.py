"""Why an image without a digest is not built from, and the line that pins it."""

from dlcontainer.config.image_names import ImageReference
from dlcontainer.errors import BuildError
from dlcontainer.planning.plan import Plan
from dlcontainer.registry.base_image import find_digest
from dlcontainer.registry.connection import RegistryAccess


def refusal(plan: Plan, image: ImageReference, access: RegistryAccess) -> BuildError:
    """Return the error of a base without a pin, with the digest that its tag has now."""
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
            why="a tag can move to another image, and dlcontainer cannot read its digest: "
            + "; ".join(filter(None, [error.what, error.why])),
            next_step=f"name a mirror that answers ({pin} --image docker://…), or read the digest "
            "elsewhere and set it: --set base.digest=sha256:…",
        )
    name = plan.recipe.name
    return BuildError(
        what,
        where=where,
        why=f"a tag can move to another image; {image.tag!r} is {digest} now",
        next_step=f"pin it with one of\n    --set base.digest={digest}\n"
        f"    overrides.yaml: recipes: {{{name}: {{base: {{digest: '{digest}'}}}}}}\n"
        f"    {pin}",
    )
