import torch

from graphprism.ops import RelationalAdj, index_sum, relational_linear


def test_by_hand():
    rows = torch.tensor([[1.0, 2.0], [10.0, 20.0], [100.0, 200.0]])
    assert index_sum(rows, torch.tensor([2, 0, 2]), 4).tolist() == [[10, 20], [0, 0], [101, 202], [0, 0]]


def test_half_precision_is_summed_in_float32():
    # 4096 ones: a bfloat16 sum would stop at 256, where adding one no longer changes it
    ones = torch.ones(4096, 2, dtype=torch.bfloat16)
    assert index_sum(ones, torch.zeros(4096, dtype=torch.long), 1).tolist() == [[4096, 4096]]
    star = RelationalAdj(torch.stack([torch.arange(1, 4097), torch.zeros(4096).long()]), num_nodes=4097)
    x, weight = torch.ones(4097, 1, dtype=torch.bfloat16), torch.ones(1, 1, 1, dtype=torch.bfloat16)
    for impl in ("scatter", "csr"):
        assert relational_linear(x, star, weight, impl=impl)[0].item() == 4096
