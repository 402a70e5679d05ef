"""Edge types still belong to their edges, or what broke them is named; with the transforms and loaders of PyG."""

import pytest
import torch
import torch_geometric.transforms as T
from torch_geometric.data import Batch, Data, HeteroData
from torch_geometric.loader import DataLoader
from torch_geometric.utils import coalesce

import graphprism as gp
from graphprism.splitting import by_attribute, by_direction, by_function, by_order, by_soft_order

SPLIT = gp.SplitEdges("degree")
PRODUCT = by_order("degree", "ppr") * by_attribute("edge_attr", num_relations=4) * by_direction()


def undirected(num_nodes: int = 40, num_edges: int = 80, seed: int = 0) -> Data:
    generator = torch.Generator().manual_seed(seed)
    edges = torch.randint(num_nodes, (2, num_edges), generator=generator)
    edges = coalesce(torch.cat([edges, edges.flip(0)], dim=1)[:, torch.cat([edges[0] != edges[1]] * 2)])
    attributes = (edges.sum(0) % 4)[:, None]
    return Data(torch.randn(num_nodes, 8, generator=generator), edges, edge_attr=attributes)


def directed() -> Data:
    data = undirected()
    data.edge_index = data.edge_index[:, data.edge_index[0] % 3 <= data.edge_index[1] % 3]
    data.edge_attr = (data.edge_index.sum(0) % 4)[:, None]
    return data


@pytest.mark.parametrize("split", ["degree", "ppr", "degree, ppr", PRODUCT, by_soft_order("degree")])
class TestCarried:
    """What keeps edges and types together passes."""

    def test_subgraph(self, split):
        data = gp.SplitEdges(split)(undirected())
        gp.check_split(data)
        gp.check_split(data.subgraph(torch.arange(5, 30)))
        gp.check_split(data.subgraph(torch.arange(40) % 3 > 0))
        gp.check_split(data.edge_subgraph(torch.arange(0, data.num_edges, 3)))

    def test_batch(self, split):
        data = [gp.SplitEdges(split)(undirected(seed=seed)) for seed in range(3)]
        batch = Batch.from_data_list(data)
        gp.check_split(batch)
        gp.check_split(batch[1])
        gp.check_split(next(iter(DataLoader(data, batch_size=3))))

    def test_sampled_neighbours(self, split):
        # what `NeighborLoader` does with the sample of its sampler, which is compiled code that need not be there
        from torch_geometric.loader.utils import filter_data

        data = gp.SplitEdges(split)(undirected())
        nodes = torch.tensor([3, 7, 1, 30, 22])
        edges = torch.isin(data.edge_index[1], nodes[:2]) & torch.isin(data.edge_index[0], nodes)
        edges = edges.nonzero().flatten()
        place = torch.full((40,), -1).index_copy(0, nodes, torch.arange(5))
        row, col = place[data.edge_index[:, edges]]
        sampled = filter_data(data, nodes, row, col, edges)
        assert "node_order" not in data or sampled.node_order.size(0) == 5
        gp.check_split(sampled)

    def test_saved(self, split, tmp_path):
        torch.save(gp.SplitEdges(split)(undirected()).to_dict(), tmp_path / "data.pt")
        gp.check_split(Data.from_dict(torch.load(tmp_path / "data.pt", weights_only=True)))

    def test_other_transforms(self, split):
        data = gp.SplitEdges(split)(undirected())
        for transform in (T.NormalizeFeatures(), T.RandomNodeSplit(num_val=3, num_test=3), T.LocalDegreeProfile()):
            data = transform(data)
            gp.check_split(data)


