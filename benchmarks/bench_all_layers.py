"""All layers against their counterparts in PyG: one layer forward and backward, in time and memory.

    PYTHONPATH=src python benchmarks/bench_all_layers.py --out RESULTS.json                 # one thread of a CPU
    PYTHONPATH=src python benchmarks/bench_all_layers.py --device cuda --out RESULTS.json   # a GPU
    PYTHONPATH=src python benchmarks/bench_all_layers.py --readme RESULTS.json ...          # the table of the README

*first*: layers get `edge_index` and types of a graph that they have not seen, and prepare it, as PyG's computes its
norm in every pass; *raw*: the same tensors as in the pass before, as in the further layers of a network and in training
on one graph, for which ours finds the graph that it prepared; *prepared*: ours gets a `RelationalAdj` and PyG's GCN its
norm as `edge_weight` (the others have nothing to prepare); *captured*: the prepared pass as one CUDA graph. Before a
time is taken, all forms must give the outputs and gradients of PyG's layer in float64, with equal weights in all
relations, and those that are timed must give them in float32.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import measure
import torch
from layer_contenders import capture
from layer_graphs import ARXIV, PATENTS, Size
from layer_pairs import PAIRS, Grads, Inputs, Pair, SplitGraph, check_in_double, compare, split_graph

# `None` is a batch of 32 molecules. The largest is for a GPU, and for the layers that have a bar there.
SIZES: dict[str, tuple[Size | None, int]] = {
    "large": (Size("arxiv-64-hubs", *ARXIV, 64, 0.9), 64),
    "largest": (Size("patents-32-hubs", *PATENTS, 32, 0.9), 32),
    "small": (None, 64),
}
LARGEST = ("MRSGCNConv", "MRSGATConv", "MRSGatedGCNConv")
FORMS = ("first", "raw", "prepared", "captured")
Row = dict[str, Any]
Runs = dict[str, Callable[[], Grads]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, help="default one on a CPU")
    parser.add_argument("--layers", default="", help="parts of names, such as GCN,GAT; default all")
    parser.add_argument("--sizes", default=",".join(SIZES))
    parser.add_argument("--equal", choices=["width", "parameters"], default="width", help="of PyG's layer and ours")
    parser.add_argument("--seconds", type=float, default=1.0, help="wall time for each layer and size, beside checks")
    parser.add_argument("--limit", type=float, default=math.inf, help="seconds after which no new layer is begun")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--readme", type=Path, nargs="+", metavar="JSON", help="write the table of these results")
    args = parser.parse_args()
    if args.readme:
        write_readme([json.loads(path.read_text()) for path in args.readme])
        return
    device = torch.device(args.device)
    if args.threads or device.type == "cpu":
        torch.set_num_threads(args.threads or 1)
    results: Row = {"about": measure.about(device), "on": device.type, "equal": args.equal, "rows": [], "bars": []}
    names = [name for name in args.layers.split(",") if name]
    chosen = [pair for pair in PAIRS if not names or any(name in pair.name for name in names)]
    begin = time.perf_counter()
    for size in args.sizes.split(","):
        if size == "largest" and device.type == "cpu":
            continue
        graph = split_graph(SIZES[size][0], device)
        print(f"{size}: {graph.num_nodes:,} nodes, {graph.edge_index.size(1):,} edges, {SIZES[size][1]} channels")
        for pair in chosen if size != "largest" else [pair for pair in chosen if pair.name in LARGEST]:
            if time.perf_counter() - begin > args.limit:
                print(f"{pair.name}, {size}: not measured, {args.limit:.0f} s are over", flush=True)
                continue
            for row in measure_pair(pair, size, graph, device, args.seconds, args.equal):
                results["rows"].append(row)
                print(f"{time.perf_counter() - begin:6.1f} s  {line(row)}", flush=True)
            results["bars"] = bars(results)
            if args.out:
                measure.save(args.out, results)
    for bar in results["bars"]:
        print(f"{'kept  ' if bar['kept'] else 'MISSED'} {bar['bar']}: {bar['value']} (at most {bar['limit']})")


def measure_pair(pair: Pair, size: str, graph: SplitGraph, device: torch.device, limit: float, equal: str) -> list[Row]:
    """A row for each form of a pair on a graph."""
    channels = SIZES[size][1]
    try:
        answer = check_in_double(pair, graph, channels, device)
        free(device)
        runs = contenders(pair, graph, channels, device, equal)
    except torch.cuda.OutOfMemoryError as error:
        free(device)
        return [{**first_row(pair, size, "raw"), "note": f"not compared: {reason(error)}"}]
    notes = check_runs(pair, runs, answer, equal)
    for name in ("ours, captured", "PyG, captured") if device.type == "cuda" else ():
        run = runs.get(name.replace("captured", "prepared"), runs.get("PyG, raw") if "PyG" in name else None)
        if run is None:  # out of memory
            continue
        try:
            runs[name] = captured(run)
        except RuntimeError as error:
            notes[name] = f"cannot be captured: {reason(error)}"
    notes |= check_runs(pair, {name: run for name, run in runs.items() if "captured" in name}, answer, equal)
    del answer
    free(device)
    times = {name: found for name, found in measure.seconds(runs, 50, device, limit).items() if found}
    # a GPU's memory by its allocator; a CPU's by that of the process, which says nothing about small graphs
    is_measured = device.type == "cuda" or size != "small"
    eager = [name for name in runs if is_measured and "captured" not in name]
    memory = {name: measure.peak_bytes(runs[name], device) for name in eager}
    rows = [
        row(pair, size, form, times, memory, notes) for form in FORMS if form != "captured" or device.type == "cuda"
    ]
    free(device)
    return rows


def contenders(pair: Pair, graph: SplitGraph, channels: int, device: torch.device, equal: str) -> Runs:
    """All forms of both layers in float32; of GCN also the product with three matrices alone."""
    # equal parameters: 3 d^2 = D^2; RGCN has as many as ours
    is_wider = equal == "parameters" and not pair.takes_types
    widths = {"ours": channels, "PyG": round(math.sqrt(3) * channels) if is_wider else channels}
    runs: Runs = {}
    for who, width in widths.items():
        layers = pair.layers(width, device, torch.float32)
        inputs = Inputs.draw(pair, graph, width, device, torch.float32)
        parameters = list((layers.ours if who == "ours" else layers.theirs).parameters())
        for name, call in pair.calls(layers, graph, torch.float32).items():
            if who in name:
                runs[name] = inputs.run(call, parameters)
        if pair.name == "MRSGCNConv" and who == "ours":
            matrices = torch.randn(channels, 3 * channels).to(device).requires_grad_()
            inputs = Inputs(inputs.x, None, inputs.grad.repeat(1, 3))
            runs["product alone"] = inputs.run(lambda x, _: x @ matrices, [matrices])  # noqa: B023  one pass of the loop
    return runs


def check_runs(pair: Pair, runs: Runs, answer: list[torch.Tensor], equal: str) -> dict[str, str]:
    """Compares float32 with the answer in float64; removes what has no room in memory, and says so."""
    notes = {}
    for name, run in list(runs.items()):
        try:
            found = run()
        except torch.cuda.OutOfMemoryError as error:
            del runs[name]
            notes[name] = reason(error)
            continue
        # others compute something else: a product, a wider layer, or PyG's gates without normalisation
        if "ours" in name or ("PyG" in name and pair.oracle is None and equal == "width"):
            compare(found[: len(answer)], answer, 1e-4, 1e-2, f"{pair.name}: {name} in float32")
    return notes


def captured(run: Callable[[], Grads]) -> Callable[[], Grads]:
    """The run as a CUDA graph, if nothing in it waits for the device: a capture that fails would spoil later ones."""
    torch.cuda.set_sync_debug_mode("error")
    try:
        run()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    return capture(run)


def reason(error: Exception) -> str:
    """The first sentence of an error."""
    if isinstance(error, torch.cuda.OutOfMemoryError):
        return "out of memory"
    return str(error).strip().splitlines()[0][:120]


def free(device: torch.device) -> None:
    """Gives back what torch keeps of a GPU's memory."""
    if device.type == "cuda":
        torch.cuda.synchronize()
        torch.cuda.empty_cache()


