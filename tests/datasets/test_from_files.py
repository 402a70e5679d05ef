import numpy as np
import pytest
import torch

from graphprism.datasets import describe, from_files, read, save
from graphprism.datasets.preprocessing import Preprocessing
from tests.datasets.own_files import write, write_molecules, write_people

TARGETS = ("sick", "group", "income", "likes_a", "likes_b")


def people(folder, target, **options):
    rest = tuple(name for name in TARGETS if name not in np.atleast_1d(target))
    return from_files(write_people(folder), target, drop=rest, **options)


@pytest.mark.parametrize(
    ("target", "task", "metric", "outputs"),
    [
        ("sick", "binary", "auroc", 1),
        ("group", "multiclass", "accuracy", 3),
        ("income", "regression", "mae", 1),
        (("likes_a", "likes_b"), "multilabel", "ap", 2),
    ],
)
def test_folder_of_nodes(tmp_path, target, task, metric, outputs):
    dataset = people(tmp_path / "people", target)
    assert (dataset.name, dataset.level, dataset.task, dataset.metric) == ("people", "node", task, metric)
    assert dataset.num_outputs == outputs
    assert dataset.x.shape == (60, 1 + 3 + 1)  # age, three towns, member
    assert dataset.edge_index.shape == (2, 240)
    masks = torch.stack([dataset.train_mask, dataset.val_mask, dataset.test_mask])
    assert masks.sum((1, 2)).tolist() == [48, 6, 6]
    save(dataset, tmp_path / "people.npz")
    again = read(tmp_path / "people.npz")
    assert again.preprocessing == dataset.preprocessing
    assert torch.equal(again.y.double(), dataset.y.double())


def test_numbers_are_scaled_by_training_rows_and_flags_stay(tmp_path):
    dataset = people(tmp_path, "sick")
    age, member = dataset.x[:, 0], dataset.x[:, 4]
    train = dataset.train_mask[:, 0]
    assert abs(float(age[train].mean())) < 1e-5
    assert float(age[train].std(correction=0)) == pytest.approx(1, abs=1e-5)
    assert set(member.tolist()) == {0.0, 1.0}


def test_folds_are_seeded_and_stratified(tmp_path):
    first, second, other = (people(tmp_path, "group", seed=seed, shares=(0.5, 0.25, 0.25)) for seed in (1, 1, 2))
    assert torch.equal(first.train_mask, second.train_mask)
    assert not torch.equal(first.train_mask, other.train_mask)
    assert first.y[first.train_mask[:, 0]].bincount().tolist() == [10, 10, 10]


def test_fold_column_is_found(tmp_path):
    folds = ["train"] * 40 + ["dev"] * 10 + ["test"] * 10
    folder = write_people(tmp_path, split=folds)
    dataset = from_files(folder, "sick", drop=TARGETS[1:])
    assert dataset.val_mask[:, 0].nonzero().view(-1).tolist() == list(range(40, 50))
    assert "split" not in [code["name"] for code in dataset.preprocessing["nodes"]]


def test_fold_column_is_said_and_can_be_left_out(tmp_path):
    folds = ["train"] * 40 + ["dev"] * 10 + ["test"] * 10
    folder = write_people(tmp_path, split=folds)
    dataset = from_files(folder, "sick", drop=TARGETS[1:])
    said = "nodes.csv: column 'split' holds the folds (--drop split draws them)."
    assert said in dataset.preprocessing["notices"]
    drawn = from_files(folder, "sick", drop=(*TARGETS[1:], "split"), folds=3, shares=(0.5, 0.25, 0.25), seed=4)
    assert drawn.train_mask.shape == (60, 3)
    assert drawn.test_mask.sum(dim=0).tolist() == [15, 15, 15]
    assert "split" not in str(drawn.preprocessing["notices"])
    for option in ({"folds": 3}, {"shares": (0.5, 0.25, 0.25)}, {"seed": 4}):
        with pytest.raises(
            ValueError, match=rf"`{next(iter(option))}` must be left out with folds of the column 'split'"
        ):
            from_files(folder, "sick", drop=TARGETS[1:], **option)
    with pytest.raises(ValueError, match=r"`drop` must leave the target and the folds, got 'split'"):
        from_files(folder, "sick", drop=(*TARGETS[1:], "split"), columns={"fold": "split"})
    with pytest.raises(ValueError, match=r"`drop` must leave the target and the folds, got 'sick'"):
        from_files(folder, "sick", drop=("sick", *TARGETS[1:]))