class TestBroken:
    """What breaks the types is named."""

    def test_to_undirected(self):
        with pytest.raises(ValueError, match=r"ToUndirected.*apply `SplitEdges` last"):
            gp.check_split(T.ToUndirected()(SPLIT(undirected())))
        with pytest.raises(ValueError, match=r"ToUndirected"):
            gp.check_split(T.ToUndirected()(SPLIT(directed())))
        with pytest.raises(ValueError, match=r"reversed but kept.*ToUndirected"):
            gp.check_split(T.ToUndirected(reduce="max")(SPLIT(directed())))
        with pytest.raises(ValueError, match=r"ToUndirected"):
            gp.check_split(T.ToUndirected()(gp.SplitEdges(by_direction())(directed())))

    def test_random_link_split(self):
        data = SPLIT(undirected())
        del data.split_graph  # as files of earlier versions
        for part in T.RandomLinkSplit(is_undirected=True)(data):
            with pytest.raises(ValueError, match=r"reversed but kept their types .*RandomLinkSplit"):
                gp.check_split(part)

    def test_self_loops(self):
        with pytest.raises(ValueError, match=r"one entry for each of .* edges, got .*AddSelfLoops"):
            gp.check_split(T.AddSelfLoops()(SPLIT(undirected())))
        with pytest.raises(ValueError, match=r"self-loops were added, which are ties"):
            gp.check_split(T.AddSelfLoops(attr="edge_type")(SPLIT(undirected())))
        gp.check_split(T.AddSelfLoops(attr="edge_type", fill_value=2)(SPLIT(undirected())))
        gp.check_split(SPLIT(T.AddSelfLoops()(undirected())))

    def test_virtual_node(self):
        with pytest.raises(ValueError, match=r"VirtualNode.*types go up to 4, the split has 3"):
            gp.check_split(T.VirtualNode()(SPLIT(undirected())))

    def test_added_up(self):
        data = SPLIT(undirected())
        data.edge_index, data.edge_type = coalesce(
            torch.cat([data.edge_index] * 2, dim=1), torch.cat([data.edge_type] * 2)
        )
        with pytest.raises(ValueError, match=r"coalesce"):
            gp.check_split(data)

    def test_resorted(self):
        data = SPLIT(undirected())
        data.edge_index = data.edge_index[:, torch.randperm(data.num_edges)]
        with pytest.raises(ValueError, match=r"edges were sorted without their types"):
            gp.check_split(data)

    def test_replaced(self):
        data = SPLIT(undirected())
        data.edge_type = torch.zeros_like(data.edge_type)
        with pytest.raises(ValueError, match=r"edges were added or their types replaced"):
            gp.check_split(data)

    def test_attribute(self):
        data = gp.SplitEdges(PRODUCT)(undirected())
        data.edge_attr = (data.edge_attr + 1) % 4
        with pytest.raises(ValueError, match=r"another relation"):
            gp.check_split(data)
        del data.edge_attr
        gp.check_split(data)

    def test_nodes(self):
        data = SPLIT(undirected())
        data.num_nodes = 41
        with pytest.raises(ValueError, match=r"one row for each of 41 nodes, got 40"):
            gp.check_split(data)

    def test_several_splits_in_a_batch(self):
        for other, left_out in (("core", []), (by_direction(), ["node_order"])):
            batch = Batch.from_data_list([SPLIT(undirected()), gp.SplitEdges(other)(undirected())], None, left_out)
            with pytest.raises(ValueError, match=r"graphs of one split"):
                gp.check_split(batch)

    def test_without_types(self):
        with pytest.raises(ValueError, match=r"`data.edge_type` must be given"):
            gp.check_split(undirected())

    def test_unknown_rule(self):
        data = SPLIT(undirected())
        data.split_rule = "no rule"
        with pytest.raises(ValueError, match=r"`data.split_rule` must be as `SplitEdges` wrote it"):
            gp.check_split(data)

    @pytest.mark.parametrize("border", [gp.RelationalAdj.from_data, gp.certify])
    def test_borders_check(self, border):
        border(SPLIT(undirected()))
        with pytest.raises(ValueError, match=r"ToUndirected"):
            border(T.ToUndirected()(SPLIT(undirected())))


@pytest.mark.filterwarnings("ignore:Sparse")
@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr])
def test_sparse_edges_are_checked(layout):
    to_sparse = T.ToSparseTensor(layout=layout)
    gp.check_split(to_sparse(SPLIT(undirected())))
    data = SPLIT(directed())
    with pytest.raises(ValueError, match=r"ToUndirected"):
        gp.check_split(to_sparse(T.ToUndirected(reduce="max")(data)))
    with pytest.raises(ValueError, match=r"`data.edge_index` must be given, got `adj_t` alone"):
        gp.RelationalAdj.from_data(to_sparse(SPLIT(undirected())))


def test_reversed_kinds_of_edges_have_no_relations_of_a_split():
    data = HeteroData()
    data["user"].x, data["user", "follows", "user"].edge_index = undirected().x, directed().edge_index
    with pytest.raises(ValueError, match=r"'rev_follows', .* must be of `SplitEdges`, .*T.ToUndirected"):
        gp.check_split(T.ToUndirected(merge=False)(SPLIT(data)))


def test_types_of_a_function_cannot_be_checked():
    data = gp.SplitEdges(by_function(lambda graph: graph.edge_index[0] % 2, num_relations=2))(undirected())
    assert "node_order" not in data
    gp.check_split(data)


def test_link_prediction_splits_the_training_graph():
    data = undirected()
    folds = T.RandomLinkSplit(is_undirected=True, add_negative_train_samples=False)(data)
    for fold in folds:
        gp.check_split(SPLIT(fold))
    train = SPLIT(folds[0])
    degree = torch.bincount(train.edge_index[0], minlength=train.num_nodes)
    source, target = degree[train.edge_index]
    assert train.edge_type.equal(torch.where(source < target, 0, torch.where(source > target, 1, 2)))
    # split before, the degrees of held-out edges decide relations of the training graph
    before = SPLIT(data)
    leaking = by_order(before.node_order)(folds[0])
    assert not leaking.equal(train.edge_type)


