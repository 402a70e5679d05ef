"""New tables are found as those of training were, and new nodes join the graph that training saw."""

import numpy as np
import pytest
import torch
from torch_geometric.data import Data
from typer.testing import CliRunner

import graphprism as gp
from graphprism.cli.app import app
from graphprism.datasets import PackedDataset, from_data, from_files, molecules, save
from graphprism.ledger import Ledger
from graphprism.splitting import Graph, parse_split
from graphprism.training import Run, train
from graphprism.training.run_splits import run_splits
from graphprism.training.unseen_relations import find_unseen
from tests.datasets.own_files import write, write_molecules, write_people

NODES = {"layers": 2, "width": 8, "batch_size": None, "warmup": 0, "epochs": 2, "lr": 0.03, "self_loops": True}
FILES = {"nodes": "what.csv", "edges": "with.csv"}


def write_shop(folder, names, first, last, *, files=("what.csv", "with.csv"), target=True):
    """Customers ``first`` to ``last`` with edges to those before them."""
    folder.mkdir()
    head, tail = ("name,age,segment", lambda n: f",{'ab'[n % 2]}") if target else ("name,age", lambda n: "")
    rows = [f"{names[n]},{20 + 3 * n % 7}{tail(n)}" for n in range(first, last)]
    (folder / files[0]).write_text("\n".join([head, *rows]) + "\n")
    edges = [f"{names[n]},{names[n - step]}" for n in range(max(first, 2), last) for step in (1, 2)]
    (folder / files[1]).write_text("\n".join(["one,other", *edges]) + "\n")
    return folder


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shop")
    names = [f"c{n}" for n in range(36)]
    old, new = write_shop(folder / "old", names, 0, 30), write_shop(folder / "new", names, 30, 36, target=False)
    dataset = from_files(old, "segment", name="shop", files=FILES)
    train(Run(**NODES), dataset, folder=folder / "runs", accelerator="cpu")
    save(dataset, folder / "shop.npz")
    return folder, old, new


def test_names_of_tables_are_those_of_training(shop):
    folder, old, new = shop
    found = gp.load(folder / "runs").predict(new, graph=old)
    assert found.ids == [(f"c{n}",) for n in range(30, 36)]
    again = gp.load(folder / "runs").predict(new, graph=old, files=FILES)
    assert torch.equal(found.scores, again.scores)


def test_given_names_are_those_of_the_graph_as_well(shop, tmp_path):
    folder = shop[0]
    names = [f"c{n}" for n in range(36)]
    other = ("x.csv", "y.csv")
    old = write_shop(tmp_path / "old", names, 0, 30, files=other)
    new = write_shop(tmp_path / "new", names, 30, 36, files=other, target=False)
    files = {"nodes": other[0], "edges": other[1]}
    assert len(gp.load(folder / "runs").predict(new, graph=old, files=files)) == 6


def test_packed_graph_gives_what_its_tables_give(shop, monkeypatch):
    folder, old, new = shop
    predictor = gp.load(folder / "runs")
    wanted = predictor.predict(new, graph=old)
    monkeypatch.setenv("GRAPHPRISM_DATA", str(folder))
    for graph in (folder / "shop.npz", "shop"):
        found = predictor.predict(new, graph=graph)
        assert found.ids == wanted.ids
        torch.testing.assert_close(found.scores, wanted.scores)


def test_command_finds_the_graph_by_its_name(shop, tmp_path, monkeypatch):
    monkeypatch.delenv("GRAPHPRISM_DATA", raising=False)
    folder, old, new = shop
    gp.load(folder / "runs").predict(new, graph=old).write_csv(tmp_path / "wanted.csv")
    words = ["predict", folder / "runs", "-i", new, "--graph", "shop", "-o", tmp_path / "found.csv"]
    assert CliRunner().invoke(app, [str(word) for word in words]).exit_code == 2
    run = CliRunner().invoke(app, [str(word) for word in (*words, "--data", folder, "--accelerator", "cpu")])
    assert run.exit_code == 0, run.output
    assert (tmp_path / "found.csv").read_text("utf-8") == (tmp_path / "wanted.csv").read_text("utf-8")


