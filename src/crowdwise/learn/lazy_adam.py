"""Adam whose sparse gradients move only the rows that they name.

D. P. Kingma and J. Ba (2015), "Adam: a method for stochastic optimization", ICLR, algorithm 1, with a clock for each
row: at a step whose gradient names row w,

| algorithm 1, for row w alone | here |
|---|---|
| t[w] ← t[w] + 1 | `step` (rows,) |
| m[w] ← β₁ m[w] + (1 − β₁) g[w], v[w] ← β₂ v[w] + (1 − β₂) g[w]² | `exp_avg`, `exp_avg_sq` |
| θ[w] ← θ[w] − α (m[w] / (1 − β₁^t[w])) / (√(v[w] / (1 − β₂^t[w])) + ε) | the parameter |

and rows that it does not name stay as they are. This is, exactly, Adam with each row a parameter of its own that has no
gradient at other steps. Dense Adam would go on moving a row by its decaying mean; the two agree where every gradient
names every row. A step costs O(rows named), not O(rows).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

__all__ = ["LazyAdam", "take_rows"]


class _TakeRows(torch.autograd.Function):
    """Some rows of a parameter, each named once; the gradient is sparse."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, rows: Tensor) -> Tensor:
        """values[rows]."""
        ctx.save_for_backward(rows)
        ctx.shape = values.shape
        return values.index_select(0, rows)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        """The gradient of the rows, the others left out."""
        (rows,) = ctx.saved_tensors
        sparse = torch.sparse_coo_tensor(
            rows[None], gradient.contiguous(), ctx.shape, is_coalesced=True, check_invariants=False
        )
        return sparse, None


def take_rows(parameter: Tensor, rows: Tensor) -> Tensor:
    """Rows of a parameter, rising and each named once, whose gradient moves no other row."""
    taken: Tensor = _TakeRows.apply(parameter, rows)  # type: ignore[no-untyped-call]
    return taken


class LazyAdam(torch.optim.Adam):
    """Adam; a parameter whose gradient is sparse moves in the rows that the gradient names."""

    _table: tuple[Tensor, Tensor] | None = None  # see `_corrections`
    _most = 0  # no row has taken more steps than this

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Take one step: torch's own for dense gradients, then the rows of sparse ones."""
        sparse = []
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None and parameter.grad.is_sparse:
                    sparse.append((parameter, parameter.grad, group))
                    parameter.grad = None  # torch's step passes over it
                elif parameter in self.state and self.state[parameter]["step"].ndim:
                    # A checkpoint of lazy steps that goes on with dense ones.
                    self.state[parameter]["step"] = self.state[parameter]["step"].max()
        found = super().step(closure)
        for parameter, gradient, group in sparse:
            self._move_rows(parameter, gradient, group)
        return found

    def _move_rows(self, parameter: Tensor, gradient: Tensor, group: dict[str, Any]) -> None:
        state, (slow, slower) = self.state[parameter], group["betas"]
        if not state:
            state["exp_avg"], state["exp_avg_sq"] = torch.zeros_like(parameter), torch.zeros_like(parameter)
            state["step"] = torch.zeros(len(parameter), dtype=torch.float32, device=parameter.device)
        if not state["step"].ndim:  # a checkpoint of dense steps that goes on with lazy ones
            state["step"] = state["step"].expand(len(parameter)).clone()
        rows, g = gradient._indices()[0], gradient._values()
        mean = state["exp_avg"].index_select(0, rows).lerp_(g, 1 - slow)
        square = state["exp_avg_sq"].index_select(0, rows).mul_(slower).addcmul_(g, g, value=1 - slower)
        steps = state["step"].index_select(0, rows).add_(1)
        state["exp_avg"].index_copy_(0, rows, mean)
        state["exp_avg_sq"].index_copy_(0, rows, square)
        state["step"].index_copy_(0, rows, steps)
        rate, small = (
            each.index_select(0, steps.long()).view(-1, *(1 for _ in g.shape[1:]))
            for each in self._corrections(state["step"], g, group)
        )
        parameter.index_add_(0, rows, mean.mul_(rate).div_(square.sqrt_().add_(small)), alpha=-group["lr"])

    def _corrections(self, steps: Tensor, like: Tensor, group: dict[str, Any]) -> tuple[Tensor, Tensor]:
        """√(1 − β₂^t) / (1 − β₁^t) and ε √(1 − β₂^t) by t, so that m times the one over √v plus the other is the step.

        Rows are at different counts t, and powers of each would take more time than all else: they are looked up.
        """
        self._most += 1
        if self._table is None or self._most >= len(self._table[0]):
            self._most = int(steps.max())
            slow, slower = group["betas"]
            t = torch.arange(1, 2 * self._most + 4096, dtype=torch.float64, device=like.device)
            root = (1 - slower**t).sqrt()
            tables = root / (1 - slow**t), group["eps"] * root
            first, second = (torch.cat([each[:1], each]).to(like.dtype) for each in tables)  # from t = 1 on
            self._table = first, second
        return self._table