class TestFromData:
    def test_reads_all_it_needs(self):
        data = gp.RelationalNorm("sym")(gp.SplitEdges(by_order("degree") * by_direction())(undirected()))
        adj = gp.RelationalAdj.from_data(data)
        assert adj.num_relations == 6
        assert adj.edge_type.equal(data.edge_type)
        assert adj.edge_weight.equal(data.edge_weight)
        assert adj.size == (40, 40)

    def test_foreign_types_need_a_number(self):
        data = undirected()
        data.edge_type = torch.zeros(data.num_edges, dtype=torch.long)
        with pytest.raises(ValueError, match=r"`num_relations` must be given"):
            gp.RelationalAdj.from_data(data)
        assert gp.RelationalAdj.from_data(data, num_relations=5).num_relations == 5


class TestOverwrite:
    def test_foreign_types_stay(self):
        data = undirected()
        data.edge_type = torch.zeros(data.num_edges, dtype=torch.long)
        with pytest.raises(ValueError, match=r"`data.edge_type` must not be there yet.*overwrite=True"):
            SPLIT(data)
        gp.check_split(data)
        gp.check_split(gp.SplitEdges("degree", overwrite=True)(data))

    def test_own_types_are_renewed(self):
        data = gp.SplitEdges("ppr")(SPLIT(undirected()))
        assert data.node_order.shape == (40, 2)
        gp.check_split(data)
        assert "node_order" not in gp.SplitEdges(by_direction())(data)
        gp.check_split(SPLIT(T.ToUndirected()(SPLIT(directed()))))


def hetero() -> HeteroData:
    data = HeteroData()
    data["paper"].x, data["author"].num_nodes = torch.randn(30, 4), 12
    data["paper", "cites", "paper"].edge_index = torch.randint(30, (2, 90))
    data["paper", "extends", "paper"].edge_index = torch.randint(30, (2, 20))
    data["author", "writes", "paper"].edge_index = torch.stack([torch.randint(12, (50,)), torch.randint(30, (50,))])
    return data


class TestHeteroData:
    def test_by_hand(self):
        data = SPLIT(hetero())
        both = torch.cat([data["cites"].edge_index, data["extends"].edge_index], dim=1)
        degree = torch.bincount(both[0], minlength=30)
        for name in ("cites", "extends"):
            source, target = degree[data[name].edge_index]
            expected = torch.where(source < target, 0, torch.where(source > target, 1, 2))
            assert data[name].edge_type.equal(expected)
        assert data["writes"].edge_type.tolist() == [2] * 50
        assert "node_order" not in data["author"]

    @pytest.mark.parametrize("split", ["ppr", "features", by_order("degree") * by_direction()])
    def test_checked(self, split):
        data = gp.SplitEdges(split)(hetero())
        gp.check_split(data)
        gp.check_split(data.subgraph({"paper": torch.arange(20)}))
        gp.check_split(Batch.from_data_list([data, gp.SplitEdges(split)(hetero())]))

    def test_edges_between_node_types_have_no_edge_back(self):
        data = gp.SplitEdges(by_direction())(hetero())
        assert data["writes"].edge_type.tolist() == [0] * 50

    def test_broken(self):
        with pytest.raises(ValueError, match=r"`data\['paper', 'cites', 'paper'\].edge_type` must hold"):
            gp.check_split(T.ToUndirected(merge=True)(SPLIT(hetero())))

    def test_attribute(self):
        data = hetero()
        for store in data.edge_stores:
            store.kind = torch.randint(5, (store.num_edges,))
        data = gp.SplitEdges(by_order("degree") * by_attribute("kind", 5))(data)
        assert data["writes"].edge_type.equal(2 + 3 * data["writes"].kind)
        gp.check_split(data)

    def test_foreign_types_stay(self):
        data = hetero()
        data["cites"].edge_type = torch.zeros(90, dtype=torch.long)
        with pytest.raises(ValueError, match=r"'cites', 'paper'\].edge_type` must not be there yet"):
            SPLIT(data)


HELD_OUT = r"`SplitEdges` came before T.RandomLinkSplit, .*; apply T.RandomLinkSplit first, then `SplitEdges` to each"
DEPENDING = ["ppr", "core", "direction", "similarity", "community", "curvature", "degree * direction"]
LINK_SPLITS = {
    "directed": {},
    "undirected": {"is_undirected": True},
    "no negatives": {"add_negative_train_samples": False},
    "separate labels": {"split_labels": True},
    "disjoint": {"disjoint_train_ratio": 0.3},
    "test alone": {"num_val": 0.0, "num_test": 0.2},
}


