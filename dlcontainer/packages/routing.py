"""The way to the outside during a build: mirrors, indexes, wheels, proxies, CA.

None of it is content. It reaches the build as one folder, bound where the steps look for it, and
leaves nothing in the text, the digest or the image.
"""

import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from dlcontainer.config.templating import quote
from dlcontainer.engines import emulation
from dlcontainer.errors import ConfigError
from dlcontainer.image.layout import ROUTING_FOLDER, ROUTING_SCRIPT, upstream_variable
from dlcontainer.packages import apt_sources, credentials
from dlcontainer.packages import bundle as bundles
from dlcontainer.packages.apt import apt_config
from dlcontainer.packages.apt.apt_config import AptSource
from dlcontainer.packages.bundle import Bundle
from dlcontainer.packages.credentials import Credential
from dlcontainer.packages.pip import pip_config
from dlcontainer.packages.pip.pip_config import PipSettings
from dlcontainer.packages.proxies import proxies_of
from dlcontainer.planning.plan import Plan
from dlcontainer.sites.routing import PipRouting, Routing
from dlcontainer.system.environ import variables
from dlcontainer.system.machine import HostMachine
from dlcontainer.system.process import Runner

CA_VARIABLES = (
    "SSL_CERT_FILE",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "PIP_CERT",
    "GIT_SSL_CAINFO",
)
CA_FILES = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt")
PIP_REPORT = "pip-report.json"
PIP_CONFIG = "pip.conf"
SCRIPT = ROUTING_SCRIPT.removeprefix(f"{ROUTING_FOLDER}/")


