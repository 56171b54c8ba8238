"""How mmdebstrap can work here: what a trial of each way does."""

from pathlib import Path

import pytest

from dlcontainer.engines import base_modes


@pytest.mark.parametrize("mode", [base_modes.ROOT, base_modes.UNSHARE, base_modes.ROOT_MAPPED])
def test_each_trial_starts_mmdebstrap_itself(mode: base_modes.BaseMode) -> None:
    # A wrapper whose program is gone changed owners all the same, and doctor said "ok".
    assert '"$1" --version >/dev/null' in " ".join(mode.trial(Path("/bin/mmdebstrap")))
