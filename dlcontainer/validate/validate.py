"""Validate: checks of an image against its record, its site and what it promises; one line each."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from dlcontainer.engines import apptainer, emulation
from dlcontainer.engines.apptainer import Apptainer
from dlcontainer.engines.base import RunSpec
from dlcontainer.engines.capabilities import Trial
from dlcontainer.errors import ChecksFailedError
from dlcontainer.formats import labels
from dlcontainer.image import layout, record, sif
from dlcontainer.image.record import Record
from dlcontainer.sites.site import Site
from dlcontainer.system import foreign_files
from dlcontainer.system.machine import Host
from dlcontainer.system.process import CommandFailedError, CommandTimeoutError, Runner

# The environment that checks run in, declared whole: nothing of the caller's reaches them.
ENVIRONMENT: Mapping[str, str] = {
    "PYTHONNOUSERSITE": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
}
PROBE = Path(__file__).resolve().parent.parent / "probe" / "inside.py"
_INSIDE = "dlcontainer/inside/1"
_TIMEOUT_S = 600.0
# Emulated training is about 100 times as slow (docs/measurements.md).
_EMULATED_TIMEOUT_S = 3600.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Check:
    """One thing that was looked at: whether it holds, and what was seen."""

    name: str
    ok: bool
    detail: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Inspector:
    """Who looks, with what."""

    engine: Apptainer
    trial: Trial
    host: Host
    runner: Runner
    on_check: Callable[[Check], None]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Inside:
    """How the image's programs are run: by whom, with what further variables, how long."""

    image: Path
    inspector: Inspector
    # Variables of the emulator; None where the image is for this host's own processor.
    emulated: Mapping[str, str] | None

    @property
    def remark(self) -> str:
        """What is said of it beside a check."""
        if self.emulated is None:
            return ""
        return "".join([", emulated by qemu", *(f" as {cpu}" for cpu in self.emulated.values())])

    def __call__(self, argv: tuple[str, ...], stdin: str | None = None) -> str:
        inspector = self.inspector
        spec = RunSpec(
            image=self.image,
            argv=argv,
            mode=inspector.trial.run_mode or "plain",
            environment={**ENVIRONMENT, **(self.emulated or {})},
        )
        return inspector.runner(
            inspector.engine.run_argv(spec),
            env=apptainer.environment(inspector.host.environ),
            stdin=stdin,
            timeout=_TIMEOUT_S if self.emulated is None else _EMULATED_TIMEOUT_S,
        ).stdout


def validate(
    image: Path, site: Site | None, inspector: Inspector, written: Record | None = None
) -> list[Check]:
    """Check an image; every check is reported as it is made.

    `written` is what its record says, of who has read that already.

    Raises ChecksFailedError for a file that is no image, EngineError for an engine that can't run.
    """
    checks: list[Check] = []

    def add(name: str, ok: bool, detail: str) -> bool:
        checks.append(Check(name=name, ok=ok, detail=detail))
        inspector.on_check(checks[-1])
        return ok

    arch = sif.arch(image)
    wanted = site.arch if site else inspector.host.arch
    hint = "" if site or arch == wanted else "; for another site's image name it: --site"
    if not add("architecture", arch == wanted, f"{arch}, wanted {wanted}{hint}"):
        return checks
    written = written or record.read(record.beside(image))
    _check_file(image, written, add)
    _check_labels(image, written, inspector, add)
    inside = _inside(image, site, inspector, add)
    if inside is None:
        return checks
    seen = _look_inside(inside, add)
    if seen is not None:
        _check_inside(seen, written, arch, add)
        _run_verify(inside, seen, add)
    return checks


_Add = Callable[[str, bool, str], bool]


def _inside(image: Path, site: Site | None, inspector: Inspector, add: _Add) -> _Inside | None:
    if site is None or site.arch == inspector.host.arch:
        return _Inside(image=image, inspector=inspector, emulated=None)
    missing = emulation.obstacle(site.arch)
    if missing is not None:
        why, cure = missing
        add("runs", False, f"no {site.arch} program runs here: {why}; root types once: {cure}")
        return None
    emulated = emulation.environment(site.arch)
    return _Inside(image=image, inspector=inspector, emulated=emulated)


def _check_file(image: Path, written: Record | None, add: _Add) -> None:
    if written is None:
        add("record", False, f"no {record.beside(image).name} beside the image")
        return
    import hashlib

    with image.open("rb") as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    same = sha256 == written.image.sha256
    detail = f"sha256 {sha256[:12]}…" if same else f"sha256 {sha256[:12]}… is not the record's"
    add("record", same, f"{detail}, {image.stat().st_size / 1e6:.0f} MB")