def test_packed_graph_must_be_imported_alike(shop, tmp_path):
    folder, old, new = shop
    save(from_files(old, "segment", files=FILES, drop=("age",)), tmp_path / "other.npz")
    with pytest.raises(
        ValueError, match=r"other.npz: the graph must be imported with the columns and scales of the run"
    ):
        gp.load(folder / "runs").predict(new, graph=tmp_path / "other.npz")


def test_unknown_ends_of_edges_mention_the_graph(shop):
    folder, _, new = shop
    with pytest.raises(ValueError, match=r"'c29' in row 1, .* name that one \(--graph PATH or graph=PATH\)"):
        gp.load(folder / "runs").predict(new)


def test_new_nodes_need_a_table_and_ids_of_their_own(shop, tmp_path):
    folder, old, _ = shop
    alone = tmp_path / "alone"
    alone.mkdir()
    (alone / "with.csv").write_text("one,other\nc1,c2\nc3,new\n")
    again = write_shop(tmp_path / "again", [f"c{n}" for n in range(36)], 28, 34, target=False)
    predictor = gp.load(folder / "runs")
    for graph in (old, folder / "shop.npz"):
        with pytest.raises(
            ValueError, match=r"must have a table of the nodes that are new to the graph, got edges alone"
        ):
            predictor.predict(alone, graph=graph)
    (alone / "what.csv").write_text("name,age\n")
    (alone / "with.csv").write_text("one,other\nc1,c2\n")
    for graph in (old, folder / "shop.npz"):
        with pytest.raises(ValueError, match=r"must have nodes that are new to the graph, got edges between old ones"):
            predictor.predict(alone, graph=graph)
    must = r"what.csv: 'c28' in the column 'name', row 1, must be the id of a new node, got that of one of the graph"
    with pytest.raises(ValueError, match=must):
        predictor.predict(again, graph=folder / "shop.npz")


def test_ids_in_a_file_are_as_many_as_nodes(shop, tmp_path):
    from graphprism.datasets import DatasetFileError, read

    with np.load(shop[0] / "shop.npz") as file:
        arrays = {key: file[key] for key in file.files}
    arrays["node_ids"] = arrays["node_ids"][:-5]
    about = str(arrays["about"])
    arrays["about"] = np.array(about.replace('"sha256": ', '"was": '))
    np.savez(tmp_path / "bad.npz", **arrays)
    with pytest.raises(DatasetFileError, match="`node_ids` must hold 30 texts"):
        read(tmp_path / "bad.npz")
    assert isinstance(read(shop[0] / "shop.npz"), PackedDataset)


def write_friends(folder):
    folder.mkdir()
    (folder / "nodes.csv").write_text("name,age,y\n" + "".join(f"c{n},{n % 7},{n % 2}\n" for n in range(20)))
    edges = "".join(f"c{n},c{(n + 1) % 20},{'ab'[n % 2]},{2001 + n % 3}\n" for n in range(20))
    (folder / "edges.csv").write_text("from,to,how,since\n" + edges)
    return folder


def test_split_by_the_name_of_an_imported_column(tmp_path):
    folder = write_friends(tmp_path / "friends")
    dataset = from_files(folder, "y", categories=("since",))
    columns = [code["name"] for code in dataset.preprocessing["edges"]]
    named, numbered = (
        Run(**NODES, split="degree * attr(since)"),
        Run(**NODES, split="degree * attr(edge_attr, column=1)"),
    )
    assert columns == ["how", "since"]
    assert repr(run_splits(named, dataset)) == repr(run_splits(numbered, dataset))
    train(named, dataset, folder=tmp_path / "runs", accelerator="cpu")
    assert len(gp.load(tmp_path / "runs").predict(folder)) == 20


