"""Hold nine parallel strategies, and twelve wrong trainings, against one process.

usage: hybrid_gate.py PYTHON, one with PyTorch 2.6 or newer. Up to 8 ranks of one thread on this
host, by gloo: more ranks than cores take turns, so that no time here says anything. Prints the
gate's largest difference of losses and of weights in six steps of SGD; exit code 1 where a right
training is refused, or a wrong one is not.
"""

import json
import os
import secrets
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
PROBE = HERE.parent / "dlcontainer/probe"
NETWORK = HERE / "hybrid/hybrid_network.py"
RIGHT = (
    *("dp2", "tp2", "pp2", "dp2xtp2", "dp2xpp2", "tp2xpp2", "dp2xtp2xpp2"),
    *("fsdp2xtp2", "fsdp2xpp2"),
)
# A wrong training, and the strategy that it is planted in.
WRONG = {
    "summed": "dp2xtp2",
    "not averaged": "dp2xtp2",
    "one not averaged": "dp2xpp2",
    "micro twice": "pp2",
    "micro summed": "pp2",
    "stale": "dp2xtp2",
    "skipped": "dp2",
    "no momentum": "pp2",
    "reversed": "pp2",
    "shifted": "tp2",
    "other start": "tp2",
    "alone": "dp2",
}


def ranks_of(strategy: str) -> int:
    """Count a strategy's ranks."""
    ranks = 1
    for term in strategy.split("x"):
        ranks *= int(term.lstrip("dfstp"))
    return ranks


def free_ports() -> list[int]:
    """Find two free ports."""
    with socket.socket() as first, socket.socket() as second:
        for one in (first, second):
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in (first, second)]


def launched(python: str, strategy: str, wrong: str = "", *more: str) -> list[dict[str, Any]]:
    """Start the ranks of one launch with its gate; give what each of them said."""
    ranks, (meet, master) = ranks_of(strategy), free_ports()
    with tempfile.TemporaryDirectory() as folder:
        environment = {
            **os.environ,
            "DLC_RANKS": str(ranks),
            "DLC_RANKS_RESULTS": folder,
            "DLC_RANKS_MEET": f"127.0.0.1:{meet}",
            "DLC_RANKS_TOKEN": secrets.token_hex(16),
            "DLC_RANKS_START": "natural",
            "DLC_RANKS_PER_NODE": str(ranks),
            "DLC_RANKS_PATIENCE": "600",
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(master),
            "OMP_NUM_THREADS": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
            "PLANT": wrong,
        }
        words = [python, "-S", str(PROBE), "train", "--threads", "1", "--device", "cpu"]
        words += ["--script", f"{NETWORK.name}:build", "--script-at", str(NETWORK.parent)]
        words += ["--parallel", strategy, "--gate", "--steps", "2", "--warmup", "1", *more]
        started = [
            subprocess.Popen(
                words,
                env={**environment, "DLC_RANK": str(rank), "DLC_LOCAL_RANK": str(rank)},
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
            )
            for rank in range(ranks)
        ]
        errors = [process.communicate()[1] for process in started]
        bodies = [json.loads(path.read_text()) for path in sorted(Path(folder).glob("*.json"))]
        for body, error in zip(bodies, errors, strict=False):
            body["stderr"] = error
        return bodies


def main() -> int:
    """Print the table."""
    bad = 0
    print(f"load {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores")
    cases = [(strategy, "") for strategy in RIGHT]
    cases += [(strategy, wrong) for wrong, strategy in WRONG.items()]
    for strategy, wrong in cases:
        (body, *_) = launched(sys.argv[1], strategy, wrong)
        gate = body.get("gate") or {}
        as_wanted = bool(gate) and gate["ok"] == (not wrong)
        bad += not as_wanted
        said = f"{gate['loss']:8.1e} {gate['weights']:8.1e}" if gate else str(body.get("error"))
        word = "equal" if gate.get("ok") else "refused"
        print(f"{strategy:12} {wrong or '-':17} {said} {word}{'' if as_wanted else '  WRONG'}")
    print(f"load {os.getloadavg()[0]:.1f}")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
