"""The failover table on real processes, one run of each scenario: what must hold however busy the machine is.

Speed itself is measured by `python -m tests.scenarios`; here it is told apart only from what is slower by its nature:
waiting for the next regular probe, for a connect timeout, or for as many timeouts as the threshold.
"""

import math
import threading
import time
from collections import Counter

import pytest

from sniffgate.measure.study.clients import NOBODY
from tests.scenarios import grid
from tests.scenarios.processes import Node, clock
from tests.scenarios.rows import ROWS, pair

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

CONNECT_TIMEOUT = 500.0
PROMISES = {
    "first-request": (0, CONNECT_TIMEOUT / 2),
    "black-hole-request": (200, CONNECT_TIMEOUT - 50),
    "black-hole-quiet-switch": (300, 3 * 300),  # not as many timeouts as the threshold
    "frozen-switch": (300, 3 * 300),
    "udp-probe-switch": (0, 600),
    "udp-port-lost": (0, 0),
    "udp-kill-lost": (0, 5),  # what the dead process had taken and not answered
    "udp-switch-lost": (0, 0),
    "unprobed-ejection": (2, 2),
    "unprobed-flaps": (1, 1),
    "drain-both": (1000, 1200),
    "drain-tcp": (1000, 1200),
    "drain-zero": (0, 500),
    "resident-at-start": (1, 45),
    "resident-per-connection": (0.1, 6),
}


@pytest.mark.parametrize("name", list(PROMISES))
def test_a_scenario_keeps_its_order_of_magnitude(name: str) -> None:
    """One run, with bounds that only another behaviour would break."""
    least, most = PROMISES[name]
    assert least <= ROWS[name].run() <= most


@pytest.mark.parametrize("sign", ["client", "tripwire"])
def test_a_dead_node_is_out_before_its_next_regular_probe(sign: str) -> None:
    """A refused client or a broken idle connection is enough to look at once."""
    with pair({"tripwire": sign == "tripwire"}, probe_interval_ms=10000) as (gateway, a, _):
        died = a.kill()
        if sign == "client":
            assert "node-b" == gateway.door.ask()

        assert gateway.until_active("node-b") - died < 2.0


@pytest.mark.parametrize(("interval", "threshold"), [(100, 3), (200, 1)])
def test_a_sample_of_the_grid_is_within_the_formula(interval: int, threshold: int) -> None:
    """Never sooner than the formula says, and later only by what a busy machine costs."""
    for cell in grid.measure(interval, threshold):
        assert cell.is_not_early, cell
        assert cell.found <= cell.most + 500, cell


@pytest.mark.parametrize(
    "period", [1.0, pytest.param(0.3, marks=pytest.mark.soak), pytest.param(4.0, marks=pytest.mark.soak)]
)
def test_beside_a_flapping_node_no_request_fails(period: float) -> None:
    """Killed and started again and again; and its route switches no more than the documented bound."""
    lasting = max(5.0, 4 * period)
    with pair() as (gateway, a, _):
        over = threading.Event()

        deaths = []

        def flap(node: Node) -> None:
            while not over.is_set():
                began = node.kill()
                deaths.append((began, clock()))
                time.sleep(period / 2)
                node.start()
                time.sleep(period / 2)

        flapping = threading.Thread(target=flap, args=(a,))
        began, answers = clock(), Counter[str]()
        flapping.start()
        try:
            while clock() < began + lasting:
                asked = clock()
                answer = gateway.door.ask()
                if answer != NOBODY:
                    answers[answer] += 1
                else:  # its node died under it, the question read or not: nothing else may break a request
                    time.sleep(0.1)
                    assert any(asked <= dead and dying <= clock() for dying, dead in deaths)
                time.sleep(0.01)
        finally:
            over.set()
            flapping.join()
        switches = gateway.status()["recent_switches"]

    assert answers.keys() <= {"node-a", "node-b"}
    assert answers["node-b"]
    shortest = 0.9 * 0.1 + 3 * 0.02  # of a flap: nine tenths of an interval and the fast steps
    moved = sum(each["protocol"] == "tcp" and bool(each["from"]) for each in switches)
    assert moved <= 2 * math.ceil((lasting + period) / shortest)