def first_row(pair: Pair, size: str, form: str) -> Row:
    return {"layer": pair.name, "partner": pair.partner, "size": size, "form": form}


def row(
    pair: Pair, size: str, form: str, times: dict[str, list[float]], memory: dict[str, int], notes: dict[str, str]
) -> Row:
    """Times in milliseconds, memory in megabytes, and both as a multiple of PyG's."""
    ours, theirs = f"ours, {form}", f"PyG, {form}"
    said = [f"{name.split(',')[0]}: {notes[name]}" for name in (ours, theirs) if name in notes]
    if form == "first":  # PyG's does the same in every pass
        theirs = "PyG, raw"
    elif theirs not in times:  # nothing to prepare, or nothing that can be captured
        theirs = "PyG, prepared" if "PyG, prepared" in times else "PyG, raw"
    found = first_row(pair, size, form)
    for who, name in (("", ours), ("pyg_", theirs), ("product_", "product alone")):
        if name not in times or (who == "product_" and form in ("first", "raw")):
            continue
        sample = times[name]
        found[f"{who}ms"] = digits(1e3 * statistics.median(sample))
        quartiles = statistics.quantiles(sample, n=4)
        found[f"{who}ms_quartiles"] = [digits(1e3 * quartiles[0]), digits(1e3 * quartiles[2])]
        if name in memory:
            found[f"{who}peak_mb"] = round(memory[name] / 1e6, 1)
    for key in ("ms", "peak_mb"):
        if found.get(key) is not None and found.get(f"pyg_{key}"):
            found["ratio" if key == "ms" else "memory_ratio"] = round(found[key] / found[f"pyg_{key}"], 3)
    found["pyg_form"] = theirs.split(", ")[1]
    return {**found, "note": "; ".join(said)} if said else found


