#!/usr/bin/env python3
"""What `bench trace` costs a call of MPI: one process, with the preloaded library and without.

Runs of a C program alternate with the library and without; in each a block of all-reduces on
MPI_COMM_SELF and one of message pairs to itself (Irecv, Isend, Waitall) are timed. Said are ns a
call in the median, and what the library adds, with the quartiles of its pairs of runs. Needs an
MPI with `mpicc` and its headers; its launcher's words may be given.

    python benchmarks/mpi_call.py [--mpicc mpicc] [--launcher "mpirun -n 1"] [--pairs 20] [--json]
"""

import argparse
import json
import os
import platform
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != HERE]
SOURCE = HERE.parent / "dlcontainer" / "bench" / "job" / "mpi_calls.c"
CALLS = 20_000

import statistics

PROGRAM = f"""\
#include <mpi.h>
#include <stdio.h>
int main(int n, char **words)
{{
    double one = 1, sum = 0, begin;
    MPI_Request two[2];
    MPI_Init(&n, &words);
    for (int round = 0; round < 2; round++) {{
        begin = MPI_Wtime();
        for (int i = 0; i < {CALLS}; i++)
            MPI_Allreduce(&one, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_SELF);
        if (round) printf("allreduce %.3f\\n", 1e9 * (MPI_Wtime() - begin) / {CALLS});
        begin = MPI_Wtime();
        for (int i = 0; i < {CALLS}; i++) {{
            MPI_Irecv(&sum, 1, MPI_DOUBLE, 0, 7, MPI_COMM_SELF, two);
            MPI_Isend(&one, 1, MPI_DOUBLE, 0, 7, MPI_COMM_SELF, two + 1);
            MPI_Waitall(2, two, MPI_STATUSES_IGNORE);
        }}
        if (round) printf("message %.3f\\n", 1e9 * (MPI_Wtime() - begin) / {CALLS});
    }}
    return MPI_Finalize();
}}
"""
WORDS = ["-std=gnu99", "-O2", "-shared", "-fPIC", "-fvisibility=hidden", "-Wl,--as-needed"]


def run(argv: list[str], folder: str, library: str) -> dict[str, float]:
    """Run the program; return ns of each kind of its loops."""
    more = {"LD_PRELOAD": library, "DLCONTAINER_MPI_TRACE": folder} if library else {}
    done = subprocess.run(
        argv, env={**os.environ, **more}, capture_output=True, text=True, check=True
    )
    lines = (line.split() for line in done.stdout.splitlines())
    return {words[0]: float(words[1]) for words in lines if len(words) == 2}


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--mpicc", default="mpicc")
    parser.add_argument("--launcher", default="")
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        program, library = f"{folder}/program", f"{folder}/calls.so"
        Path(f"{program}.c").write_text(PROGRAM)
        subprocess.run([options.mpicc, "-O2", f"{program}.c", "-o", program], check=True)
        words = [options.mpicc, *WORDS, str(SOURCE), "-o", library, "-ldl", "-lpthread"]
        subprocess.run(words, check=True)
        argv = [*shlex.split(options.launcher), program]
        pairs = [(run(argv, folder, ""), run(argv, folder, library)) for _ in range(options.pairs)]
    body: dict[str, object] = {"machine": platform.processor() or platform.machine()}
    for kind in pairs[0][0]:
        added = [after[kind] - before[kind] for before, after in pairs]
        low, middle, high = statistics.quantiles(added, n=4)
        body[kind] = {
            "without_ns": statistics.median(before[kind] for before, _ in pairs),
            "added_ns": middle,
            "quartiles_ns": [low, high],
        }
    if options.json:
        print(json.dumps(body))
    else:
        for name, said in body.items():
            print(f"{name}: {said}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
