"""A process that is forked after training can predict and train: OpenMP's threads stayed behind in the parent."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="processes cannot fork here")

# More threads than one, and features enough for torch to share out its work among them.
FORK_AFTER_TRAINING = """
import os, signal, sys
import numpy as np
import torch
import crowdwise as cw
from crowdwise.audit.covariance_spammers import find_covariance_spammers

torch.set_num_threads(2)
labels = cw.CrowdLabels.from_dense(np.random.default_rng(1).integers(2, size=(400, 3)))
X = np.random.default_rng(2).normal(size=(400, 500))

def train():
    return cw.learner("crowd-layer").make(network="linear", epochs=1, batch_size=200).fit(X, labels)

model = train()
find_covariance_spammers(labels)
child = os.fork()
if not child:
    signal.alarm(20)
    assert torch.get_num_threads() == 1
    model.predict_proba(X)
    train()
    find_covariance_spammers(labels)
    os._exit(0)
assert torch.get_num_threads() == 2
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_fork_after_training() -> None:
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORK_AFTER_TRAINING],
        capture_output=True,
        text=True,
        check=False,
        env={name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"},
    )
    assert (ran.returncode, ran.stderr) == (0, "")