def digits(value: float) -> float:
    """Four digits."""
    return float(f"{value:.4g}")


def line(row: Row) -> str:
    """A row as a line of text."""
    names = f"{row['size']:<8} {row['form']:<9} {row['layer']:<24} {row['partner']:<22}"
    ours, theirs = (f"{row[key]:>9.3f} ms" if key in row else f"{'':>12}" for key in ("ms", "pyg_ms"))
    ratio = f"{row['ratio']:>6.2f}x" if "ratio" in row else f"{'':>7}"
    memory = f"  memory {row['memory_ratio']:.2f}x" if "memory_ratio" in row else ""
    product = f"  product alone {row['product_ms']:.3f} ms" if "product_ms" in row else ""
    return f"{names} {ours} {theirs} {ratio}{memory}{product}  {row.get('note', '')}".rstrip()


def bars(results: Row) -> list[Row]:
    """What is to be reached on a GPU, as far as it was measured; a CPU's bar is that of `bench_step.py`."""
    rows = {(row["layer"], row["size"], row["form"]): row for row in results["rows"]}
    found: list[Row] = []

    def bar(name: str, value: float | None, limit: float) -> None:
        if value is not None:
            found.append({"bar": name, "value": round(value, 3), "limit": limit, "kept": value <= limit})

    if results["on"] == "cpu":
        return found
    for (layer, size, form), row in rows.items():
        if form in ("raw", "prepared") and (layer == "MRSGCNConv" or (size == "largest" and form == "prepared")):
            bar(f"{layer}, {size}, {form}: time over {row['partner']}", row.get("ratio"), 1.0)
        if size == "largest" and form == "prepared" and layer != "MRSGCNConv":
            bar(f"{layer}, {size}, {form}: memory over {row['partner']}", row.get("memory_ratio"), 0.5)
    bar("MRSGCNConv, large, prepared: ms", rows.get(("MRSGCNConv", "large", "prepared"), {}).get("ms"), 0.9)
    gcn = rows.get(("MRSGCNConv", "largest", "prepared"), {})
    if "product_ms" in gcn and "ms" in gcn:
        bar("MRSGCNConv, largest, prepared: time over the product alone", gcn["ms"] / gcn["product_ms"], 1.3)
    return found


START, END = "<!-- all layers -->", "<!-- end of all layers -->"


def write_readme(results: list[Row]) -> None:
    """Writes the tables of results between two marks of the README beside this file."""
    path = Path(__file__).with_name("README.md")
    before, _, rest = path.read_text("utf-8").partition(START)
    _, _, after = rest.partition(END)
    tables = "".join(table(each) for each in results)
    path.write_text(f"{before}{START}\n{tables}{END}{after}", "utf-8")


def table(results: Row) -> str:
    """Results of one device as Markdown."""
    about, rows = results["about"], results["rows"]
    columns = [(size, form) for size in ("small", "large", "largest") for form in FORMS]
    columns = [column for column in columns if any((row["size"], row["form"]) == column for row in rows)]
    threads = "" if results["on"] != "cpu" else f", {about['threads']} thread{'s' * (about['threads'] > 1)}"
    words = f"**{about['device']}{threads}**, torch {about['torch']}, PyG {about['torch_geometric']}, {about['commit']}"
    lines = [f"{words}, equal {results['equal']}:", ""]
    lines += [f"| layer over PyG's | {' | '.join(f'{size}, {form}' for size, form in columns)} |"]
    lines += ["|---" * (1 + len(columns)) + "|"]
    for layer in dict.fromkeys(row["layer"] for row in rows):
        of = {(row["size"], row["form"]): row for row in rows if row["layer"] == layer}
        partner = next(iter(of.values()))["partner"]
        cells = " | ".join(cell(of[column]) if column in of else "" for column in columns)
        lines += [f"| `{layer}` / `{partner}` | {cells} |"]
    if results["bars"]:
        missed = [f"{bar['bar']} {bar['value']} (at most {bar['limit']})" for bar in results["bars"] if not bar["kept"]]
        kept = len(results["bars"]) - len(missed)
        lines += ["", f"Bars: {kept} of {len(results['bars'])} kept; missed: {'; '.join(missed) or 'none'}."]
    lines += ["", ""]
    return "\n".join(lines)


def cell(row: Row) -> str:
    """Our time, and time and memory over PyG's."""
    if "ms" not in row:
        return row.get("note", "")
    if "ratio" not in row:
        return f"{milliseconds(row)}, {row.get('note', '')}"
    eager = "*" if row["form"] == "captured" != row["pyg_form"] else ""
    memory = f" · {row['memory_ratio']:.2f}" if "memory_ratio" in row else ""
    return f"{milliseconds(row)}, **{row['ratio']:.2f}**{eager}{memory}"


def milliseconds(row: Row) -> str:
    """Our time with three digits."""
    return f"{row['ms']:,.0f} ms" if row["ms"] >= 100 else f"{row['ms']:.3g} ms"


if __name__ == "__main__":
    main()
