"""How a Triton kernel is to multiply float32."""

from __future__ import annotations

import torch


def dot_precision(highest: str = "ieee") -> str:
    """TF32 where PyTorch may use it, else ``highest``; one of the precisions of ``tl.dot``.

    >>> torch.get_float32_matmul_precision(), dot_precision(), dot_precision("tf32x3")
    ('highest', 'ieee', 'tf32x3')
    """
    return highest if torch.get_float32_matmul_precision() == "highest" else "tf32"