def test_what_graphs_and_links_do_not_take_is_said(tmp_path):
    folder = write_molecules(tmp_path / "graphs")
    assert (
        "graphs.csv: not read: 'energy'; features are of nodes and edges."
        in from_files(folder, "toxic").preprocessing["notices"]
    )
    assert not any(
        "not read" in each for each in from_files(folder, "toxic", drop=("energy",)).preprocessing["notices"]
    )
    with pytest.raises(
        ValueError, match=r"`folds` must be left out with targets of graphs, which have one fold, got 3"
    ):
        from_files(folder, "toxic", folds=3)
    people = write_people(tmp_path / "people")
    with pytest.raises(ValueError, match=r"`folds` must be left out with the task link"):
        from_files(people, task="link", folds=3)


def test_nodes_without_a_target_are_in_no_fold(tmp_path):
    folder = write_people(tmp_path, group=[None, *["red", "blue"] * 29, "red"])
    dataset = from_files(folder, "group", drop=("sick", "income", "likes_a", "likes_b"))
    masks = torch.stack([dataset.train_mask, dataset.val_mask, dataset.test_mask])
    assert not masks[:, 0].any()
    assert masks[:, 1:].any(0).all()


def test_folder_of_graphs(tmp_path):
    dataset = from_files(write_molecules(tmp_path / "molecules"), "toxic", drop=("energy",))
    assert repr(dataset) == "PackedDataset('molecules', 40 graphs, graph binary by auroc)"
    assert dataset.node_types == (3,)  # C, O and what training never saw
    assert dataset.edge_types == (3,)
    assert torch.equal(dataset.y.view(-1) == 1, torch.arange(40) % 2 == 0)
    assert dataset.split.bincount().tolist() == [32, 4, 4]
    one = dataset.graph(2)
    assert one.num_nodes == 5
    assert one.edge_index.tolist() == [[0, 1, 1, 2, 2, 3, 3, 4], [1, 0, 2, 1, 3, 2, 4, 3]]
    assert one.x.view(-1).tolist() == [0, 1, 0, 0, 0]


def test_links_are_taken_out_of_the_graph(tmp_path):
    dataset = from_files(write_people(tmp_path), task="link", drop=TARGETS)
    pairs = {tuple(sorted(pair)) for pair, y in zip(dataset.pairs.T.tolist(), dataset.y, strict=True) if y == 1}
    assert len(pairs) == 120
    held = dataset.pairs[:, (dataset.split > 0) & (dataset.y.view(-1) == 1)]
    kept = {tuple(pair) for pair in dataset.edge_index.T.tolist()}
    assert not any((a, b) in kept or (b, a) in kept for a, b in held.T.tolist())
    negative = {tuple(sorted(pair)) for pair, y in zip(dataset.pairs.T.tolist(), dataset.y, strict=True) if y == 0}
    assert not negative & pairs
    save(dataset, tmp_path / "links.npz")
    assert torch.equal(read(tmp_path / "links.npz").pairs.long(), dataset.pairs)


def test_duplicates_missing_values_and_long_texts_are_noticed(tmp_path):
    folder = write_people(tmp_path, age=[None, *range(20, 79)], name=[f"text {number}" for number in range(60)])
    with (folder / "edges.csv").open("a") as file:
        file.write("p0,p1\np3,p3\n")
    notices = " ".join(from_files(folder, "sick", drop=TARGETS[1:]).preprocessing["notices"])
    assert "1 duplicate edge merged" in notices
    assert "1 self-loop kept" in notices
    assert "column 'age' lacks 1 value: the mean instead" in notices
    assert "column 'name' left out: 60 different values" in notices


