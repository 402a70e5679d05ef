import pytest
import torch

from graphprism.ops import at_receivers, at_senders
from graphprism.ops.batched.padded_adj import PaddedAdj
from tests.ops.cases import GRAPHS, normal
from tests.ops.tables import both, both_of, entry_of_edge, repeated

READS = {"senders": at_senders, "receivers": at_receivers}
SHAPES = {"for all": (4,), "by relation": (3, 4), "heads by relation": (3, 2, 4)}


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_by_hand(read):
    adj, _ = both_of("directed")
    side = {at_senders: adj.src, at_receivers: adj.dst}[read]
    h = normal(6, 3, 2)
    assert read(h, adj).equal(h[side, adj.relation])
    assert read(h[:, 0], adj).equal(h[:, 0][side])


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("read", READS.values(), ids=READS)
@pytest.mark.parametrize("name", GRAPHS)
def test_tables_give_the_same_for_every_edge(name, read, shape):
    adj, table = both_of(name)
    h = normal(adj.size[0], *shape)
    ours, theirs = read(h, table)[entry_of_edge(adj, table)], read(h, adj)
    assert ours.equal(theirs)
    grad = normal(*theirs.shape, seed=1).detach()
    found, expected = (torch.autograd.grad(out, h, grad)[0] for out in (ours, theirs))
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("read", READS.values(), ids=READS)
@pytest.mark.parametrize("name", GRAPHS)
def test_gradients_of_a_prepared_graph_are_those_of_indexing(name, read, shape):
    adj, _ = both_of(name)
    h = normal(adj.size[0], *shape)
    side = {at_senders: adj.src, at_receivers: adj.dst}[read].long()
    plain = h[side] if h.dim() == 2 else h[side, torch.zeros_like(side) if adj.relation is None else adj.relation]
    ours = read(h, adj)
    assert ours.equal(plain)
    grads = [torch.autograd.grad(out.pow(3).sum(), h, create_graph=True)[0] for out in (ours, plain)]
    torch.testing.assert_close(*grads)
    torch.testing.assert_close(*(torch.autograd.grad(grad.pow(2).sum(), h)[0] for grad in grads))


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_many_runs_at_once(read, shape):
    _, table = both(2)
    h = normal(2, table.size[0], *shape)
    ours = torch.vmap(lambda h, n, w: read(h, PaddedAdj(n, w, 3, "sym")))(h, *repeated(table, 2))
    theirs = torch.stack([read(one, table) for one in h])
    assert ours.equal(theirs)
    found, expected = (torch.autograd.grad(out.square().sum(), h)[0] for out in (ours, theirs))
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_gradients(shape):
    _, table = both_of("self-loops")
    there = table.entry_mask
    for read in READS.values():
        assert torch.autograd.gradcheck(lambda h, read=read: read(h, table)[there], (normal(3, *shape),))


@pytest.mark.parametrize("shape", [(4,), (3, 4)], ids=["for all", "by relation"])
@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_batched_gradients_are_those_of_each(read, shape):
    adj, _ = both_of("random")
    h = normal(adj.size[0], *shape)
    rows = read(h, adj)
    grads = normal(2, *rows.shape, seed=1).detach()
    (found,) = torch.autograd.grad(rows, h, grads, retain_graph=True, is_grads_batched=True)
    expected = [torch.autograd.grad(rows, h, each, retain_graph=True)[0] for each in grads]
    torch.testing.assert_close(found, torch.stack(expected))
