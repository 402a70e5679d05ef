import math

import pytest
import torch

from graphprism.analysis.collapse import effective_rank


@pytest.mark.parametrize("n", [1, 2, 7])
def test_orthogonal_matrix_has_effective_rank_n(n):
    q = torch.linalg.qr(torch.randn(n, n, generator=torch.Generator().manual_seed(0), dtype=torch.float64)).Q
    assert effective_rank(q).item() == pytest.approx(n, rel=1e-13)


def test_rank_one_has_effective_rank_one():
    x = torch.outer(torch.arange(1.0, 6.0), torch.tensor([1.0, -2.0, 3.0]))
    assert effective_rank(x).item() == pytest.approx(1, abs=1e-5)
    assert effective_rank(torch.tensor([[2.0, 0.0], [0.0, 0.0]])).item() == 1


def test_by_hand():
    # Shares 3/4 and 1/4.
    entropy = -(0.75 * math.log(0.75) + 0.25 * math.log(0.25))
    assert effective_rank(torch.diag(torch.tensor([3.0, 1.0]))).item() == pytest.approx(math.exp(entropy), rel=1e-14)
