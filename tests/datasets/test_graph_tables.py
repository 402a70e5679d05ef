"""Tables whose names do not tell what they hold."""

import pytest

from graphprism.datasets import from_files
from graphprism.datasets.graph_tables import read_tables
from graphprism.datasets.preprocessing import Preprocessing
from tests.datasets.own_files import write

PEOPLE = "name,age,segment\n" + "".join(f"c{n},{20 + 3 * n % 7},{'ab'[n % 2]}\n" for n in range(20))
PAIRS = "".join(f"c{n},c{(n + 1) % 20}\n" for n in range(20))


@pytest.mark.parametrize("head", ["from,to", "one,other", "Source,Target"])
@pytest.mark.parametrize("files", [None, {"nodes": "customers.csv"}, {"edges": "friends.csv"}])
def test_two_tables_of_any_name(tmp_path, head, files):
    folder = write(tmp_path, customers=PEOPLE, friends=f"{head}\n{PAIRS}")
    dataset = from_files(folder, "segment", files=files)
    assert (dataset.x.shape, dataset.edge_index.shape) == ((20, 1), (2, 40))
    assert dataset.preprocessing["files"] == {"nodes": "customers.csv", "edges": "friends.csv"}


def test_guessed_tables_are_told(tmp_path):
    notices = from_files(write(tmp_path, customers=PEOPLE, friends=f"u,v\n{PAIRS}"), "segment").preprocessing["notices"]
    assert notices[0] == "friends.csv is taken as the table of edges (--edges names another)."
    assert notices[1] == "customers.csv is taken as the table of nodes (--nodes names another)."


def test_table_with_the_ids_is_that_of_nodes_among_several(tmp_path):
    other = "shop,town\ns1,Bonn\ns2,Ulm\n"
    folder = write(tmp_path, customers=PEOPLE, edges=f"one,other\n{PAIRS}", shops=other)
    assert from_files(folder, "segment").x.shape == (20, 1)


def test_text_beside_tables_is_no_table(tmp_path):
    folder = write(tmp_path, edges=f"from,to\n{PAIRS}")
    (folder / "notes.txt").write_text("Friends of customers, as of May.\nNo more.\n")
    assert from_files(folder, task="link").x.shape == (20, 1)


def test_unclear_folder_says_how_to_name_tables(tmp_path):
    folder = write(tmp_path, one="p,q\na,b\n", two="r,s\nc,d\n", three="t,u\ne,f\n")
    with pytest.raises(
        ValueError, match=r"table of edges, .* \(--edges NAME or files=\{'edges': NAME\} .*one.csv, three"
    ):
        from_files(folder, "y")
    only_edges = write(tmp_path / "edges", edges=f"from,to\n{PAIRS}")
    with pytest.raises(ValueError, match=r"table of nodes for a target, .* \(--nodes NAME or .* got edges.csv"):
        from_files(only_edges, "y")


def test_stored_names_are_looked_up_in_the_folder_alone(tmp_path):
    outside = write(tmp_path, secret=PEOPLE) / "secret.csv"
    folder = write(tmp_path / "in", nodes=PEOPLE, edges=f"from,to\n{PAIRS}")
    for name in (str(outside), "../secret.csv"):
        assert read_tables(folder, likely={"nodes": name}).nodes.path == folder / "nodes.csv"


def test_stored_names_must_be_a_mapping(tmp_path):
    stored = from_files(write(tmp_path, nodes=PEOPLE, edges=f"from,to\n{PAIRS}"), "segment").preprocessing
    assert Preprocessing.from_dict({key: each for key, each in stored.items() if key != "files"}).files == {}
    with pytest.raises(ValueError, match="preprocessing of a data set must be as it was packed"):
        Preprocessing.from_dict({**stored, "files": ["nodes.csv"]})


CIRCLE = "v,w\nw,u\nw,x\nx,y\n"
NOTICE = (
    "edges.csv: its first line is read as names of columns, '{}'; if it is an edge, write a line of names above it."
)


@pytest.mark.parametrize(
    ("header", "nodes", "told"),
    [
        ("u,v", None, True),  # both occur as nodes
        ("source,target", None, False),
        ("Ann,Bob", None, True),  # neither usual names of columns nor known as nodes
        ("u,v", "id,f\n" + "".join(f"{name},1\n" for name in "uvwxy"), True),
        ("Ann,Bob", "id,f\n" + "".join(f"{name},1\n" for name in "uvwxy"), False),  # no node has such a name
    ],
)
def test_first_edge_that_may_be_a_header_is_told(tmp_path, header, nodes, told):
    tables = {"edges": f"{header}\n{CIRCLE}"} | ({} if nodes is None else {"nodes": nodes})
    notices = from_files(write(tmp_path, **tables), task="link", shares=(0.5, 0.25, 0.25)).preprocessing["notices"]
    assert (NOTICE.format(header.replace(",", ", ")) in notices) == told
    assert told or not any("names of columns" in notice for notice in notices)


@pytest.mark.parametrize("edges", ["u,v,since\nv,w,3\nw,u,4\nw,x,5\nx,y,6\n", "u,v\n1,2\n2,3\n3,4\n4,1\n"])
def test_header_above_numbers_is_one(tmp_path, edges):
    notices = from_files(write(tmp_path, edges=edges), task="link", shares=(0.5, 0.25, 0.25)).preprocessing["notices"]
    assert not any("names of columns" in notice for notice in notices)
