"""Merges ledgers and thins histories to about a hundred epochs at six digits, without rates and seconds of epochs.

    python tools/thin_ledger.py LEDGER... -o THIN [--shared]

Later lines of a run replace earlier ones, as in a ledger. Writes nothing if a score would change. ``--shared``: other
processes used the device, so that times of steps say nothing and are left out.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from graphprism._files import write_whole
from graphprism.ledger import Ledger
from graphprism.results import RunResult


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ledgers", nargs="+", type=Path)
    parser.add_argument("-o", "--out", required=True, type=Path)
    parser.add_argument("--shared", action="store_true", help="without times of steps")
    args = parser.parse_args()
    results = {key: result for path in args.ledgers for key, result in Ledger(path).latest().items()}
    lines = [thin(replace(each, step_ms=None) if args.shared else each) for each in results.values()]
    write_whole(args.out, "".join(f"{line}\n" for line in lines), "ledgers")
    print(f"{len(lines)} runs, {args.out.stat().st_size / 1e6:.2f} MB in {args.out}")


def thin(result: RunResult) -> str:
    line = result.to_json(thin=True)
    again = RunResult.from_json(line)
    for column in ("val", "test"):
        before, after = result.at_best(column), again.at_best(column)
        if (before is None) != (after is None) or (before is not None and abs(before - after) > 1e-5 * abs(before)):
            raise SystemExit(f"{result.key}: {column} was {before}, would be {after}")
    return line


if __name__ == "__main__":
    main()
