r"""Which of very many classes can be among a photo's best k: a scan of a copy of the class matrix with 8 bits a number.

Row w is kept as s q, q whole numbers from -127 to 127, with :math:`|w - s q|`. The scan gives an estimate e of
:math:`w \cdot x` from x rounded to x', and

.. math:: |e - w \cdot x| \le |w - s q| \, |x| + |s q| \, |x - x'| + \text{rounding} = b

by Cauchy and Schwarz. So the k-th greatest of all e - b is no more than the k-th greatest score, and a class whose
e + b is below it has k better ones: nothing is missed. Those that are left, usually a few dozen, are scored exactly.

A tree over the rows or fewer dimensions (principal components) would read less, but bounds that come from them leave a
tenth of the classes or more, for the weights lie in a thousand directions; an approximate index would miss some.
"""

from __future__ import annotations

import platform
from collections.abc import Callable

import torch
from torch import Tensor

MANY = 1 << 15  # classes: of fewer, all are scored in a moment
FEW_PHOTOS = 8  # at a time: with more, all scores cost less than as many scans
BLOCK = 4096  # classes that are copied at a time
STEP = 32  # widths are multiples of it: torch's product reads beyond the end of others
HALF = 2.0**-7  # twice what two roundings to bfloat16 change a number by, relative to it
SINGLE = 2.0**-24  # what one to float32 does


def can_scan(device: torch.device) -> bool:
    """Whether there is a product with 8-bit weights that sums in single precision."""
    return device.type == "cpu" and platform.machine() in ("x86_64", "AMD64") and hasattr(torch, "_weight_int8pack_mm")


class Shortlist:
    """A class matrix with 8 bits a number, a scale for each row.

    Args:
        classes: C, how many rows there are.
        width: E, how long they are.
        rows: Gives some of them as float32, finite.
    """

    def __init__(self, classes: int, width: int, rows: Callable[[slice], Tensor]):
        self.width = width
        self.codes = torch.zeros(classes, -(-width // STEP) * STEP, dtype=torch.int8)
        self.scale = torch.empty(classes, dtype=torch.bfloat16)
        self.error, self.length = torch.empty(classes), torch.empty(classes)
        self.rounding = 4 * width * SINGLE  # of the scan, of the exact product and of the lengths: at most 1 each
        for start in range(0, classes, BLOCK):
            part = slice(start, min(start + BLOCK, classes))
            matrix = rows(part)
            scale = (matrix.abs().amax(1) / 127 * (1 + HALF)).to(torch.bfloat16)  # never too small for 127 steps
            scale[scale == 0] = 1
            codes = (matrix / scale.float()[:, None]).round_()
            self.codes[part, :width], self.scale[part] = codes.to(torch.int8), scale
            self.length[part] = torch.linalg.vector_norm(matrix, dim=1)
            self.error[part] = torch.linalg.vector_norm(matrix - codes.mul_(scale.float()[:, None]), dim=1)

    def find(self, point: Tensor, k: int, shift: Tensor | float = 0.0) -> Tensor:
        """The rows, ascending, that can be among the k best for a point (1 x E); `shift` (C) is taken off scores."""
        point = torch.nn.functional.pad(point, (0, self.codes.shape[1] - self.width))
        rounded = point.to(torch.bfloat16)
        product = torch._weight_int8pack_mm  # pyright: ignore[reportPrivateImportUsage]
        estimate = product(rounded, self.codes, self.scale)[0].float()
        size, lost = point.norm(), (point - rounded.float()).norm()
        bound = self.error * size + (self.length + self.error) * (lost + self.rounding * size) + HALF * estimate.abs()
        estimate -= shift
        bound += 4 * SINGLE * estimate.abs() + torch.finfo(torch.float32).tiny
        least = (estimate - bound).topk(k).values[-1]
        return (estimate + bound >= least).nonzero()[:, 0]
