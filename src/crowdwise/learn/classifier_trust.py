"""How much of the classifier an E-step uses: clipped (Kim et al. 2022), and nothing while it knows less than shares."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from crowdwise.fitting.parameter_checks import check_number
from crowdwise.learn.losses import SMALLEST

if TYPE_CHECKING:
    from torch import Tensor

    from crowdwise.learn.batches import Crowd

__all__ = ["check_trust", "clip_probabilities", "limit_trust"]


def check_trust(trust: float, n_classes: int) -> None:
    """Refuse a limit that no distribution over the classes keeps."""
    check_number("trust", trust, low=1 / n_classes, high=1)


def clip_probabilities(f: Tensor, highest: float) -> Tensor:
    """Clip (Kim et al. 2022, section 3.3): no class above `highest`; the excess is spread over the others (B, K).

    Where a share pushes another class over the limit (more than two classes, a limit under ½), that is cut in turn; so
    the result is min(f + s, highest), with the s at which it sums to one.
    """
    for _ in range(min(f.shape[1] - 1, int(1 / highest))):  # each round fills a class, and no more can be full
        cut = (f - highest).clamp(min=0).sum(dim=1, keepdim=True)
        f = f.clamp(max=highest)
        free = f < highest
        f = f + free * cut / free.sum(dim=1, keepdim=True).clamp(min=1)
    return f / f.sum(dim=1, keepdim=True)


def limit_trust(log_f: Tensor, trust: float, crowd: Crowd, q: Tensor | None) -> Tensor:
    """Priors of the tasks' truths for an E-step (N, K), in double precision: clipped f, or uniform.

    Uniform, where the classifier's cross-entropy to q is no less than that of q's own mean: an untrained network says
    nothing yet, but what it says may agree with the truth, or its opposite, on most tasks, and workers with many labels
    would take its side and keep it.

    Parameters
    ----------
    log_f : (N, K)
    q : (N, K)
        The last posterior, or shares of votes; only tasks with labels count. None: clipped f, whatever it says.
    """
    f = clip_probabilities(log_f.double().softmax(dim=1), trust)
    if q is None:
        return f
    labelled = crowd.ptr[1:] > crowd.ptr[:-1]
    target = q[labelled].double()
    by_classifier = (target * f[labelled].clamp(min=SMALLEST).log()).sum(dim=1).mean()
    shares = target.mean(dim=0)
    by_shares = (shares * shares.clamp(min=SMALLEST).log()).sum()
    return f if bool(by_classifier > by_shares) else torch.full_like(f, 1 / f.shape[1])
