"""A user whose number this machine's directory does not know: engines start nothing then.

The directory service may be away on one node alone. Apptainer 1.4.5 says "unknown userid 54321".
"""

import re

from dlcontainer.system.machine import HostMachine

SAID = re.compile(
    r"unknown userid \d+|no passwd entry|cannot find name for user id|"
    r"could(?:n't| not) (?:determine|retrieve|get) (?:current )?user",
    re.IGNORECASE,
)
WHY = "this machine has no passwd entry for your user ID; its directory service may be down"
NEXT_STEP = (
    "use another node, try later, or tell your site's support: `getent passwd $(id -u)` must "
    "print your entry"
)


def is_unknown(host: HostMachine) -> bool:
    """Return whether the user of this host has a number alone."""
    return host.user == str(host.uid)