def _check_labels(image: Path, written: Record | None, inspector: Inspector, add: _Add) -> None:
    env = apptainer.environment(inspector.host.environ)
    try:
        answer = inspector.runner(inspector.engine.inspect_argv(image), env=env)
        attributes = foreign_files.loads(answer.stdout)["data"]["attributes"]
        found = attributes["labels"] or {}
    except (CommandFailedError, ValueError, KeyError, TypeError) as error:
        add("labels", False, f"the engine could not read them: {error}")
        return
    digest = found.get(f"{labels.PREFIX}.digest", "")
    if not digest:
        add("labels", False, "no digest: not an image of dlcontainer")
    elif written is not None and digest != f"sha256:{written.digest}":
        add("labels", False, f"digest {digest[7:19]}… is not the record's {written.digest[:12]}…")
    else:
        title = found.get("org.opencontainers.image.title", "?")
        version = found.get("org.opencontainers.image.version", "?")
        add("labels", True, f"{title} {version}, plan {digest[7:19]}…")


def _look_inside(inside: _Inside, add: _Add) -> dict[str, object] | None:
    # The shell finds the image's own Python through the manifest: the image may hold no other.
    find = (
        f'python=$(sed -n \'s/^ "python": "\\(.*\\)",$/\\1/p\' {layout.MANIFEST}) && '
        'exec "$python" - "$@"'
    )
    argv = ("/bin/sh", "-c", find, "sh", *sorted(inside.emulated or {}))
    try:
        answer = inside(argv, PROBE.read_text())
        seen = foreign_files.loads(answer)
        if not isinstance(seen, dict) or seen.get("schema") != _INSIDE:
            raise ValueError("the image's Python did not answer as the probe does")
    except CommandFailedError as error:
        lines = [line for line in error.completed.stderr.splitlines() if line.strip()]
        add("runs", False, lines[-1] if lines else str(error))
        return None
    except (CommandTimeoutError, ValueError) as error:
        add("runs", False, str(error))
        return None
    add("runs", True, f"engine mode {inside.inspector.trial.run_mode}{inside.remark}")
    return seen


def _check_inside(seen: Mapping[str, object], written: Record | None, arch: str, add: _Add) -> None:
    add("machine", seen["machine"] == arch, f"{seen['machine']} inside")
    prefix = str(seen["prefix"])
    add("python", seen["sys_prefix"] == prefix, f"{seen['python']} in {seen['sys_prefix']}")
    if written is not None:
        same = seen["digest"] == written.digest
        add("manifest", same, f"plan {str(seen['digest'])[:12]}…")
    imports = seen["imports"]
    # A recipe may put the distribution's packages on its environment's path; what else is on it
    # shows in "host stays out".
    places = (f"{prefix}/", f"{seen['packages']}/")
    for entry in imports if isinstance(imports, list) else []:
        ok = entry["version"] == entry["wanted"] and str(entry["file"]).startswith(places)
        detail = entry["error"] or f"{entry['version']} from {entry['file']}"
        if entry["version"] != entry["wanted"]:
            detail += f", wanted {entry['wanted']}"
        add(f"import {entry['module']}", ok, detail)
    leaks = seen["leaks"]
    add("host stays out", not leaks, _listed(leaks) or "no variable, user site or path of the host")
    leftovers = seen["leftovers"]
    add(
        "no leftovers", not leftovers, _listed(leftovers) or "no cache, log, token or CA of a build"
    )


def _listed(found: object) -> str:
    return ", ".join(str(item) for item in found) if isinstance(found, list) else ""


def _run_verify(inside: _Inside, seen: Mapping[str, object], add: _Add) -> None:
    argv = (str(seen["interpreter"]), str(seen["verify"]))
    try:
        answer = inside(argv)
    except CommandFailedError as error:
        text = error.completed.stdout + error.completed.stderr
        lines = [line for line in text.splitlines() if line.strip()]
        add("verify", False, lines[-1] if lines else str(error))
        return
    except CommandTimeoutError as error:
        add("verify", False, str(error))
        return
    lines = answer.strip().splitlines()
    try:
        said = foreign_files.loads(lines[-1])
        ok = said.pop("ok") is True
        what = said.pop("what")
        rest = ", ".join(f"{key} {value}" for key, value in sorted(said.items()))
        add("verify", ok, f"{what}: {rest}{inside.remark}")
    except (ValueError, KeyError, IndexError, AttributeError, TypeError):
        add("verify", False, "the script printed no JSON object with 'ok' and 'what'")


def require_ok(checks: list[Check]) -> None:
    """Raise ChecksFailedError that names the failed checks, if there are any."""
    failed = [check.name for check in checks if not check.ok]
    if failed:
        raise ChecksFailedError(
            f"{len(failed)} of {len(checks)} checks failed: {', '.join(failed)}",
            next_step="build the image again, or read the lines marked FAILED above",
        )
