"""Every table of the report, in the order of the report."""

from collections.abc import Callable

import attrs

from ..facts import Facts
from ..original import Original
from ..table import Table
from .beyond import blackhole, failback, frozen, tripwire, udpstream
from .draining import drain, reload, udp
from .failing import failover
from .overhead import overhead
from .passive import failmode, passive
from .second import blind, flap, grid, load, none
from .setup import config, control, scenarios, semantics

Make = Callable[[Facts, Original], Table]


@attrs.frozen
class Section:
    """A chapter of the report: its title, its tables, and the figure that opens it."""

    title: str
    tables: tuple[Make, ...]
    figure: str = ""


SECTIONS = (
    Section("What was measured, and how", (semantics, config, scenarios), "fig1_architecture"),
    Section("Start, control port, reload", (control, reload)),
    Section("Failover by how the failure shows itself", (failover,), "fig2_failover"),
    Section("Without probes, and without nodes", (passive, failmode), "fig3_passive"),
    Section("Draining, and UDP", (drain, udp)),
    Section("Detection is a schedule", (grid,)),
    Section("One transport dies", (blind,)),
    Section("Sweeps", (none, load, flap)),
    Section("What forwarding costs", (overhead,), "fig4_overhead"),
    Section("What the paper did not show", (blackhole, frozen, tripwire, failback, udpstream)),
)
