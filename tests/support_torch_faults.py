"""Mistakes planted into the PyTorch engine, each the twin of a seeded fault of the reference, written anew.

Only PyTorch's side is patched, by what its modules look up; the reference is as it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest.mock import patch

ENGINE = "cai_conformance.backends.torch"
Plant = Callable[[], AbstractContextManager[Any]]


def _rope(base: float | None = None, *, flipped: bool = False) -> Plant:
    def plant() -> AbstractContextManager[Any]:
        from cai_conformance.backends.torch.attention import TorchRope

        return patch(f"{ENGINE}.models.Rope", lambda own, adjacent: TorchRope(base or own, adjacent is not flipped))

    return plant


def _positions_restart() -> AbstractContextManager[Any]:
    from cai_conformance.backends.torch.attention import TorchRope

    right = TorchRope.__call__
    return patch.object(TorchRope, "__call__", lambda self, x, positions: right(self, x, positions - positions[:, :1]))


def _keys_unrotated() -> AbstractContextManager[Any]:
    """Of four query heads and two key heads, leave what has two heads as it is."""
    from cai_conformance.backends.torch.attention import TorchRope

    right = TorchRope.__call__
    return patch.object(
        TorchRope, "__call__", lambda self, x, positions: x if x.shape[1] == 2 else right(self, x, positions)
    )


def _window_plus_one() -> AbstractContextManager[Any]:
    from cai_conformance.backends.torch.attention import visible

    def wrong(call: Any, past: Any, window: int | None) -> Any:
        return visible(call, past, None if window is None else window + 1)

    return patch(f"{ENGINE}.attention.visible", wrong)


def _attend(change: Callable[..., tuple[Any, Any, Any]]) -> Plant:
    def plant() -> AbstractContextManager[Any]:
        from cai_conformance.backends.torch.attention import attend

        def wrong(query: Any, key: Any, value: Any, seen: Any, observe: Any) -> Any:
            return attend(*change(query, key, value), seen, observe)

        return patch(f"{ENGINE}.attention.attend", wrong)

    return plant


def _strided(query: Any, key: Any, value: Any) -> tuple[Any, Any, Any]:
    times = query.shape[1] // key.shape[1]
    return query, key.repeat(1, times, 1, 1), value.repeat(1, times, 1, 1)


def _scaled_by_width(query: Any, key: Any, value: Any) -> tuple[Any, Any, Any]:
    return query / math.sqrt(query.shape[1]), key, value


def _epsilon(epsilon: float) -> Plant:
    def plant() -> AbstractContextManager[Any]:
        import torch

        right = torch.nn.RMSNorm
        return patch(f"{ENGINE}.models.nn.RMSNorm", lambda width, eps: right(width, eps=epsilon))

    return plant


def _epsilon_outside() -> AbstractContextManager[Any]:
    import torch

    def forward(self: Any, x: Any) -> Any:
        return x / (x.pow(2).mean(dim=-1, keepdim=True).sqrt() + self.eps) * self.weight

    return patch.object(torch.nn.RMSNorm, "forward", forward)


def _last_maximum() -> AbstractContextManager[Any]:
    import torch

    right = torch.argmax
    return patch(f"{ENGINE}.generation.torch.argmax", lambda row: len(row) - 1 - right(row.flip(0)))


def _decay_after() -> AbstractContextManager[Any]:
    import torch

    right = torch.optim.AdamW.step

    def step(self: Any) -> None:
        decays = [group["weight_decay"] for group in self.param_groups]
        for group in self.param_groups:
            group["weight_decay"] = 0.0
        right(self)
        for group, decay in zip(self.param_groups, decays, strict=True):
            group["weight_decay"] = decay
            with torch.no_grad():
                for parameter in group["params"]:
                    parameter.mul_(1.0 - group["lr"] * decay)

    return patch.object(torch.optim.AdamW, "step", step)


def _coupled_decay() -> AbstractContextManager[Any]:
    import torch

    return patch(f"{ENGINE}.training.torch.optim.AdamW", torch.optim.Adam)


def _betas_exchanged() -> AbstractContextManager[Any]:
    import torch

    right = torch.optim.AdamW
    wrong = lambda groups, betas, **more: right(groups, betas=(betas[1], betas[0]), **more)  # noqa: E731
    return patch(f"{ENGINE}.training.torch.optim.AdamW", wrong)


TORCH_FAULTS: dict[str, tuple[str, Plant]] = {
    "rope.adjacent": ("llama.dense", _rope(flipped=True)),
    "rope.base-10000": ("llama.gqa-window", _rope(10000.0)),
    "rope.restart": ("llama.dense", _positions_restart),
    "window.plus-one": ("llama.gqa-window", _window_plus_one),
    "attention.keys-unrotated": ("llama.gqa-window", _keys_unrotated),
    "attention.groups-strided": ("llama.gqa-window", _attend(_strided)),
    "attention.scale-model-width": ("llama.dense", _attend(_scaled_by_width)),
    "norm.eps-1e-5": ("llama.dense", _epsilon(1e-5)),
    "norm.eps-outside": ("llama.dense", _epsilon_outside),
    "argmax.last-maximum": ("llama.dense", _last_maximum),
    "adamw.coupled-decay": ("llama.dense", _coupled_decay),
    "adamw.decay-after-update": ("llama.dense", _decay_after),
    "adamw.betas-exchanged": ("llama.dense", _betas_exchanged),
}
"""By the slug of the seeded fault: the suite in which it shows, and how it is planted."""


@contextmanager
def planted_in_torch(slug: str) -> Iterator[str]:
    """Make the PyTorch engine wrong for a while; yield the suite in which that shows."""
    suite, plant = TORCH_FAULTS[slug]
    with plant():
        yield suite