@pytest.mark.parametrize(
    ("drop", "split", "message"),
    [
        (
            "how",
            "attr(since)",
            r"attr\(since\) must name a column of types, got numbers; import .* --category since or",
        ),
        ("since", "attr(sinc)", r"must name an attribute of edges \(attr\(how\)\), got attr\(sinc\)$"),
    ],
)
def test_split_by_no_column_of_types_says_what_there_is(tmp_path, drop, split, message):
    dataset = from_files(write_friends(tmp_path / "friends"), "y", drop=(drop,))
    with pytest.raises(ValueError, match=message):
        run_splits(Run(**NODES, split=split), dataset)


def test_split_of_a_packed_set_says_which_columns_there_are():
    with pytest.raises(ValueError, match=r"an attribute of edges \(attr\(edge_attr, column=0\)\), got attr\(bond"):
        run_splits(Run(split="attr(bond)"), molecules(20))


def test_folder_of_results_is_its_best_run_by_validation(tmp_path):
    runs = [Run(**{**NODES, "epochs": epochs}, seed=seed) for seed, epochs in ((0, 1), (1, 30), (2, 1))]
    draw = torch.Generator().manual_seed(0)
    x, edges = torch.randn(60, 4, generator=draw), torch.randint(60, (2, 200), generator=draw)
    dataset = from_data(Data(x=x, edge_index=edges, y=(x[:, 0] > 0).long()), task="multiclass")
    results = [train(run, dataset, folder=tmp_path / "checkpoints", accelerator="cpu") for run in runs]
    with pytest.raises(ValueError, match="has 3 runs, name one of them: ") as caught:
        gp.load(tmp_path)
    assert "\n" not in str(caught.value)
    for result in results:
        Ledger(tmp_path / "ledger.jsonl").append(result)
    best = max(results, key=lambda each: each.at_best("val"))
    assert gp.load(tmp_path).run.key == best.key


GRAPHS = {"layers": 2, "width": 8, "batch_size": 16, "warmup": 0, "epochs": 2, "lr": 0.01}


def with_bonds(folder, out, **bonds):
    """Molecules of which some bonds, by the text of their line, are of another kind."""
    text = (folder / "edges.csv").read_text()
    for line, kind in bonds.items():
        start = f"m{line[1:].replace('_', ',')},"
        assert f"\n{start}" in text
        text = "\n".join(start + kind if each.startswith(start) else each for each in text.splitlines())
    tables = {name: (folder / f"{name}.csv").read_text() for name in ("nodes", "graphs")}
    return write(out, edges=text, **tables)