class TestHeldOutLinks:
    """Links that are held out after the split are known to the relations."""

    @pytest.mark.parametrize("options", LINK_SPLITS.values(), ids=LINK_SPLITS)
    def test_split_before(self, options):
        torch.manual_seed(0)
        data = SPLIT(undirected())
        for fold, part in enumerate(T.RandomLinkSplit(**options)(data)):
            if part.num_edges < data.num_edges:
                with pytest.raises(ValueError, match=HELD_OUT):
                    gp.check_split(part)
            else:
                assert fold < 2  # no validation links: nothing is held out yet
        with pytest.raises(ValueError, match=rf"relations of {data.num_edges} edges, .*a later `.*edge_label_index`"):
            gp.RelationalAdj.from_data(part)

    @pytest.mark.parametrize(
        "split",
        [*DEPENDING, "degree * attr(b, 4)", by_soft_order("degree"), by_function(lambda graph: graph.edge_index[0])],
        ids=str,
    )
    def test_all_splits_that_depend_on_edges(self, split):
        data = undirected()
        data.b = data.edge_attr
        for options in LINK_SPLITS.values():
            with pytest.raises(ValueError, match=HELD_OUT):
                gp.check_split(T.RandomLinkSplit(**options)(gp.SplitEdges(split)(data.clone()))[2])

    @pytest.mark.parametrize("split", ["attr(edge_attr)", "features", "random", "similarity(0.5)", torch.zeros(150)])
    def test_splits_that_do_not_depend_on_edges(self, split):
        data = undirected()
        split = torch.zeros(data.num_edges) if isinstance(split, torch.Tensor) else split
        for part in T.RandomLinkSplit()(gp.SplitEdges(split)(data)):
            gp.check_split(part)

    def test_split_again(self):
        part = T.RandomLinkSplit()(SPLIT(undirected()))[0]
        gp.check_split(SPLIT(part))
        gp.check_split(SPLIT(part).edge_subgraph(torch.arange(10)))

    def test_right_order(self):
        for part in T.RandomLinkSplit()(undirected()):
            split = SPLIT(part)
            gp.check_split(split)
            gp.check_split(split.edge_subgraph(torch.arange(10)))
            gp.check_split(Batch.from_data_list([split, split]))

    def test_labels_of_a_split_training_graph(self):
        data = SPLIT(undirected())
        data.edge_label_index = torch.tensor([[0, 1], [5, 7]])  # held out by hand, before
        gp.check_split(data)
        gp.check_split(data.subgraph(torch.arange(20)))

    def test_batches(self):
        folds = [T.RandomLinkSplit()(SPLIT(undirected(seed=seed))) for seed in range(3)]
        for graphs in zip(*folds, strict=True):
            with pytest.raises(ValueError, match=HELD_OUT):
                gp.check_split(Batch.from_data_list(graphs))
        gp.check_split(Batch.from_data_list([SPLIT(undirected(seed=seed)) for seed in range(3)]))

    def test_sampled_links(self):
        # links to be predicted are edges of the graph, as in unsupervised training
        loader = gp.loader.LinkNeighborLoader(SPLIT(undirected()), [-1, -1], batch_size=400)
        for batch in loader:
            gp.check_split(batch)

    def test_moved_and_saved(self, tmp_path):
        data = SPLIT(undirected())
        torch.save(data.to("cpu").to_dict(), tmp_path / "data.pt")
        part = T.RandomLinkSplit()(Data.from_dict(torch.load(tmp_path / "data.pt", weights_only=True)))[0]
        with pytest.raises(ValueError, match=HELD_OUT):
            gp.check_split(part)

    def test_node_types(self):
        kinds = {name: ("paper", name, "paper") for name in ("cites", "extends")}
        held_out = T.RandomLinkSplit(edge_types=[kinds["cites"]])
        with pytest.raises(ValueError, match=rf"'cites', 'paper'\].edge_type` must come from .*{HELD_OUT}"):
            gp.check_split(held_out(SPLIT(hetero()))[0])
        gp.check_split(SPLIT(held_out(hetero())[0]))
        between = T.RandomLinkSplit(edge_types=[("author", "writes", "paper")])
        gp.check_split(between(SPLIT(hetero()))[0])  # ties, whatever the edges

    def test_damaged(self):
        data = T.RandomLinkSplit()(SPLIT(undirected()))[0]
        data.split_graph = "many"
        with pytest.raises(ValueError, match=r"`data.split_graph` must be as `SplitEdges` wrote it, got 'many'"):
            gp.check_split(data)