def test_graphml_with_text_attributes(tmp_path):
    kinds = (("a", "age", "double"), ("c", "kind", "string"))
    keys = "".join(f'<key id="{key}" for="node" attr.name="{name}" attr.type="{kind}"/>' for key, name, kind in kinds)
    nodes = "".join(
        f'<node id="n{number}"><data key="a">{number}</data><data key="c">{"xyz"[number % 3]}</data></node>'
        for number in range(12)
    )
    edges = "".join(f'<edge source="n{number}" target="n{number + 1}"/>' for number in range(11))
    file = tmp_path / "net.graphml"
    file.write_text(f'<graphml>{keys}<graph edgedefault="directed">{nodes}{edges}</graph></graphml>')
    dataset = from_files(file, "kind", shares=(0.5, 0.25, 0.25))
    assert (dataset.directed, dataset.edge_index.size(1), dataset.x.shape) == (True, 11, (12, 1))
    assert dataset.preprocessing["classes"] == ["x", "y", "z"]


def test_plain_arrays(tmp_path):
    y = np.arange(20) % 2
    np.savez(tmp_path / "plain.npz", edge_index=np.array([[0, 1], [1, 0]]), x=np.random.rand(20, 3), y=y)
    assert from_files(tmp_path / "plain.npz").task == "binary"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target": "wealth"}, r"nodes.csv: must have the column 'wealth', got 'person', 'age'"),
        ({}, r"nodes.csv: a target must be named, or the task link"),
        ({"target": "sick", "task": "regression"}, r"the target 'sick' must hold numbers for the task regression, got"),
        ({"target": "group", "task": "binary"}, r"the target 'group' must have two values for the task binary, got 3"),
        ({"target": "sick", "columns": {"fold": "town"}}, r"the fold column 'town' must hold train, valid and test"),
        (
            {"target": "sick", "columns": {"source": "begin"}},
            r"edges.csv: must have the column 'begin', got 'from', 'to'",
        ),
        ({"target": "sick", "files": {"nodes": "people.csv"}}, r"people.csv: there is no such file"),
        ({"target": "sick", "shares": (0.5, 0.5, 0.5)}, r"`shares` must be three numbers above 0 that add up to 1"),
    ],
)
def test_wrong_options_are_one_sentence(tmp_path, options, message):
    with pytest.raises((ValueError, FileNotFoundError), match=message) as caught:
        from_files(write_people(tmp_path), **options)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("nodes", "edges", "message"),
    [
        (
            "id,y\na,1\nb,2\n",
            "u,v\na,c\na,d\n",
            r"edges.csv: every edge must end at a node of nodes.csv \(column 'id'\), "
            "got 'c' in row 1, and 2 such edges in all",
        ),
        (
            "id,y\na,1\na,2\n",
            "u,v\na,a\n",
            r"nodes.csv: an id must be there once in the column 'id', got 'a' again in row 2",
        ),
        ("id,y\na,1\n,2\n", "u,v\na,a\n", r"every row must have an id in the column 'id', got none in row 2"),
        ("id,y\na,1\nb,1\n", "u,v\na,b\n", r"the target 'y' must have at least two values, got '1' in all 2 rows"),
        ("id,y\na,\nb,\n", "u,v\na,b\n", r"the target 'y' must have a value in some rows, got none"),
        ("id,y\na,1\nb,2\n", "u\na\n", r"edges.csv: must have two columns with the ends of edges, got \['u'\]"),
    ],
)
def test_wrong_tables_are_one_sentence(tmp_path, nodes, edges, message):
    with pytest.raises(ValueError, match=message) as caught:
        from_files(write(tmp_path, nodes=nodes, edges=edges), "y")
    assert "\n" not in str(caught.value)


def test_folder_without_edges_says_what_there_is(tmp_path):
    with pytest.raises(ValueError, match=r"must have a table of edges, such as edges.csv .* got nodes.csv"):
        from_files(write(tmp_path, nodes="id,y\na,1\n"), "y")


def test_fold_column_needs_every_fold(tmp_path):
    folder = write_people(tmp_path, fold=["train"] * 50 + ["test"] * 10)
    with pytest.raises(ValueError, match=r"the fold column 'fold' must have a row with a target for validation"):
        from_files(folder, "sick")


def test_copies_of_training_graphs_in_the_test_are_told(tmp_path):
    lines = describe(from_files(write_molecules(tmp_path), "toxic", drop=("energy",)))
    assert lines[-1] == "Warning: 4 of 4 test graphs (100 %) are in training as well."


