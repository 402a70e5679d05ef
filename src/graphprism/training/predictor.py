"""Predictions for new graphs by a trained network and its preprocessing, from a checkpoint."""

from __future__ import annotations

import csv
import io
import math
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch_geometric.data import Data

from graphprism._checks import check_integer, check_path, check_range, check_shape, check_type
from graphprism._files import write_whole
from graphprism._text import counted
from graphprism.datasets import PackedDataset, data_folder, read
from graphprism.datasets.assemble import UnknownNodeError, assemble
from graphprism.datasets.from_data import check_graphs, pack_inputs
from graphprism.datasets.graph_tables import GraphTables, find_column, read_tables
from graphprism.datasets.packed_dataset import unpack_ids
from graphprism.datasets.preprocessing import Preprocessing
from graphprism.io.columns import Columns, read_columns
from graphprism.ledger import Ledger
from graphprism.nn import GNN, MODELS
from graphprism.results import RunResult
from graphprism.splitting.splits import ByOrder
from graphprism.training.build_model import build_model, width_of
from graphprism.training.checkpoint import TO_LOAD, CheckpointError, read_best
from graphprism.training.data_form import empty_dataset, in_form
from graphprism.training.eager import install_readout, outputs_of_batch
from graphprism.training.edge_weights import check_weights, run_weights
from graphprism.training.node_data import runs_in_parts
from graphprism.training.prepared_data import PreparedDataset
from graphprism.training.processes import device_type, free_memory
from graphprism.training.run import Run
from graphprism.training.run_splits import relations_of, run_splits, split_input, with_loops
from graphprism.training.sampled_graph import SampledGraph
from graphprism.training.unseen_relations import UnseenEdges, find_unseen
from graphprism.training.whole_graph import WholeGraph

# Graphs that are evaluated at once.
_AT_ONCE = 512
# Graphs that a notice names.
_MOST_LISTED = 5
# Share of the free memory up to which a graph is predicted as a whole, which is about five times as fast as in parts.
_MEMORY_SHARE = 0.5
# Bytes of the indices of an edge, its type, its weight and its attention.
_BYTES_OF_EDGE = 64
# Accepted as graphs: a Data of PyG, several of them, a PackedDataset, or the path of files.
Graphs: TypeAlias = Any


@dataclass(frozen=True, eq=False)
class _Inputs:
    """New graphs in the form of training.

    Attributes:
        dataset: The graphs.
        ids: Ids of the graphs or nodes.
        id_name: Name of their column.
        first: The first new one; those before it belong to the graph that new nodes join.
        edges: Tables of edges, new ones first; none where tensors were given.
        tables: The new tables; None where tensors were given.
        preprocessing: That of training.
        ignores_weights: Whether edges have weights and the run was trained without.
    """

    dataset: PackedDataset
    ids: list[str]
    id_name: str
    first: int
    edges: tuple[Columns, ...]
    tables: GraphTables | None
    preprocessing: Preprocessing | None
    ignores_weights: bool

    def notices(self, but: Collection[str] = ()) -> tuple[str, ...]:
        """Sentences about the new tables, ``but`` some columns of edges, and about weights."""
        ignored = "The `edge_weight` of the edges is ignored: the run was trained without."
        weights = (ignored,) if self.ignores_weights else ()
        if self.tables is None or self.preprocessing is None:
            return weights
        return *self.preprocessing.notices_of(self.tables.nodes, self.tables.edges, but), *weights


