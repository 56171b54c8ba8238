"""Words that start ranks: a job's own count of all comes before those that count a node's."""

import pytest

from dlcontainer.formats import job_ranks
from dlcontainer.sites.facts import LaunchForm


@pytest.mark.parametrize(
    ("words", "added"),
    [
        ("srun --nodes={nodes} --ntasks-per-node=1", True),
        ("srun -N{nodes} --tasks-per-node={ranks_per_node} -c7", True),
        ("/usr/bin/srun --nodes={nodes} --ntasks-per-node 1", True),
        ("srun -n {ranks} --ntasks-per-node=1", False),
        ("srun -n{nodes} --ntasks-per-node=1", False),
        ("srun --nodes={nodes} --ntasks={ranks} --ntasks-per-node=1", False),
        ("srun --mpi=pmix", False),
        ("mpiexec --ppn {ranks_per_node}", False),
    ],
)
def test_srun_counts_all_ranks(words: str, added: bool) -> None:
    form = LaunchForm(summary="s", launcher=tuple(words.split()), ranks_per_node=1)
    program, *others = form.launcher
    wanted = (program, "--ntasks={ranks}", *others) if added else form.launcher
    assert job_ranks.launcher_words(form, "slurm") == wanted
