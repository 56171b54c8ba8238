"""Plan -> build script: the way to an image that a site documents, where it is no plain build.

At some sites users can't build from a definition file: there an OCI engine builds, and the image
is turned into what the site's jobs run.
"""

from collections.abc import Callable, Mapping

from dlcontainer.config.templating import Text, quote
from dlcontainer.errors import ConfigError
from dlcontainer.formats import dockerfile, host_variables, labels, runtimes
from dlcontainer.planning.launch import surroundings
from dlcontainer.planning.plan import Plan

TEMPLATE = "job/route.sh.j2"


def values(plan: Plan) -> Mapping[str, object]:
    """Compute what the template shows; raises ConfigError where the site documents no such way."""
    route = plan.site.engine.route
    if not is_script(plan):
        route_text = f"its route is {', '.join(route)}" if route else "a definition file is enough"
        raise ConfigError(
            f"cannot write a build script for site {plan.site.name}: {route_text}",
            why=f"scripts exist for: {', '.join(_STEPS)}",
            next_step="use render --format apptainer or dockerfile, or dlcontainer build",
        )
    root = _bound_root(plan)
    site = plan.site
    return {
        "head": [Text(line) for line in labels.head(plan)],
        "sources": [Text(site.sources[source]) for source in site.engine.sources],
        "modules": [line.split() for line in surroundings.of_plan(plan).modules] if root else [],
        "needs": [
            Text(f'[ -n "${{{name}+set}}" ] || dlc_fail "\\${name} is not set" "load its module"')
            for name in host_variables.variables([root or ""])
        ],
        "rootfs": None if plan.recipe.base.image else Text(dockerfile.ROOT_TREE),
        "steps": [_STEPS[step](plan) for step in route],
        "scripts": [],
    }


def is_script(plan: Plan) -> bool:
    """Return whether the site documents a way to build whose every step is known here."""
    return bool(plan.site.engine.route) and all(step in _STEPS for step in plan.site.engine.route)


def _bound_root(plan: Plan) -> str | None:
    # The host's MPI, where the image is compiled against it.
    mpi = surroundings.used_mpi(plan)
    return mpi.root if mpi and mpi.mode == "compile" else None


def _oci_build(program: str, plan: Plan) -> Text:
    root = _bound_root(plan)
    bind = f" -v {host_variables.shell(f'{root}:{root}')}" if root else ""
    for name in dockerfile.arguments(plan):
        bind += f" --build-arg {name}={host_variables.shell(f'${name}')}"
    return Text(f"{program}{bind} -f Dockerfile -t {_name(plan)} .")


def _name(plan: Plan) -> str:
    return quote(runtimes.oci_name(plan))


# What each word of a site's `engine.route` stands for.
_STEPS: Mapping[str, Callable[[Plan], Text]] = {
    "podman": lambda plan: _oci_build("podman build --net=host", plan),
    "docker-archive": lambda plan: Text(
        f"podman save -o {quote(plan.name)}.tar localhost/{_name(plan)}"
    ),
    "apptainer": lambda plan: Text(
        f"apptainer build --disable-cache {quote(plan.name)}.sif"
        f" docker-archive://{quote(plan.name)}.tar"
    ),
    "enroot": lambda plan: Text(
        f"enroot import -x mount -o {quote(plan.name)}.sqsh podman://localhost/{_name(plan)}"
    ),
    "podman-hpc": lambda plan: _oci_build("podman-hpc build", plan),
    "migrate": lambda plan: Text(f"podman-hpc migrate {_name(plan)}"),
}