@dataclass(frozen=True, eq=False)
class Predictions:
    """Predictions for graphs, nodes or pairs of nodes.

    Attributes:
        ids: Ids of the graphs, nodes or pairs, one or two in each row.
        id_names: Names of the id columns.
        scores: (R, T) probabilities of classes or labels, or numbers in the unit of the target; of a binary target the
            probability of its second class.
        names: Names of the columns of ``scores``.
        classes: The class of each row, or for each label 0 or 1; None for numbers.
        notices: Sentences about new tables: missing values, and categories that training did not have.

    A graph that cannot be predicted, since it has no nodes or the split has no relation for one of its edges, has
    scores of NaN and empty classes, and a sentence in ``notices`` names it.
    """

    ids: list[tuple[str, ...]]
    id_names: tuple[str, ...]
    scores: Tensor
    names: tuple[str, ...]
    classes: list[tuple[str, ...]] | None
    notices: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.ids)

    def write_csv(self, path: str | os.PathLike[str]) -> None:
        """Writes one row of id, prediction and probabilities per prediction, atomically."""
        text = io.StringIO(newline="")
        writer = csv.writer(text, lineterminator="\n")
        if self.classes is None:
            writer.writerow([*self.id_names, *_titles("prediction", self.names)])
        else:
            labels = self.names if self.classes and len(self.classes[0]) > 1 else ()
            found = _titles("prediction", labels) if labels else ["prediction"]
            writer.writerow([*self.id_names, *found, *(f"probability_{name}" for name in self.names)])
        for row, (name, scores) in enumerate(zip(self.ids, self.scores.tolist(), strict=True)):
            classes = () if self.classes is None else self.classes[row]
            writer.writerow([*name, *classes, *("" if math.isnan(score) else f"{score:.7g}" for score in scores)])
        write_whole(Path(path), text.getvalue(), "predictions")


def _titles(word: str, names: Sequence[str]) -> list[str]:
    return [word] if len(names) <= 1 else [f"{word}_{name}" for name in names]


def _spread(made: Predictions, ids: list[tuple[str, ...]], rows: Tensor) -> Predictions:
    """Predictions as the ``rows`` of a longer table with these ids, the other rows being empty."""
    if len(ids) == len(made):
        return made
    scores = made.scores.new_full((len(ids), made.scores.size(1)), math.nan)
    scores[rows] = made.scores
    classes = None
    if made.classes is not None:
        empty = ("",) * max((len(each) for each in made.classes), default=1)
        known = dict(zip(rows.tolist(), made.classes, strict=True))
        classes = [known.get(row, empty) for row in range(len(ids))]
    return replace(made, ids=ids, scores=scores, classes=classes)


