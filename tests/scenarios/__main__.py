"""Measures the failover table on real processes and prints it beside its aims.

    python -m tests.scenarios [--only NAME ...] [--runs 5] [--json FILE]

Absolute figures move from machine to machine, and with what else the machine does: the load is printed with them.
"""

import argparse
import compileall
import json
import os
import platform
import statistics
import sys
import traceback
from pathlib import Path

import sniffgate
from tests.scenarios.processes import Gateway, Node, clock
from tests.scenarios.rows import ROWS, Row


def verdict(row: Row, median: float | None) -> str:
    """Whether the median is within the aim."""
    if median is None:
        return "no figure"
    return "kept" if row.least <= median <= row.most else "MISSED"


def aim(row: Row) -> str:
    """The aim in words."""
    if row.least == row.most:
        return f"{row.most:g} {row.unit}"
    return f"{row.least:g}-{row.most:g} {row.unit}" if row.least else f"<= {row.most:g} {row.unit}"


def look_cost() -> float:
    """Milliseconds that one look at the gateway's status takes."""
    with Node("node-a") as a, Gateway(a.table()) as gateway:
        began = clock()
        for _ in range(100):
            gateway.status()
        return 10 * (clock() - began)


def measure(row: Row, runs: int) -> list[float]:
    """The figures of some runs; one that fails is told and left out."""
    figures = []
    for _ in range(runs):
        try:
            figures.append(row.run())
        except Exception:
            traceback.print_exc()
    return figures


def main() -> int:
    """Runs what was asked for; 1 if a run had no figure."""
    options = argparse.ArgumentParser(prog="python -m tests.scenarios", description=__doc__.splitlines()[0])
    options.add_argument(
        "--only", nargs="+", choices=list(ROWS), default=list(ROWS), metavar="NAME", help="of the rows"
    )
    options.add_argument("--runs", type=int, default=5)
    options.add_argument("--json", type=Path, metavar="FILE")
    chosen = options.parse_args()
    compileall.compile_dir(str(Path(sniffgate.__file__).parent), quiet=2)  # as an installation has it
    load = os.getloadavg()
    print(f"{platform.release()}, {os.cpu_count()} cores, Python {platform.python_version()}, load {load[0]:.2f}")
    print(f"one look at the status: {look_cost():.2f} ms; runs: {chosen.runs}\n")
    print(f"| {'scenario':<52} | {'aim':<15} | {'median':>8} | {'worst':>8} |        |")
    print(f"|{'-' * 54}|{'-' * 17}|{'-' * 9}:|{'-' * 9}:|--------|")
    found = []
    for row in (ROWS[name] for name in chosen.only):
        figures = measure(row, chosen.runs)
        median = statistics.median(figures) if figures else None
        shown = [f"{median:.1f}", f"{max(figures):.1f}"] if median is not None else ["-", "-"]
        print(
            f"| {row.title:<52} | {aim(row):<15} | {shown[0]:>8} | {shown[1]:>8} | {verdict(row, median)} |", flush=True
        )
        found.append({"name": row.name, "unit": row.unit, "least": row.least, "most": row.most, "figures": figures})
    print(f"\nload at the end: {os.getloadavg()[0]:.2f}")
    if chosen.json is not None:
        chosen.json.write_text(json.dumps({"load": load, "rows": found}, indent=1))
    return int(any(len(each["figures"]) < chosen.runs for each in found))  # type: ignore[arg-type]  # it is a list


if __name__ == "__main__":
    sys.exit(main())
