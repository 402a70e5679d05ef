"""Distributed: two real processes with torchrun, and the same loss curve as one.

Sampled neighbours follow from counters, not from the state of a generator, and `mean_over_processes` makes the gradient
that of the whole batch. So the number of processes changes the speed and nothing else. Started plainly, this script
trains once by itself and once more under torchrun with two processes; torchrun may also start it by itself:
`torchrun --nproc-per-node 2 examples/distributed.py`.
"""

# %%
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from torch_geometric.data import Data
from torch_geometric.utils import erdos_renyi_graph

import graphprism as gp


# %%
# The loop of a process. The batch size is that of all processes together; each takes its part of every batch.
def train(rank, ranks):
    torch.manual_seed(0)
    torch.set_num_threads(1)
    edges = erdos_renyi_graph(1000, 0.008)
    data = Data(x=torch.randn(1000, 8, dtype=torch.float64), edge_index=edges, y=torch.randint(3, (1000,)))
    data = gp.SplitEdges("degree")(data)
    loader = gp.loader.NeighborLoader(data, [5, 5], batch_size=250, shuffle=True, seed=0, rank=rank, ranks=ranks)
    model = gp.nn.GNN("mrs-sage", 16, 3, num_layers=2, in_channels=8).double()
    model = torch.nn.parallel.DistributedDataParallel(model) if ranks > 1 else model
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    curve = []
    for _ in range(3):
        for batch in loader:
            optimizer.zero_grad()
            out = model(batch.x, batch.edge_index, batch.edge_type)[: batch.batch_size]
            losses = torch.nn.functional.cross_entropy(out, batch.y[: batch.batch_size], reduction="none")
            loss = gp.training.mean_over_processes(losses)
            loss.backward()  # DistributedDataParallel averages the gradients
            optimizer.step()
            total = loss.detach() / ranks
            if ranks > 1:
                torch.distributed.all_reduce(total)
            curve.append(total.item())
    return curve


# %%
# Under torchrun every process comes here; the first one writes the curve.
def worker():
    torch.distributed.init_process_group("gloo")
    curve = train(torch.distributed.get_rank(), torch.distributed.get_world_size())
    if torch.distributed.get_rank() == 0 and "CURVE" in os.environ:
        Path(os.environ["CURVE"]).write_text(json.dumps(curve))
    torch.distributed.destroy_process_group()


# %%
# Started plainly: one process here, then two by torchrun, and both curves beside each other.
def main():
    alone = train(0, 1)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "curve.json")
        torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", __file__]
        environment = {**os.environ, "CURVE": str(file), "OMP_NUM_THREADS": "1"}
        subprocess.run(torchrun, check=True, env=environment)
        together = json.loads(file.read_text())
    print(f"{'step':>4}{'loss, one process':>20}{'loss, two processes':>21}{'difference':>13}")
    for step, (one, two) in enumerate(zip(alone, together, strict=True), start=1):
        print(f"{step:4}{one:20.12f}{two:21.12f}{abs(one - two):13.1e}")


if __name__ == "__main__":
    worker() if "RANK" in os.environ else main()
