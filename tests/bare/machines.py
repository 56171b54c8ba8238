"""The bare machines: a release, a user, and what is there or missing."""

from dataclasses import dataclass, replace
from typing import Literal

Release = Literal["bookworm", "trixie"]
# What `make demo` comes to: its report, or an end in the first minute that names the ways on.
Outcome = Literal["report", "stops"]
# `make demo`, `make test`, or a first image in three commands.
Goal = Literal["demo", "test", "image"]

# With these alone the README's two commands are to work.
PACKAGES = ("ca-certificates", "git", "make", "python3")


@dataclass(frozen=True, kw_only=True, slots=True)
class Machine:
    """A bare Debian and the account that types the commands there."""

    name: str
    release: Release
    user: str = "ada"
    # Lines in /etc/subuid and /etc/subgid, as useradd writes them.
    subordinate_ids: bool = True
    # Installed beside PACKAGES.
    packages: tuple[str, ...] = ()
    home_mode: int = 0o755
    fuse: bool = True
    # No apt, dpkg, perl and mmdebstrap: a host of another family, with an engine on PATH.
    stripped: bool = False
    # What its centre has beside that engine.
    handed: Literal["bundle", "registry"] | None = None
    goal: Goal = "demo"
    outcome: Outcome = "report"

    @property
    def title(self) -> str:
        """The machine in words, for the table."""
        number = {"bookworm": "12", "trixie": "13"}[self.release]
        words = [f"Debian {number}", "root" if self.user == "root" else "user"]
        if self.user != "root":
            words.append("with subordinate ids" if self.subordinate_ids else "no subordinate ids")
            words.append("newuidmap" if "uidmap" in self.packages else "no newuidmap")
        words += ["home 0700"] if self.home_mode == 0o700 else []
        words += [] if self.fuse else ["no /dev/fuse"]
        words += ["no apt, dpkg, perl, mmdebstrap"] if self.stripped else []
        words += [f"a {self.handed} handed in"] if self.handed else []
        return f"{words[0]} {words[1]}" + "".join(f", {word}" for word in words[2:])


# Of Pythons only Debian's and Ubuntu's come without ensurepip.
_STRIPPED = Machine(
    name="12-stripped",
    release="bookworm",
    packages=("python3-venv",),
    stripped=True,
    outcome="stops",
)
_ALL = (
    Machine(name="12-root", release="bookworm", user="root"),
    Machine(name="12-ids", release="bookworm"),
    Machine(name="12-no-ids", release="bookworm", subordinate_ids=False),
    Machine(name="12-uidmap", release="bookworm", packages=("uidmap",)),
    Machine(
        name="12-closed",
        release="bookworm",
        subordinate_ids=False,
        home_mode=0o700,
        fuse=False,
    ),
    _STRIPPED,
    replace(_STRIPPED, name="12-stripped-bundle", handed="bundle", outcome="report"),
    replace(_STRIPPED, name="12-stripped-registry", handed="registry", goal="image"),
    Machine(name="13-root", release="trixie", user="root"),
    Machine(name="13-ids", release="trixie", home_mode=0o700),
    Machine(name="13-no-ids", release="trixie", subordinate_ids=False, home_mode=0o700),
)
MACHINES = {machine.name: machine for machine in _ALL}