class Predictor:
    """A network with the weights of its best epoch, and the preprocessing of new graphs.

    A call returns the outputs of the network, the same as in training: logits, or numbers on the scale of training.
    `predict` returns probabilities, classes and ids.

    Args:
        run: The run.
        form: Result of `graphprism.training.data_form.form_of` for its data.
        weights: Weights of the network by name.
        device: Where to compute.

    Attributes:
        run: The run.
        network: The network, in evaluation mode.
        preprocessing: How tables became tensors, and the scale of the target; None where training was given tensors
            with a target that was not scaled.
    """

    def __init__(
        self, run: Run, form: Mapping[str, Any], weights: Mapping[str, Tensor], device: torch.device | str = "cpu"
    ) -> None:
        self.run, self.form, self.device = run, dict(form), torch.device(device)
        self._empty = empty = empty_dataset(form)
        self.preprocessing = None if empty.preprocessing is None else Preprocessing.from_dict(empty.preprocessing)
        # with the relations of the training graphs, in their order
        self._fitted = replace(run, split=str(form["split"]))
        # a view: only its number of rows is read; checkpoints of other networks have none
        sized = replace(empty, x=empty.x.new_zeros(1, empty.x.size(1)).expand(int(form.get("nodes", 0)), -1))
        network = build_model(self._fitted, sized)
        network = network.double() if run.precision == "float64" else network
        network.load_state_dict(weights)
        self.network: GNN = network.eval().to(self.device)
        install_readout(self.network)

    def __repr__(self) -> str:
        return f"Predictor({self.run.title}; {self.form['level']} {self.form['task']})"

    def __call__(self, graphs: Graphs, pairs: Tensor | None = None) -> Tensor:
        """Outputs of the network, (R, T), for every graph, for every node, or for the pairs.

        Args:
            graphs: One graph, several, a packed set, or the path of files; their targets are ignored.
            pairs: (2, R) pairs of nodes, for links.
        """
        found = self._inputs(graphs)
        run, dataset = self._prepared(found.dataset)
        if unseen := self._unseen(run, dataset, found.edges):
            raise ValueError(unseen[0].why)
        return self._outputs(run, dataset, pairs)

    def predict(
        self,
        graphs: Graphs,
        *,
        graph: str | os.PathLike[str] | None = None,
        pairs: Tensor | str | os.PathLike[str] | None = None,
        files: Mapping[str, str] | None = None,
        root: str | os.PathLike[str] | None = None,
    ) -> Predictions:
        """Probabilities and classes, or numbers in the unit of the target, with ids.

        Args:
            graphs: As in a call.
            graph: The graph that new nodes belong to: their edges may end at its nodes. The new nodes alone are
                predicted. Its files, the ``.npz`` that `graphprism data import` wrote, or the name of that data set.
            pairs: Pairs of nodes, (2, R), or a table with two columns of ids; for links.
            files: Names of files in the folders, see `graphprism.datasets.ImportOptions`. By default those of training
                where a folder has them.
            root: Folder of the data set that ``graph`` names, see `graphprism.datasets.data_folder`.

        Raises:
            ValueError: The graphs do not match those of training.
        """
        level = self.form["level"]
        for name, value, is_read in (("graph", graph, level != "graph"), ("pairs", pairs, level == "link")):
            if value is not None and not is_read:
                came = value if isinstance(value, str | os.PathLike) else type(value).__name__
                raise ValueError(f"`{name}` must be None for targets of {level}s, got {came}")
        inputs = self._inputs(graphs, graph, files, root)
        ids, id_names = inputs.ids, (inputs.id_name,)
        found = self._pairs(pairs, ids) if level == "link" else None
        run, dataset = self._prepared(inputs.dataset)
        unseen = self._unseen(run, dataset, inputs.edges)
        if unseen and level != "graph":
            raise ValueError(unseen[0].why)
        if level == "graph":
            return self._of_graphs(run, dataset, inputs, unseen)
        output = self._outputs(run, dataset, found).double()
        if found is not None:
            rows: list[tuple[str, ...]] = [(ids[a], ids[b]) for a, b in found.T.tolist()]
            made = self._predictions(rows, ("source", "target"), output)
        else:
            made = self._predictions([(each,) for each in ids[inputs.first :]], id_names, output[inputs.first :])
        return replace(made, notices=inputs.notices())

    def _of_graphs(self, run: Run, dataset: PackedDataset, inputs: _Inputs, unseen: list[UnseenEdges]) -> Predictions:
        """Predictions of graphs with nodes and a relation for each edge; the others have an empty one, and a notice."""
        notices = inputs.notices({each.column for each in unseen})
        has_none = dataset.node_ptr.diff() == 0
        if bool(has_none.any()):
            why = "no row of the table of nodes belongs to it" if inputs.tables is not None else "it has no nodes"
            notices = (*notices, self._without(inputs, has_none, why))
        owner = torch.arange(len(dataset)).repeat_interleave(dataset.edge_ptr.diff())
        for each in unseen:
            is_unseen = torch.zeros_like(has_none)
            is_unseen[owner[each.mask]] = True
            notices = (*notices, self._without(inputs, is_unseen, each.why))
            has_none = has_none | is_unseen
        if bool(has_none.all()):
            raise ValueError(unseen[0].why if unseen else "graphs must have nodes, got none in any of them")
        known = (~has_none).nonzero().view(-1)
        output = self._outputs(run, dataset.select(known) if bool(has_none.any()) else dataset, None).double()
        made = self._predictions([(inputs.ids[number],) for number in known.tolist()], (inputs.id_name,), output)
        return replace(_spread(made, [(each,) for each in inputs.ids], known), notices=notices)

    def _without(self, inputs: _Inputs, mask: Tensor, why: str) -> str:
        """A sentence about graphs without a prediction."""
        without = [inputs.ids[number] for number in mask.nonzero().view(-1).tolist()]
        shown = ", ".join(without[:_MOST_LISTED]) + (", ..." if len(without) > _MOST_LISTED else "")
        return f"{counted(without, 'graph')} {'has' if len(without) == 1 else 'have'} no prediction ({shown}): {why}."

    def _unseen(self, run: Run, dataset: PackedDataset, edges: Sequence[Columns]) -> list[UnseenEdges]:
        """Edges without a relation of the network; empty if it has no relations, or one for every edge."""
        if not MODELS[run.model].relational:
            return []
        codes = () if self.preprocessing is None else self.preprocessing.edges
        splits = run_splits(run, dataset)
        if all(isinstance(each, ByOrder) for each in splits):
            return []
        return find_unseen(splits, split_input(run, dataset), self.run.split, codes, edges)

    def _inputs(
        self,
        graphs: Graphs,
        old: str | os.PathLike[str] | None = None,
        files: Mapping[str, str] | None = None,
        root: str | os.PathLike[str] | None = None,
    ) -> _Inputs:
        """Graphs in the form of training, with the ids of what is predicted."""
        first, name = 0, "id"
        edges: tuple[Columns, ...] = ()
        new: GraphTables | None = None
        if isinstance(graphs, str | os.PathLike) and not str(graphs).endswith(".npz"):
            if self.preprocessing is None or not self.preprocessing.is_of_tables:
                raise ValueError(
                    f"{graphs}: tables need a run on tables; this one was trained on tensors, give an .npz"
                )
            tables, before = read_tables(Path(graphs), files, self.preprocessing.files), None
            new, edges = tables, (tables.edges,)
            if old is not None and tables.nodes is None and self.preprocessing.nodes:
                raise ValueError(f"{graphs}: must have a table of the nodes that are new to the graph, got edges alone")
            if old is not None and (packed := _packed_file(old, root)) is not None:
                before = self._packed_graph(packed)
                first = before.x.size(0)
            elif old is not None:
                whole = read_tables(Path(old), files, self.preprocessing.files)
                first = 0 if whole.nodes is None else len(whole.nodes.rows)
                tables, edges = whole.with_new(tables), (tables.edges, whole.edges)
            try:
                found = assemble(tables, self.preprocessing, str(self.form["name"]), before=before)
            except UnknownNodeError as error:
                if old is not None or self.form["level"] == "graph":
                    raise
                hint = "if it is a node of an older graph, name that one (--graph PATH or graph=PATH)"
                raise UnknownNodeError(f"{error}; {hint}") from None
            inputs, ids, name = found.dataset, found.ids, found.id_column
            if old is not None and len(ids) == first:
                came = "edges between old ones alone"
                raise ValueError(f"{graphs}: must have nodes that are new to the graph, got {came}")
        else:
            inputs = self._tensors(graphs)
            self._check_codes(inputs, "`graphs`" if isinstance(graphs, PackedDataset) else str(graphs))
            count = len(inputs) if self.form["level"] == "graph" else inputs.x.size(0)
            ids = [str(number) for number in range(count)]
            if self.form["level"] != "graph" and inputs.node_ids is not None:
                ids = unpack_ids(inputs.node_ids)
                name = str(((inputs.preprocessing or {}).get("names") or {}).get("id") or name)
        ignored = inputs.edge_weight is not None and self._empty.edge_weight is None
        return _Inputs(in_form(inputs, self.form), ids, name, first, edges, new, self.preprocessing, ignored)

    def _check_codes(self, graphs: PackedDataset, name: str) -> None:
        """Raises for tables with scales or categories of their own, which the network would misread."""
        if graphs.preprocessing is None or self.preprocessing is None or not self.preprocessing.is_of_tables:
            return
        stored = Preprocessing.from_dict(graphs.preprocessing)
        if stored.is_of_tables and (stored.nodes, stored.edges) != (self.preprocessing.nodes, self.preprocessing.edges):
            raise ValueError(
                f"{name}: the graphs must have the columns, scales and categories of the data of the run, got those of "
                "another import; give the tables themselves (--input FOLDER), which are then read as in training"
            )

    def _packed_graph(self, file: Path) -> PackedDataset:
        """Reads a graph with ids of nodes that was imported with the same options as the data of this run."""
        graph, own = read(file), self.preprocessing
        stored = None if graph.preprocessing is None else Preprocessing.from_dict(graph.preprocessing)
        if graph.level != "node" or graph.node_ids is None:
            has = "none" if graph.level == "node" else f"{graph.level}s"
            raise ValueError(
                f"{file}: the graph must be of nodes with their ids, got {has}; name the folder of its tables"
            )
        parts = ("names", "nodes", "edges", "directed")
        if any(getattr(stored, part, None) != getattr(own, part, None) for part in parts):
            raise ValueError(f"{file}: the graph must be imported with the columns and scales of the run, got others")
        return graph

    def _tensors(self, graphs: Graphs) -> PackedDataset:
        if isinstance(graphs, str | os.PathLike):
            return read(Path(graphs))
        if isinstance(graphs, PackedDataset):
            return graphs
        listed = [graphs] if isinstance(graphs, Data) else list(graphs)
        for each in listed:
            check_type("graphs", each, Data, "a Data of PyG, several of them, a PackedDataset or a path")
        check_graphs(listed)
        return pack_inputs(str(self.form["name"]), listed, str(self.form["level"]), bool(self.form["directed"]))

    def _prepared(self, dataset: PackedDataset) -> tuple[Run, PackedDataset]:
        """The graphs with the features and loops of training, and the run without what this has done."""
        run = replace(self._fitted, fold=0)
        own = getattr(self.network, "num_nodes", None)
        if own not in (None, dataset.x.size(0)):
            must = f"the graph must have the {own} nodes of training, each of which has weights in {run.model}"
            raise ValueError(f"{must}, got {dataset.x.size(0)}")
        check_weights(run, dataset)
        if run.neighbors is not None:  # predictions are exact: they take all neighbours
            run = replace(run, neighbors=None, batch_size=None)
        if run.self_loops and not run.undirected:  # with their types of training, which the new graph may lack
            weight = None if dataset.edge_weight is None else run_weights(run, dataset, dataset.edge_weight.dtype)
            edges, types = with_loops(
                dataset.edge_index.long(), dataset.edge_attr, dataset.x.size(0), self.form.get("loop_types") or []
            )
            ptr = torch.tensor([0, edges.size(1)])
            dataset = replace(dataset, edge_index=edges, edge_attr=types, edge_weight=weight, edge_ptr=ptr)
            run = replace(run, self_loops=False)
        return run, dataset

    def _outputs(self, run: Run, dataset: PackedDataset, pairs: Tensor | None) -> Tensor:
        if dataset.level == "link":
            if pairs is None:
                raise ValueError("`pairs` must be given for links, got None")
            check_shape("pairs", pairs, [2, "R"])
            check_integer("pairs", pairs)
            check_range("pairs", pairs, dataset.x.size(0))
            count = pairs.size(1)
            dataset = replace(dataset, pairs=pairs, y=torch.zeros(count, 1), split=torch.zeros(count, dtype=torch.long))
        lowest = float(self.form["lowest"]) if run.row_normalise else None
        if dataset.level != "graph" and runs_in_parts(run) and self._is_large(dataset):
            graph = SampledGraph(replace(run, neighbors=-1, batch_size=1), dataset, self.device, lowest)
            states = graph.outputs(self.network, 0, 1, lambda part: part)
            return graph.outputs_of_rows(states, graph.subset("train"))
        is_graphs = dataset.level == "graph"
        data: PreparedDataset | WholeGraph
        data = (
            PreparedDataset(run, dataset, self.device) if is_graphs else WholeGraph(run, dataset, self.device, lowest)
        )
        rows = data.subset("train")
        with torch.no_grad():
            parts = [outputs_of_batch(self.network, each) for each in data.batches(rows, _AT_ONCE)]
        return torch.cat(parts).cpu()

    def _is_large(self, dataset: PackedDataset) -> bool:
        """Whether a layer on the whole graph may exceed the memory: states and, for each relation, messages."""
        (nodes, features), edges = dataset.x.shape, dataset.edge_index.size(1)
        width = max(features, width_of(self._fitted, self._empty))
        found = relations_of(self._fitted, self._empty)
        relations = found if isinstance(found, int) else max(found)
        rows = nodes * (3 + relations) + (edges if MODELS[self.run.model].takes_edge_attr else 0)
        number = 8 if self.run.precision == "float64" else 4
        return number * width * rows + _BYTES_OF_EDGE * edges > _MEMORY_SHARE * free_memory(self.device)

    def _pairs(self, pairs: Tensor | str | os.PathLike[str] | None, ids: Sequence[str]) -> Tensor:
        if pairs is None or isinstance(pairs, Tensor):
            if pairs is None:
                raise ValueError("`pairs` must be a table of the pairs to predict for links, got None")
            return pairs
        table = read_columns(Path(pairs))
        source = find_column("source", table, None)
        target = find_column("destination", table, None, [source])
        columns = [source, target] if source and target else list(table)[:2]
        place = {each: number for number, each in enumerate(ids)}
        found = [table.text(column).tolist() for column in columns]
        for column in found:
            for row, text in enumerate(column):
                if text not in place:
                    raise ValueError(
                        f"{table.path}: every pair must name nodes of the graph, got {text!r} in row {row + 1}"
                    )
        return torch.tensor([[place[text] for text in column] for column in found], dtype=torch.long)

    def _predictions(self, ids: list[tuple[str, ...]], id_names: tuple[str, ...], output: Tensor) -> Predictions:
        task, pre = self.form["task"], self.preprocessing
        targets = pre.targets if pre is not None and pre.targets else ()
        columns = tuple(targets) if len(targets) == output.size(1) else tuple(map(str, range(output.size(1))))
        if task == "regression":
            if pre is not None:
                output = pre.in_own_unit(output)
            return Predictions(ids, id_names, output, columns, None)
        names = pre.classes if pre is not None and pre.classes else ()
        if task == "multiclass":
            names = names or tuple(map(str, range(output.size(1))))
            return Predictions(
                ids, id_names, output.softmax(-1), names, [(names[number],) for number in output.argmax(-1).tolist()]
            )
        scores = output.sigmoid()
        if task == "multilabel":
            labels = [tuple(str(int(each)) for each in row) for row in (output > 0).tolist()]
            return Predictions(ids, id_names, scores, columns, labels)
        names = names or ("0", "1")
        return Predictions(
            ids, id_names, scores, names[1:], [(names[int(each)],) for each in (output[:, 0] > 0).tolist()]
        )