def test_preprocessing_refuses_other_values():
    with pytest.raises(ValueError, match="preprocessing of a data set must be as it was packed"):
        Preprocessing.from_dict({"level": "node"})


def test_id_column_without_the_name_of_one_is_found_in_spite_of_a_fault(tmp_path):
    nodes = "User No,x,y\n" + "".join(f"u{n},{n / 7},{n % 2}\n" for n in range(40))
    edges = "follower,followee\n" + "".join(f"u{n},u{(n + 1) % 40}\n" for n in range(40))
    assert from_files(write(tmp_path / "right", nodes=nodes, edges=edges), "y").x.shape == (40, 1)
    dangling = write(tmp_path / "dangling", nodes=nodes, edges=edges + "u3,nobody\n")
    with pytest.raises(ValueError, match=r"node of nodes.csv \(column 'User No'\), got 'nobody' in row 41, and 1 such"):
        from_files(dangling, "y")
    twice = write(tmp_path / "twice", nodes=nodes + "u3,1,0\n", edges=edges)
    with pytest.raises(ValueError, match="an id must be there once in the column 'User No', got 'u3' again in row 41"):
        from_files(twice, "y")


def test_rows_are_ids_where_edges_number_them_although_a_column_has_most_of_the_numbers(tmp_path):
    nodes = "rank,y\n" + "".join(f"{2 + (7 * n) % 40},{n % 2}\n" for n in range(40))
    edges = "source,target\n" + "".join(f"{n},{(n + 1) % 40}\n" for n in range(40))
    dataset = from_files(write(tmp_path, nodes=nodes, edges=edges), "y")
    assert dataset.preprocessing["names"]["id"] == ""


def test_set_of_pyg_without_files_needs_no_root(tmp_path):
    with pytest.warns(UserWarning, match="`train_mask` left out"):
        dataset = from_files("pyg:KarateClub()", root=tmp_path, shares=(0.6, 0.2, 0.2))
    assert (dataset.name, dataset.x.shape, dataset.task) == ("karateclub", (34, 34), "multiclass")
    assert not list(tmp_path.iterdir())


def test_scaled_target_is_described_in_its_own_unit(tmp_path):
    drop = ("sick", "group", "likes_a", "likes_b")
    plain, scaled = (from_files(write_people(tmp_path), "income", drop=drop, scale_target=on) for on in (False, True))
    before, after = (next(line for line in describe(each) if "'income'" in line) for each in (plain, scaled))
    assert after.startswith(before.removesuffix("."))
    assert "; trained minus 4" in after


def test_large_target_is_noticed_unless_scaled(tmp_path):
    drop = ("sick", "group", "likes_a", "likes_b")
    folder = write_people(tmp_path)
    lines = {on: "\n".join(describe(from_files(folder, "income", drop=drop, scale_target=on))) for on in (False, True)}
    assert "--scale-target" in lines[False]
    assert "as it is" in lines[False]
    assert "--scale-target" not in lines[True]
    assert "--scale-target" not in "\n".join(describe(from_files(folder, "sick", drop=(*drop[1:], "income"))))


@pytest.mark.parametrize("name", ["customers.csv", "nodes.tsv.gz", "edges.parquet"])
def test_one_table_in_place_of_their_folder(tmp_path, name):
    (tmp_path / name).write_text("id,age\na,3\n")
    with pytest.raises(
        ValueError, match=rf"{name}: must be the folder of the tables, .*, got one table: name {tmp_path}"
    ):
        from_files(tmp_path / name, "age")


def test_a_target_called_target_is_no_feature(tmp_path):
    """`target` is also the usual name of the second end of an edge."""
    nodes = "id,age,target\n" + "".join(f"n{n},{n * 7 % 11},{'yes' if n % 2 else 'no'}\n" for n in range(30))
    ring = "source,target\n" + "".join(f"n{n},n{(n + 1) % 30}\n" for n in range(30))
    dataset = from_files(write(tmp_path, nodes=nodes, edges=ring), "target")
    assert [each["name"] for each in dataset.preprocessing["nodes"]] == ["age"]


def test_graphs_without_nodes_are_named(tmp_path):
    folder = write_molecules(tmp_path / "molecules")
    with (folder / "graphs.csv").open("a") as file:
        file.write("\nm98,1,3.5\nm99,0,2.5\n")
    notices = from_files(folder, "energy", drop=("toxic",)).preprocessing["notices"]
    assert "graphs.csv: 2 graphs without a row in nodes.csv (m98, m99), kept without nodes." in notices


