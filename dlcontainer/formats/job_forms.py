"""The forms of a plan's job: the site's ways to place ranks, and the one that its recipe asks for.

A form of a recipe is one process a node, which brings the nodes together and runs the command: a
line of `OF_RECIPES` and a template each.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from dlcontainer import config, schedulers
from dlcontainer.config.templating import Text
from dlcontainer.errors import ConfigError
from dlcontainer.planning.launch.launch_plan import LaunchPlan
from dlcontainer.planning.plan import Plan
from dlcontainer.sites.facts import LaunchForm

# The launcher's own ranks, beside a recipe's form, where the site names no forms.
RANKS = "ranks"


@dataclass(frozen=True, kw_only=True, slots=True)
class RecipeForm:
    """A form that recipes ask for: what the script's reader is told, and the nodes' program.

    The template leaves it in `dlc_node`; `words` start it in the image, the command behind them.
    """

    summary: str
    template: Text
    words: tuple[Text, ...]


OF_RECIPES: Mapping[str, RecipeForm] = {
    "ray": RecipeForm(
        summary="Ray's head on the first node, a worker on each other, the command on the head",
        template=Text("job/ray.sh.j2"),
        # Alone: of a folder's modules and a user's variables Python itself takes none.
        words=(Text("-I"), Text("-c"), Text('"$dlc_node"'), Text('"$dlc_wait"')),
    ),
}


def shared_program(plan: LaunchPlan, forms: Mapping[str, LaunchForm]) -> RecipeForm | None:
    """Return the form whose program the script must hold; None where all are of ranks."""
    of_site = (form.inside for form in forms.values() if form.inside in OF_RECIPES)
    name = plan.recipe.job.form if plan.recipe.job else next(of_site, None)
    return OF_RECIPES[name] if name else None


def of_ranks(plan: Plan) -> Plan:
    """Return the plan with jobs of ranks alone, which no warning ends: for what measures these."""
    jobs = plan.site.jobs.model_copy(update={"warning": None})
    return replace(
        plan,
        recipe=plan.recipe.model_copy(update={"job": None}),
        site=plan.site.model_copy(update={"jobs": jobs}),
    )


def is_launched(plan: LaunchPlan) -> bool:
    """Return whether something starts ranks in the site's jobs."""
    return bool(plan.site.scheduler.forms or plan.site.scheduler.launcher)


def of_image(plan: LaunchPlan) -> Mapping[str, LaunchForm]:
    """Return the forms whose programs the image has, the recipe's own first.

    Raises ConfigError where the site has no way to the form that the recipe asks for.
    """
    fitting, job = _fitting(plan), plan.recipe.job
    if job is None or not is_launched(plan):
        return fitting
    if any(form.inside == job.form for form in fitting.values()):  # in the site's words
        return dict(sorted(fitting.items(), key=lambda item: item[1].inside != job.form))
    if job.form in plan.site.scheduler.forms:
        raise ConfigError(
            f"site {plan.site.name}: its form {job.form!r} places ranks, but recipe "
            f"{plan.recipe.name} asks for a form of this name",
            where=plan.place_in_site("scheduler", "forms", job.form),
            next_step=f"give it another name, or `inside: {job.form}`",
        )
    recipe_form = LaunchForm(
        summary=OF_RECIPES[job.form].summary,
        launcher=_one_a_node(plan, job.form),
        ranks_per_node=1,
        inside=job.form,
    )
    return {job.form: recipe_form, **fitting}


def _fitting(plan: LaunchPlan) -> Mapping[str, LaunchForm]:
    """Return the site's forms whose programs the image has."""
    programs, forms = {None, *plan.recipe.exposes}, plan.site.scheduler.forms
    return {name: form for name, form in forms.items() if form.inside in programs}


def has_way(plan: LaunchPlan) -> bool:
    """Return whether the site has a way to the form that the recipe asks for."""
    try:
        of_image(plan)
    except ConfigError:
        return False
    return True


def _one_a_node(plan: LaunchPlan, form: str) -> tuple[str, ...]:
    """Return the words that start one process on each node, with all that the job has of it."""
    scheduler = plan.site.scheduler
    words = next((item.launcher for item in scheduler.forms.values() if item.inside), None)
    if words is not None:
        return words
    program = [*(item.launcher[0] for item in scheduler.forms.values()), *scheduler.launcher][0]
    launcher = schedulers.launcher(program, scheduler.kind)
    if launcher is not None and launcher.one_a_node:
        return (program, *launcher.one_a_node, *launcher.whole_node)
    if launcher is not None and launcher.across_nodes:
        return (program, *launcher.counts, *launcher.across_nodes, *launcher.whole_node)
    raise ConfigError(
        f"site {plan.site.name}: a job of recipe {plan.recipe.name} needs one process on each "
        f"node, and no words of {program} are known for that",
        where=plan.place_in_site("scheduler", "launcher"),
        why=f"its form is {form} (docs/use/jobs.md, Ray)",
        next_step="add a form to scheduler.forms whose launcher starts one process a node, with "
        f"`inside: {form}`",
    )


def usual(plan: LaunchPlan, launch: str | None) -> str:
    """Name the form that a script uses unless it is told; empty where the site has none.

    Raises ConfigError for a form that the site has not, or whose program the image has not.
    """
    names = list(of_image(plan))
    if launch is None:
        return names[0] if plan.recipe.job and names else _usual_of_ranks(plan, names)
    form = plan.site.scheduler.forms.get(launch)
    if form is not None and launch not in names:
        raise ConfigError(
            f"form {launch!r}: {plan.recipe.name} has no {form.inside}",
            where="--form",
            why="`exposes` of the recipe does not list it",
            next_step=f"one of: {', '.join(names)}",
        )
    if launch not in names:
        raise ConfigError(
            f"no form {launch!r} at site {plan.site.name}{config.suggest(launch, names)}",
            where="--form",
            next_step=f"one of: {', '.join(names)}"
            if names
            else "remove --form: the site has no forms",
        )
    return launch


def _usual_of_ranks(plan: LaunchPlan, names: list[str]) -> str:
    """Choose the first form, of those that are for the image's MPI if there are any."""
    inside, forms = plan.recipe.stack.mpi, plan.site.scheduler.forms
    fitting = [name for name in names if inside and forms[name].mpi == inside.family]
    return next(iter([*fitting, *names]), "")


def of_proof(plan: LaunchPlan) -> str:
    """Name the form of a proof, which is one of ranks, where the recipe's own form has none."""
    forms = of_image(plan)
    if shared_program(plan, forms) is None or not is_launched(plan):
        return ""
    placing = [name for name, form in forms.items() if form.inside not in OF_RECIPES]
    if not plan.site.scheduler.forms:
        return RANKS
    return _usual_of_ranks(plan, placing)


def of_head(plan: LaunchPlan, chosen: str) -> str:
    """Name the site's form whose request of resources a chosen form has."""
    forms = plan.site.scheduler.forms
    if chosen in forms or plan.recipe.job is None:
        return chosen
    inside = next((name for name, form in forms.items() if form.inside), None)
    return inside or _usual_of_ranks(plan, list(_fitting(plan)))