def _packed_file(graph: str | os.PathLike[str], root: str | os.PathLike[str] | None) -> Path | None:
    """The packed file that a path or the name of a data set stands for; None for tables."""
    path = Path(graph)
    if path.suffix == ".npz":
        return path
    file = data_folder(root) / f"{path.name}.npz"
    return file if not path.exists() and str(path) == path.name and file.is_file() else None


def load(path: str | os.PathLike[str], accelerator: str = "cpu") -> Predictor:
    """A trained run, ready to be called.

    Args:
        path: A ``best.pt``, the folder of a run, or a folder of results such as ``outputs``: of its runs on one data
            set the one with the best validation score is taken. The predictor's ``run`` says which.
        accelerator: ``"cpu"``, ``"cuda"`` or ``"auto"``.

    Raises:
        FileNotFoundError: There is no such file.
        CheckpointError: The file is damaged, or lacks its preprocessing.
        ValueError: The folder has several runs and no ledger to choose by, or runs on different data.
    """
    check_path("path", path)
    file = find_best(Path(path))
    run, form, weights = read_best(file)
    try:
        return Predictor(run, form, weights, device_type(accelerator))
    except (ValueError, RuntimeError, KeyError) as error:
        problem = str(error).splitlines()[0]
        raise CheckpointError(file, f"the weights do not fit the network of the run ({problem})", TO_LOAD) from error


