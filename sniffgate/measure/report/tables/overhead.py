"""What forwarding costs, beside talking to a node directly and beside other gateways."""

from ..facts import Facts
from ..original import Original
from ..reading import Reading, ratio
from ..table import Cell, Column, Table, figure, table, words

WAYS = ("direct", "gateway", "haproxy", "nginx")
LINES = (
    ("TCP round trip, 64 B", "µs", "tcp_rtt_us", "OverheadTcpRatio"),
    ("UDP round trip, 64 B", "µs", "udp_rtt_us", "OverheadUdpRatio"),
    ("bulk, 32 MiB", "MB/s", "bulk_mb_s", "OverheadBulkRatio"),
    ("connection with 1 B each way", "ms", "connection_ms", ""),
    ("gateway's processor in bulk", "%", "bulk_cpu_percent", ""),
    ("resident memory", "MB", "rss_mb", ""),
)
GATEWAYS_OWN = ("bulk_cpu_percent", "rss_mb")
COLUMNS = (
    Column("figure", 0.2),
    *(Column(way) for way in WAYS),
    Column("/ direct"),
    Column("original"),
)


def overhead(facts: Facts, paper: Original) -> Table:
    """The same loads on every way."""
    rows = []
    for what, unit, key, original in LINES:
        seen = {way: facts.at(f"overhead/{way}/{key}") for way in WAYS}
        cells = [Cell("") if way == "direct" and key in GATEWAYS_OWN else figure(seen[way]) for way in WAYS]
        quotient = ratio(seen["gateway"], seen["direct"])
        rows.append((*words(f"{what}, {unit}"), *cells, Cell(_of(quotient)), Cell(paper.figures.get(original, ""))))
    return table("overhead", "The cost of forwarding", COLUMNS, rows)


def _of(quotient: Reading) -> str:
    return quotient.text if quotient.seen is not None else ""
