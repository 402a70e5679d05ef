"""Times and peak memory of contenders, interleaved so that a busy machine slows all of them alike."""

from __future__ import annotations

import json
import math
import platform
import statistics
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from graphprism._files import write_whole
from graphprism.training.provenance import processor

_QUEUED = 10  # runs in the queue of a GPU at once, as the layers of a network are
_LEAST = 3  # rounds, where time is short


def clock(device: torch.device) -> float:
    """Seconds; of one thread on a CPU its own time, which other work on the machine hardly changes."""
    own = device.type == "cpu" and torch.get_num_threads() == 1
    return time.process_time() if own else time.perf_counter()


def wall(device: torch.device) -> float:
    """Wall time in seconds, after a host-device sync."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


def seconds(
    runs: dict[str, Callable[[], object]],
    repeats: int,
    device: torch.device,
    limit: float = math.inf,
    cpu_clock: Callable[[torch.device], float] = clock,
) -> dict[str, list[float]]:
    """Time of every run, ``repeats`` times, in turns; two rounds to warm up.

    No new round begins after ``limit`` seconds of wall time, but three are measured; the long runs of a GPU are then
    queued in smaller numbers. ``cpu_clock`` measures on a CPU, `clock` or `wall`.
    """
    found: dict[str, list[float]] = {name: [] for name in runs}
    queued = dict.fromkeys(runs, _QUEUED)
    begin = time.perf_counter()
    for round_number in range(repeats + 2):
        if round_number >= 2 + _LEAST and time.perf_counter() - begin > limit:
            break
        for name, run in runs.items():
            took = _time_once(run, device, queued[name] if round_number else 1, cpu_clock)
            if round_number == 1 and limit < math.inf:
                queued[name] = max(1, min(_QUEUED, round(0.02 / took)))
            if round_number >= 2:
                found[name].append(took)
    return found


def _time_once(
    run: Callable[[], object], device: torch.device, queued: int, cpu_clock: Callable[[torch.device], float]
) -> float:
    if device.type == "cuda":
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        start.record()
        for _ in range(queued):
            run()
        end.record()
        torch.cuda.synchronize()
        return start.elapsed_time(end) / 1e3 / queued
    begin = cpu_clock(device)
    run()
    return cpu_clock(device) - begin


def peak_bytes(run: Callable[[], object], device: torch.device) -> int:
    """Peak memory of one call beyond the memory in use before it."""
    run()
    if device.type == "cuda":
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        run()
        torch.cuda.synchronize()
        return torch.cuda.max_memory_allocated() - before
    # Linux records the peak of resident memory and resets it on request
    Path("/proc/self/clear_refs").write_text("5")
    before = _status("VmRSS")
    run()
    return _status("VmHWM") - before


def _status(key: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(key))


def row(name: str, contender: str, times: list[float], memory: int | None, base: float) -> dict[str, Any]:
    """One line of results: median, minimum, quartiles, memory and the ratio to the contender called graphprism."""
    quartiles = statistics.quantiles(times, n=4) if len(times) > 1 else [times[0]] * 3
    return {
        "input": name,
        "contender": contender,
        "ms": round(1e3 * statistics.median(times), 4),
        "ms_min": round(1e3 * min(times), 4),
        "ms_quartiles": [round(1e3 * quartiles[0], 4), round(1e3 * quartiles[2], 4)],
        "times_graphprism": round(statistics.median(times) / base, 3),
        "peak_mb": None if memory is None else round(memory / 1e6, 1),
    }


def about(device: torch.device) -> dict[str, str | int]:
    """Hardware, versions and commit."""
    import torch_geometric

    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    return {
        "device": torch.cuda.get_device_name() if device.type == "cuda" else processor(),
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "torch_geometric": torch_geometric.__version__,
        "commit": commit.stdout.strip() or "unknown",
    }


def save(path: Path, results: dict[str, Any]) -> None:
    """Writes the results atomically."""
    write_whole(path, f"{json.dumps(results, indent=1)}\n", "results")


def show(rows: list[dict[str, Any]]) -> None:
    """Prints the results as a table."""
    print(f"{'input':<20} {'contender':<40} {'ms':>10} {'times ours':>11} {'peak MB':>9}")
    for each in rows:
        memory = "" if each["peak_mb"] is None else f"{each['peak_mb']:.0f}"
        names = f"{each['input']:<20} {each['contender']:<40}"
        print(f"{names} {each['ms']:>10.3f} {each['times_graphprism']:>11.2f} {memory:>9}", flush=True)
