import torch

from graphprism.analysis.collapse import norms


def test_equal_those_of_torch():
    x = torch.randn(9, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    for y in (x, x.T):
        got = norms(y)
        torch.testing.assert_close(got.frobenius, torch.linalg.matrix_norm(y))
        torch.testing.assert_close(got.nuclear, torch.linalg.matrix_norm(y, "nuc"))
        torch.testing.assert_close(got.spectral, torch.linalg.matrix_norm(y, 2))
        assert got.largest == y.abs().max()