@dataclass(frozen=True, kw_only=True, slots=True)
class PreparedRouting:
    """The routing of one build, ready to be bound."""

    folder: Path
    binds: tuple[tuple[Path, str], ...]
    apt_sources: tuple[AptSource, ...]
    apt_settings: tuple[str, ...]
    # Variables for programs that work on the host's side of the build (mmdebstrap, pulls).
    environment: Mapping[str, str]
    ca: Path | None
    # What must be found nowhere in the finished image, its log and its record.
    credentials: tuple[Credential, ...]
    notes: tuple[str, ...]
    # Where all packages come from, and nowhere else; None: from mirrors and indexes.
    bundle: Bundle | None = None
    # name of a recipe's upstream -> address; empty: not to be had
    upstreams: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def nothing(cls, folder: Path) -> "PreparedRouting":
        """Return a routing that routes nothing: for showing what a build would do."""
        return cls(
            folder=folder,
            binds=((folder, ROUTING_FOLDER),),
            apt_sources=(),
            apt_settings=(),
            environment={},
            ca=None,
            credentials=(),
            notes=(),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class _RoutingDraft:
    """A routing in the making: how programs get out of this host, and the script so far."""

    plan: Plan
    host: HostMachine
    runner: Runner
    folder: Path
    proxies: Mapping[str, str]
    ca: Path | None
    lines: tuple[str, ...]

    def write_script(self, more: Sequence[str]) -> None:
        """Write the script, with further lines at its end."""
        (self.folder / SCRIPT).write_text("\n".join([*self.lines, *more]) + "\n")

    def upstream(self, url: str) -> tuple[str, str | None]:
        """Return where an upstream is reached, as `upstream_of`."""
        return upstream_of(self.plan.site.routing, url, self.proxies, self.ca)

    def credentials(self, more: Mapping[str, Iterable[str]]) -> tuple[Credential, ...]:
        """Return the passwords and tokens of the proxies, the mirrors and of some more settings."""
        routing = self.plan.site.routing
        return credentials.of(
            {
                **{name: [value] for name, value in self.proxies.items()},
                "routing.upstreams": map(str, routing.upstreams.values()),
                **more,
            }
        )


def prepare(
    plan: Plan, host: HostMachine, runner: Runner, folder: Path, bundle: Bundle | None = None
) -> PreparedRouting:
    """Write the folder that a build binds; with a bundle, packages come from there alone.

    `folder` is private and empty. Raises ConfigError for a wheel folder or a CA that isn't there.
    """
    routing = plan.site.routing
    lines: list[str] = [f"export PIP_REPORT={ROUTING_FOLDER}/{PIP_REPORT}"]
    if plan.site.arch != host.arch:
        emulated = emulation.environment(plan.site.arch)
        lines += [f"export {name}={quote(value)}" for name, value in emulated.items()]
    proxies = proxies_of(routing, host)
    for name, value in proxies.items():
        lines.append(f"export {name}={quote(value)} {name.upper()}={quote(value)}")
    ca = ca_of(routing, host)
    if ca is not None:
        shutil.copyfile(ca, folder / "ca.crt")
        lines += [f"export {name}={ROUTING_FOLDER}/ca.crt" for name in CA_VARIABLES]
    draft = _RoutingDraft(
        plan=plan,
        host=host,
        runner=runner,
        folder=folder,
        proxies=proxies,
        ca=ca,
        lines=tuple(lines),
    )
    return _from_mirrors(draft) if bundle is None else _from_bundle(draft, bundle)


def _from_mirrors(draft: _RoutingDraft) -> PreparedRouting:
    plan, host, folder = draft.plan, draft.host, draft.folder
    lines: list[str] = []
    access = way_out(plan.site.routing, draft.proxies, draft.ca)
    apt = apt_sources.find(plan, host, draft.runner, access, folder)
    sources, settings = apt.sources, apt.settings
    if sources:
        lines += apt_config.SETTING
        apt_config.write(folder, sources, settings, has_ca=draft.ca is not None)
    else:
        lines += apt_config.DEFAULT_SETTING
        apt_config.write_default(folder)
    lines.append(f"export PIP_CONFIG_FILE={ROUTING_FOLDER}/{PIP_CONFIG}")
    notes, upstreams, unseen = list(apt.notes), {}, []
    for name, upstream in plan.recipe.upstreams.items():
        url, note = draft.upstream(str(upstream.url))
        upstreams[name] = url
        notes += [note] if note else []
        if credentials.of({name: [url]}) and _is_pips_alone(plan, name):
            # As a word of pip's it would stand in the list of processes: a file says it.
            unseen.append(url)
            url = ""
        lines.append(f"export {upstream_variable(name)}={quote(url)}")
    pip = pip_of(plan.site.routing, host)
    pip = replace(pip, extra_indexes=(*pip.extra_indexes, *unseen))
    binds = [(folder, ROUTING_FOLDER), *_write_pip(folder, pip)]
    draft.write_script(lines)
    return PreparedRouting(
        folder=folder,
        binds=tuple(binds),
        apt_sources=sources,
        apt_settings=settings,
        environment=draft.proxies,
        ca=draft.ca,
        credentials=draft.credentials(
            {
                "apt's sources": [source.uri for source in sources],
                "apt's settings": settings,
                "pip's settings": pip.places,
            }
        ),
        notes=tuple(notes),
        upstreams=upstreams,
    )


def _is_pips_alone(plan: Plan, name: str) -> bool:
    """Return whether pip takes an upstream as a further index, and nothing else reads it."""
    steps = plan.recipe.steps
    by_conda = {upstream for step in steps if step.conda_packages for upstream in step.upstreams}
    by_pip = {upstream for step in steps if step.python_packages for upstream in step.upstreams}
    in_snippets = any(upstream_variable(name) in (step.shell or "") for step in steps)
    return name in by_pip - by_conda and not in_snippets


def _from_bundle(draft: _RoutingDraft, bundle: Bundle) -> PreparedRouting:
    recipe = draft.plan.recipe
    binds, lines = bundles.route(bundle, draft.folder, draft.runner)
    # An index of wheels is empty: it is no place to look into either. Snippets have theirs.
    indexes = {name for step in recipe.steps for name in step.upstreams}
    carried = {pin.name for pin in bundle.lock.sources}
    notes = []
    for name, upstream in recipe.upstreams.items():
        if name not in carried:
            url, note = "", None
            if name not in indexes:
                url, note = draft.upstream(str(upstream.url))
            lines.append(f"export {upstream_variable(name)}={quote(url)}")
            notes += [note] if note else []
    draft.write_script(lines)
    return PreparedRouting(
        folder=draft.folder,
        binds=((draft.folder, ROUTING_FOLDER), *binds),
        apt_sources=(),
        apt_settings=(),
        environment=draft.proxies,
        ca=draft.ca,
        credentials=draft.credentials({}),
        notes=tuple(notes),
        bundle=bundle,
    )


def for_host(plan: Plan, host: HostMachine, folder: Path) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return the variables, and notes, that route an installation on the host itself.

    The same routing as a build's, so that the same wheels come; `folder` is private and empty.
    """
    routing = plan.site.routing
    proxies = proxies_of(routing, host)
    variables = proxies | {name.upper(): value for name, value in proxies.items()}
    ca = ca_of(routing, host)
    if ca is not None:
        variables |= dict.fromkeys(CA_VARIABLES, str(ca))
    text, links = pip_config.inside(pip_of(routing, host), str(folder))
    for source, link in links:
        Path(link).parent.mkdir(exist_ok=True)
        Path(link).symlink_to(source)
    (folder / "pip.conf").write_text(text)
    variables["PIP_CONFIG_FILE"] = str(folder / "pip.conf")
    notes = []
    for name, upstream in plan.recipe.upstreams.items():
        url, note = upstream_of(routing, str(upstream.url), proxies, ca)
        variables[upstream_variable(name)] = url
        notes += [note] if note else []
    return variables, tuple(notes)


def way_out(
    routing: Routing, proxies: Mapping[str, str], ca: Path | None
) -> apt_sources.ArchiveAccess:
    """Return how a file of an archive is reached; the site may name a mirror of its address."""
    upstreams = routing.upstreams.items()
    places = {str(url): str(place) for url, place in upstreams if place not in {"auto", "none"}}
    return apt_sources.ArchiveAccess(proxies=proxies, ca=ca, places=places)


def ca_of(routing: Routing, host: HostMachine) -> Path | None:
    """Return the file of trusted authorities; raises ConfigError for one that is not there."""
    if routing.ca == "default":
        return None
    if routing.ca != "auto":
        path = Path(routing.ca)
        if not path.is_file():
            raise ConfigError(
                f"routing.ca: no file {path}",
                next_step="correct routing.ca: the path of the CA bundle",
            )
        return path
    named = [variables.text(host.environ, name) for name in CA_VARIABLES]
    candidates = [Path(name) for name in [*named, *CA_FILES] if name]
    return next((path for path in candidates if path.is_file()), None)


def pip_of(routing: Routing, host: HostMachine) -> PipSettings:
    """Return where pip looks; raises ConfigError for a folder of wheels that is not there."""
    if isinstance(routing.pip, PipRouting):
        settings = PipSettings(
            index=routing.pip.index, extra_indexes=tuple(routing.pip.extra_indexes)
        )
    elif routing.pip == "auto":
        settings = pip_config.read(host)
    else:
        settings = PipSettings()
    wheels = tuple(str(path) for path in routing.wheels)
    for path in wheels:
        if not Path(path).is_dir():
            raise ConfigError(
                f"routing.wheels: no folder {path}",
                next_step="make the folder, or remove it from routing.wheels of the site",
            )
    return pip_config.with_wheels(settings, wheels)


def _write_pip(folder: Path, pip: PipSettings) -> list[tuple[Path, str]]:
    text, binds = pip_config.inside(pip, ROUTING_FOLDER)
    (folder / PIP_CONFIG).write_text(text)
    for _, target in binds:
        (folder / target.removeprefix(f"{ROUTING_FOLDER}/")).mkdir(parents=True)
    return binds


def upstream_of(
    routing: Routing, url: str, proxies: Mapping[str, str], ca: Path | None
) -> tuple[str, str | None]:
    """Return where an upstream is reached, empty where it is not, and a note that says so."""
    choice = routing.upstreams.get(url, "auto")
    if choice == "none":
        return "", None
    if choice != "auto":
        return str(choice), None
    import requests

    try:
        requests.head(
            url,
            timeout=5,
            allow_redirects=True,
            proxies={scheme: proxies.get(f"{scheme}_proxy", "") for scheme in ("http", "https")},
            verify=str(ca) if ca else True,
        )
    except requests.RequestException as error:
        reason = type(error).__name__
        return (
            "",
            f"skipping {url}, which this host cannot reach ({reason}); using the other sources",
        )
    return url, None