@pytest.fixture
def plain(tmp_path):
    """Arrays of one graph with weights of edges."""
    file = tmp_path / "plain.npz"
    weight = np.array([0.5, 2.0])
    np.savez(file, edge_index=np.array([[0, 1], [1, 0]]), x=np.ones((20, 3)), y=np.arange(20) % 2, edge_weight=weight)
    return file


def test_arrays_are_left_out_by_name(plain):
    assert from_files(plain).edge_weight is not None
    assert from_files(plain, drop=("edge_weight",)).edge_weight is None
    for name in ("edge_weigth", "edge_index"):
        with pytest.raises(ValueError, match=rf"`drop` must name arrays of plain.npz .*edge_weight.*, got '{name}'"):
            from_files(plain, drop=(name,))


@pytest.mark.parametrize(
    "option", [{"columns": {"id": "a"}}, {"numbers": ("a",)}, {"categories": ("a",)}, {"files": {"nodes": "a"}}]
)
def test_options_of_tables_are_refused_where_there_are_none(plain, option):
    (name,) = option
    with pytest.raises(ValueError, match=f"`{name}` must be left out with plain.npz, which has arrays and no tables"):
        from_files(plain, **option)
    with pytest.raises(ValueError, match=f"`{name}` must be left out with a data set of PyG"):
        from_files("pyg:Planetoid(cora)", **option)
    assert from_files(plain, **{name: type(option[name])()}).task == "binary"  # as the command line gives them


@pytest.mark.parametrize("option", [{"task": "regression"}, {"target": "y"}, {"folds": 3}, {"drop": ("x",)}])
def test_options_are_refused_for_a_packed_data_set(plain, tmp_path, option):
    save(from_files(plain), tmp_path / "packed.npz")
    (name,) = option
    with pytest.raises(ValueError, match=f"`{name}` must be left out with packed.npz, a packed data set"):
        from_files(tmp_path / "packed.npz", **option)


def test_arrays_without_features_have_as_many_nodes_as_they_say(tmp_path):
    edges = np.array([[0, 1, 4], [1, 0, 2]])
    np.savez(tmp_path / "plain.npz", edge_index=edges, y=np.arange(12) % 3, num_nodes=12)
    assert from_files(tmp_path / "plain.npz").x.size(0) == 12


def test_the_graph_of_an_edge_is_none_of_its_ends(tmp_path):
    nodes = "mol_id,atom_id\n" + "".join(f"m{graph},{atom}\n" for graph in range(20) for atom in range(3))
    edges = "mol_id,begin,finish\n" + "".join(
        f"m{graph},{atom},{atom + 1}\n" for graph in range(20) for atom in range(2)
    )
    graphs = "mol_id,y\n" + "".join(f"m{graph},{graph % 2}\n" for graph in range(20))
    dataset = from_files(write(tmp_path, nodes=nodes, edges=edges, graphs=graphs), "y")
    assert dataset.edge_index.size(1) == 80
    assert (
        "edges.csv: the ends of edges are 'begin' and 'finish' (--source and --destination name others)."
        in (dataset.preprocessing["notices"])
    )


def test_a_column_of_weights_with_a_stray_text_is_refused(tmp_path):
    nodes = "id,y\n" + "".join(f"{node},{node % 2}\n" for node in range(20))
    edges = "source,target,weight\n" + "".join(f"{node},{(node + 1) % 20},{node / 2}\n" for node in range(19))
    folder = write(tmp_path, nodes=nodes, edges=f"{edges}19,0,unknown\n")
    with pytest.raises(ValueError, match="'weight' must hold the weight of every edge, got 'unknown' in row 20"):
        from_files(folder, "y")
    assert from_files(folder, "y", drop=("weight",)).edge_weight is None
    assert from_files(folder, "y", categories=("weight",)).edge_weight is None
    words = edges.replace("weight", "strength") + "19,0,unknown\n"  # a word that hardly ever means weights
    assert from_files(write(tmp_path / "b", nodes=nodes, edges=words), "y").edge_weight is None