@pytest.fixture(scope="module", params=["energy", "toxic"])
def bonds(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("bonds")
    old, other = write_molecules(folder / "old"), {"energy": "toxic", "toxic": "energy"}[request.param]
    dataset = from_files(old, request.param, drop=(other,), categories=("bond",))
    train(Run(**GRAPHS, split="degree * attr(bond)"), dataset, folder=folder / "runs", accelerator="cpu")
    return old, gp.load(folder / "runs")


@pytest.mark.parametrize(("kind", "came"), [("aromatic", "'aromatic'"), ("", "none")])
def test_graph_with_an_unseen_edge_category_is_left_empty(bonds, tmp_path, kind, came):
    old, predictor = bonds
    new = with_bonds(old, tmp_path / "new", m1_0_1=kind, m3_0_1=kind)
    found, wanted = predictor.predict(new), predictor.predict(old)
    assert found.ids == wanted.ids
    has_none = found.scores.isnan().any(1)
    assert has_none.nonzero().view(-1).tolist() == [1, 3]
    torch.testing.assert_close(found.scores[~has_none], wanted.scores[~has_none])
    row = (new / "edges.csv").read_text().splitlines().index(f"m1,0,1,{kind}")
    must = "the column 'bond' must hold values that training had, as the split degree * attr(bond) needs them"
    assert found.notices == (
        f"2 graphs have no prediction (m1, m3): {new / 'edges.csv'}: {must} ('double', 'single'), got {came} in row "
        f"{row}, and 2 such edges in all: the network has no weights for it; correct the table, or train on graphs "
        "with such edges.",
    )
    found.write_csv(tmp_path / "out.csv")
    lines = (tmp_path / "out.csv").read_text().splitlines()
    assert lines[2] == ("m1," if found.classes is None else "m1,,")
    assert (found.classes is None) or (found.classes[1] == ("",) and found.classes[0] != ("",))
    with pytest.raises(ValueError, match=r"edges.csv: the column 'bond' must hold values that training had"):
        predictor(new)


def test_input_of_unseen_edge_categories_alone_is_refused(bonds, tmp_path):
    predictor = bonds[1]
    tables = {"nodes": "mol_id,atom,element\nm,0,C\nm,1,C", "graphs": "mol_id\nm"}
    new = write(tmp_path / "new", edges="mol_id,source,target,bond\nm,0,1,triple", **tables)
    with pytest.raises(
        ValueError, match=r"edges.csv: the column 'bond' must hold .* got 'triple' in row 1: the network"
    ):
        predictor.predict(new)


def test_graph_without_nodes_is_left_empty(bonds, tmp_path):
    old, predictor = bonds
    tables = {name: (old / f"{name}.csv").read_text() for name in ("nodes", "edges", "graphs")}
    columns = tables["graphs"].splitlines()[0].count(",")
    new = write(tmp_path / "new", **{**tables, "graphs": f"{tables['graphs']}\nm99{',' * columns}"})
    found, wanted = predictor.predict(new), predictor.predict(old)
    assert found.ids == [*wanted.ids, ("m99",)]
    assert found.scores.isnan().any(1).tolist() == [False] * len(wanted) + [True]
    torch.testing.assert_close(found.scores[:-1], wanted.scores)
    assert found.notices == ("1 graph has no prediction (m99): no row of the table of nodes belongs to it.",)
    lonely = write(
        tmp_path / "lonely", nodes="mol_id,atom,element", edges="mol_id,source,target,bond", graphs="mol_id\nm"
    )
    with pytest.raises(ValueError, match="graphs must have nodes, got none in any of them"):
        predictor.predict(lonely)


def test_graph_with_an_unseen_combination_is_left_empty(tmp_path):
    old = write_molecules(tmp_path / "old")
    for name in ("nodes", "edges", "graphs"):  # paths of three and four atoms: ties are single bonds
        head, *lines = (old / f"{name}.csv").read_text().splitlines()
        small = [line for line in lines if int(line.partition(",")[0][1:]) % 4 < 2]
        (old / f"{name}.csv").write_text("\n".join([head, *small]))
    dataset = from_files(old, "energy", drop=("toxic",), categories=("bond",))
    train(Run(**GRAPHS, split="degree * attr(bond)"), dataset, folder=tmp_path / "runs", accelerator="cpu")
    predictor = gp.load(tmp_path / "runs")
    tables = {"nodes": "mol_id,atom,element\nm,0,C\nm,1,C\nk,0,C\nk,1,C\nk,2,O", "graphs": "mol_id\nm\nk"}
    edges = "mol_id,source,target,bond\nm,0,1,double\nk,0,1,double\nk,1,2,single"
    found = predictor.predict(write(tmp_path / "new", edges=edges, **tables))
    assert found.scores.isnan().any(1).tolist() == [True, False]
    (notice,) = found.notices
    assert notice.startswith(
        "1 graph has no prediction (m): every edge must be of a relation of the split degree * attr(bond) that "
        "training had, got 2 edges of others, such as tie and bond 'double': the network has no weights"
    )


def rings(folder, kinds, **special):
    """Rings of four nodes with a kind and a colour of each edge; those of the first edge of some graphs are given."""
    nodes, edges, graphs = ["graph,id,size"], ["graph,source,target,kind,colour"], ["graph,y"]
    for number in range(24):
        for node in range(4):
            first, colour = kinds[(number + node) % len(kinds)], "rb"[(number + node) // 2 % 2]
            own = special.get(f"g{number}", (first, colour)) if node == 0 else (first, colour)
            nodes.append(f"g{number},{node},{node * number % 5 / 4}")
            edges.append(f"g{number},{node},{(node + 1) % 4},{','.join(own)}")
        graphs.append(f"g{number},{number / 8}")
    return write(folder, nodes="\n".join(nodes), edges="\n".join(edges), graphs="\n".join(graphs))


@pytest.mark.parametrize("split", ["attr(kind); attr(colour)", "attr(kind, 3) * attr(colour)"])
def test_graphs_with_unseen_categories_of_several_columns_are_left_empty(tmp_path, split):
    dataset = from_files(rings(tmp_path / "old", "st"), "y")
    train(Run(**GRAPHS, split=split), dataset, folder=tmp_path / "runs", accelerator="cpu")
    new = rings(tmp_path / "new", "st", g1=("z", "r"), g2=("s", "q"))
    found = gp.load(tmp_path / "runs").predict(new)
    assert found.scores.isnan().any(1).nonzero().view(-1).tolist() == [1, 2]
    must = f"must hold values that training had, as the split {split} needs them"
    way = "the network has no weights for it; correct the table, or train on graphs with such edges."
    one = "1 graph has no prediction"
    assert found.notices == (
        f"{one} (g1): {new / 'edges.csv'}: the column 'kind' {must} ('s', 't'), got 'z' in row 5: {way}",
        f"{one} (g2): {new / 'edges.csv'}: the column 'colour' {must} ('b', 'r'), got 'q' in row 9: {way}",
    )


def test_a_missing_category_that_training_had_is_not_the_cause(tmp_path):
    """Of the kinds "s" and none; one of the colours is new."""
    dataset = from_files(rings(tmp_path / "old", ("s", "")), "y", categories=("kind",))
    train(Run(**GRAPHS, split="attr(kind, 2) * attr(colour)"), dataset, folder=tmp_path / "runs", accelerator="cpu")
    found = gp.load(tmp_path / "runs").predict(rings(tmp_path / "new", ("s", ""), g3=("", "q")))
    assert found.scores.isnan().any(1).nonzero().view(-1).tolist() == [3]
    assert "the column 'colour' must hold values that training had" in found.notices[-1]


@pytest.mark.parametrize("text", ["only(attr(edge_attr), 3|5)", "only(degree * attr(edge_attr), 11|17)"])
def test_split_whose_last_factor_has_no_number_of_relations(text):
    graph = Graph(torch.tensor([[0, 1, 2], [1, 2, 0]]), num_nodes=3, edge_attr=torch.tensor([3, 4, 5]))
    (found,) = find_unseen([parse_split(text)], graph, text, (), ())
    assert found.mask.tolist() == [False, True, False]
    assert found.why.startswith(f"`edge_attr` must be one of [3, 5], as in training, for the split {text}, got 4: ")


def test_graph_of_nodes_with_an_unseen_edge_category_is_refused(tmp_path):
    folder = write_friends(tmp_path / "friends")
    dataset = from_files(folder, "y", drop=("since",))
    train(Run(**NODES, split="degree * attr(how)"), dataset, folder=tmp_path / "runs", accelerator="cpu")
    edges = (folder / "edges.csv").read_text()
    (folder / "edges.csv").write_text(edges.replace("c3,c4,b", "c3,c4,z"))
    with pytest.raises(ValueError, match=r"edges.csv: the column 'how' must .* \('a', 'b'\), got 'z' in row 4: the"):
        gp.load(tmp_path / "runs").predict(folder)


def test_tensors_with_an_unseen_edge_type_say_which(tmp_path):
    dataset = molecules(30)
    train(Run(**GRAPHS, split="attr(edge_attr)"), dataset, folder=tmp_path, accelerator="cpu")
    graphs = [dataset.graph(number) for number in range(3)]
    graphs[1].edge_attr = torch.full_like(graphs[1].edge_attr, 9)
    found = gp.load(tmp_path).predict(graphs)
    assert found.scores.isnan().any(1).tolist() == [False, True, False]
    assert found.notices[0].startswith("1 graph has no prediction (1): `edge_attr` must be below 4, as in training,")


KINDS = {"words": ["true", "false", "maybe"], "numbers": ["1.0", "2.50", "other"]}


@pytest.mark.parametrize("kind", KINDS)
def test_a_category_is_read_alike_beside_other_rows_and_alone(tmp_path, kind):
    values = KINDS[kind]
    nodes, edges, graphs = ["graph,id,kind"], ["graph,source,target"], ["graph,y"]
    for number in range(24):
        nodes += [f"g{number},{atom},{values[(number + atom) % 3]}" for atom in range(4)]
        edges += [f"g{number},{atom},{atom + 1}" for atom in range(3)]
        graphs.append(f"g{number},{number % 3}.5")
    parts = {"nodes": "\n".join(nodes), "edges": "\n".join(edges), "graphs": "\n".join(graphs)}
    dataset = from_files(write(tmp_path / "all", **parts), "y", task="regression")
    train(Run(layers=2, width=8, warmup=0, epochs=2, lr=0.01), dataset, folder=tmp_path / "runs", accelerator="cpu")
    predictor = gp.load(tmp_path / "runs")
    scores = []
    for name, both in (("alone", ""), ("beside", f"h,0,{values[2]}\n")):
        rows = {
            "nodes": f"graph,id,kind\ng,0,{values[0]}\ng,1,{values[1]}\n{both}",
            "edges": "graph,source,target\ng,0,1\n",
            "graphs": "graph\ng\n" + "h\n" * bool(both),
        }
        found = predictor.predict(write(tmp_path / name, **rows))
        assert not any("that training did not" in line for line in found.notices)
        scores.append(found.scores[0])
    torch.testing.assert_close(*scores)


@pytest.mark.parametrize("category", [False, True])
def test_a_flag_may_be_missing_in_a_new_table(tmp_path, category):
    flags = ["true" if number % 3 else "false" for number in range(60)]
    old = write_people(tmp_path / "old", flag=flags)
    dataset = from_files(old, "income", categories=("flag",) if category else ())
    train(Run(**NODES), dataset, folder=tmp_path / "runs", accelerator="cpu")
    predictor = gp.load(tmp_path / "runs")
    full = predictor.predict(old).scores
    missing = predictor.predict(write_people(tmp_path / "new", flag=[*flags[:-1], ""]))
    none = predictor.predict(write_people(tmp_path / "none", flag=[*flags[:-1], "false"])).scores
    assert any("column 'flag' lacks 1 value" in line for line in missing.notices)
    far = slice(20, 40)  # of nodes that do not hear the last one nothing changes
    torch.testing.assert_close(missing.scores[far], full[far])
    if not category:  # a missing flag is 0
        torch.testing.assert_close(missing.scores, none)


def test_ids_that_python_takes_for_one_number_are_several_nodes(tmp_path):
    ids = ["1_11", "11_1", "1.1", "1.10", "1e5", "100000"]
    for name, kept in (("all", ids), ("numbers", ids[2:])):
        ring = [f"{each},{500 + number % 20}" for number, each in enumerate(5 * kept)]
        others = [f"{500 + number},{500 + (number + 1) % 20}" for number in range(20)]
        folder = write(tmp_path / name, edges="\n".join(["source,target", *ring, *others]))
        assert from_files(folder, task="link").x.size(0) == 20 + len(kept)