def find_best(path: Path) -> Path:
    """The ``best.pt`` that a path stands for."""
    if path.is_file():
        return path
    found = [path / "best.pt"] if (path / "best.pt").is_file() else sorted(path.glob("checkpoints/*/best.pt"))
    found = found or sorted(path.glob("*/best.pt"))
    if not found:
        raise FileNotFoundError(f"{path}: there is no trained run (no best.pt)")
    if len(found) > 1:
        return _best_by_validation(path, found)
    return found[0]


def _best_by_validation(path: Path, files: Sequence[Path]) -> Path:
    """The file of the run with the best validation score in the ledger of the folder."""
    kept = {file.parent.name: file for file in files}
    ledger = Ledger(path / "ledger.jsonl")
    results = [each for key, each in ledger.latest().items() if key in kept and each.best_epoch is not None]
    if not results:
        titles = "; ".join(f"{file.parent.name} ({read_best(file)[0].title})" for file in files[:3])
        more = f"; and {len(files) - 3} more" if len(files) > 3 else ""
        raise ValueError(f"{path}: has {len(files)} runs, name one of them: {titles}{more}")
    # of each data set and metric the best run
    best: dict[tuple[str | None, str], RunResult] = {}
    for each in results:
        sign = 1 if each.larger_is_better else -1
        held = best.get((each.data, each.metric))
        if held is None or sign * (each.at_best("val") or 0.0) > sign * (held.at_best("val") or 0.0):
            best[each.data, each.metric] = each
    if len(best) > 1:
        names = ", ".join(f"{kept[each.key].parent} ({each.run['dataset']} by {each.metric})" for each in best.values())
        raise ValueError(f"{path}: has runs on different data; name the best run of one: {names}")
    (result,) = best.values()
    return kept[result.key]
