"""Commands of the site: after each switch of its tree, and before an image is copied into it.

They are the publisher's own processes. One that fails is a warning: without it the tree is slower,
or a cache of module names is old, and everything in it works all the same.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from dlcontainer.sites.site import Site
from dlcontainer.system.process import (
    CommandFailedError,
    CommandNotFoundError,
    CommandTimeoutError,
    Runner,
    quote,
)

# The tree is held meanwhile, and other publishers wait for ten minutes.
AFTER_S = 300.0
_STRIPE_S = 60.0
_LONGEST = 300  # characters of a command's own message


@dataclass(frozen=True, kw_only=True, slots=True)
class SiteCommands:
    """The site's argv, empty where it has none."""

    after_publish: tuple[str, ...] = ()
    stripe: tuple[str, ...] = ()

    @classmethod
    def of(cls, site: Site) -> "SiteCommands":
        """Take those of a site."""
        return cls(after_publish=site.modules.after_publish, stripe=site.modules.stripe)


def follow(commands: SiteCommands, runner: Runner, note: Callable[[str], None]) -> None:
    """Run the command that follows a switch; where it fails, say what to type."""
    argv = commands.after_publish
    if not argv:
        return
    why = _failed(argv, runner, AFTER_S)
    if why is not None:
        note(
            f"the switch is done, but modules.after_publish failed: {why}; run it again: "
            + quote(argv)
        )


def stripe(
    commands: SiteCommands, folder: Path, runner: Runner, note: Callable[[str], None]
) -> None:
    """Set the layout of what will be written in a folder; where it fails, it is the usual one."""
    if not commands.stripe:
        return
    why = _failed((*commands.stripe, str(folder)), runner, _STRIPE_S)
    if why is not None:
        note(f"the image gets the default striping, because modules.stripe failed: {why}")


def _failed(argv: tuple[str, ...], runner: Runner, limit_s: float) -> str | None:
    try:
        runner(argv, timeout=limit_s)
    except CommandFailedError as error:
        done = error.completed
        text = (done.stderr.strip() or done.stdout.strip()).rpartition("\n")[2]
        return f"exit code {done.returncode}{': ' * bool(text)}{text[:_LONGEST]}"
    except CommandTimeoutError:
        return f"it did not finish in {limit_s:g} seconds"
    except CommandNotFoundError as error:
        return str(error)
    except OSError as error:
        return error.strerror or str(error)
    return None
