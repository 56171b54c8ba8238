"""Start ranks on the hosts of a `lab slownet`, or one command on one of them.

Run by path in the first host, through two words that lie on the command's PATH:

dlc-launch RANKS RANKS_PER_HOST COMMAND...   ranks in blocks, host by host, numbered as PALS does
dlc-on HOST COMMAND...                       one command on a host
"""

import json
import os
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from dlcontainer.lab.slownet import spaces
from dlcontainer.system import rank_processes
from dlcontainer.system.rank_processes import RankProcess


def placed(ranks: int, per_host: int, hosts: Mapping[str, int]) -> list[RankProcess]:
    """Lay ranks on hosts in blocks; raises ValueError where there are too few hosts."""
    if ranks < 1 or per_host < 1 or -(-ranks // per_host) > len(hosts):
        raise ValueError(f"{ranks} ranks at {per_host} per host do not fit on {len(hosts)} hosts")
    names = list(hosts)
    return [
        RankProcess(
            number=number,
            local=number % per_host,
            host=names[number // per_host],
            enter=partial(spaces.enter, hosts[names[number // per_host]]),
        )
        for number in range(ranks)
    ]


def main() -> None:
    """Read the words, `launch` or `on` first; exit with the command's code."""
    ready, what, *words = sys.argv[1:]
    hosts = json.loads(Path(ready).read_text())["hosts"]
    try:
        if what == "on":
            name, *argv = words
            spaces.enter(hosts[name])
            os.execvp(argv[0], argv)  # noqa: S606 - no shell is what we want
        number, per_host, *argv = words
        ranks = placed(int(number), int(per_host), hosts)
    except (ValueError, KeyError, IndexError) as error:
        sys.exit(
            f"slownet: {error}; dlc-launch RANKS RANKS_PER_HOST COMMAND..., dlc-on HOST COMMAND..."
        )
    except OSError as error:
        sys.exit(f"slownet: {words}: {error.strerror}")
    sys.exit(rank_processes.launch(ranks, argv, "slownet"))


if __name__ == "__main__":
    main()
