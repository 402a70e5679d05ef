import pytest
import torch

from graphprism.ops import RelationalAdj
from graphprism.ops.csr import Segments, reference

LENGTHS = {
    "mixed": [0, 1, 127, 128, 129, 0, 256, 257, 700, 3, 0],
    "one row": [1000],
    "hub at the end": [0, 0, 1000],
    "full pieces": [128] * 5,
    "empty": [0, 0],
    "no rows": [],
}


@pytest.mark.parametrize("name", LENGTHS)
@pytest.mark.parametrize("more", [0, 300])
def test_segments_sum_every_entry_once(name, more):
    lengths = torch.tensor(LENGTHS[name], dtype=torch.long)
    rowptr = torch.cat([lengths.new_zeros(1), lengths.cumsum(0)]).int()
    col = torch.arange(int(rowptr[-1])) % 20
    dense = torch.randn(20, 3, dtype=torch.double)
    cut = Segments.cut(rowptr, col.numel() + more)
    assert int((cut.end - cut.begin).max() if cut.begin.numel() else 0) <= 128
    # as the kernel does it: all pieces, then the further ones of each row are added to its first
    sums = [dense[col[begin:end]].sum(0) for begin, end in zip(cut.begin, cut.end, strict=True)]
    pieces = torch.stack(sums) if sums else dense[:0]
    out, further = pieces[: lengths.numel()].clone(), pieces[lengths.numel() :]
    for row, begin, end in zip(cut.hub.tolist(), cut.hub_begin.tolist(), cut.hub_end.tolist(), strict=True):
        out[row] += further[begin:end].sum(0)
    torch.testing.assert_close(out, reference(rowptr, col, None, dense))


def test_node_segments_from_a_node_to_the_last_one():
    edges = torch.tensor([[0, 1, 2, 2], [0, 1, 1, 2]])
    csr = RelationalAdj(edges, torch.tensor([0, 1, 0, 1]), num_relations=2, num_nodes=3).incoming
    found = csr.node_segments(1)
    assert (found.begin.tolist(), found.end.tolist()) == ([1, 3], [3, 4])
