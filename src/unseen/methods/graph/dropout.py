"""Dropout masks, drawn from a generator of their own so that a resumed training draws what it would have drawn."""

from __future__ import annotations

import torch
from torch import Tensor


class Masks:
    """Draws the mask of each layer's input: 0 with probability `rate`, else 1 / (1 - rate).

    At rate 0.5 a mask needs one random bit an entry: on a CPU, bytes of random bits are looked up in a table of 256 x 8
    factors, which costs a tenth of drawing a uniform number for each entry. The memory of a layer's mask is used again
    at the next draw for that layer, so a mask is valid until then.

    Args:
        rate: Share of the entries that are 0.
        generator: Where the random numbers come from, and on which device.
        dtype: Of the masks.
        first: The layers before it drop nothing.
    """

    def __init__(self, rate: float, generator: torch.Generator, dtype: torch.dtype = torch.float32, first: int = 0):
        self.rate, self.generator, self.dtype, self.first = rate, generator, dtype, first
        bits = (torch.arange(256)[:, None] >> torch.arange(8)) & 1
        self._table = (bits * 2).to(generator.device, dtype)
        self._memory: dict[int, tuple[Tensor, Tensor]] = {}

    def __call__(self, layer: int, shape: torch.Size) -> Tensor | None:
        if self.rate == 0 or layer < self.first:
            return None
        if layer not in self._memory or self._memory[layer][1].numel() < shape.numel():
            words = -(-shape.numel() // 64)
            random = torch.empty(words, dtype=torch.int64, device=self.generator.device)
            self._memory[layer] = random, torch.empty(words * 8, 8, dtype=self.dtype, device=self.generator.device)
        random, mask = self._memory[layer]
        flat = mask.view(-1)[: shape.numel()]
        if self.rate == 0.5 and random.device.type == "cpu":
            random.random_(-(2**63), None, generator=self.generator)
            torch.index_select(self._table, 0, random.view(torch.uint8).int(), out=mask)
        else:
            flat.uniform_(generator=self.generator)
            torch.ge(flat, self.rate, out=flat).mul_(1 / (1 - self.rate))
        return flat.view(shape)
