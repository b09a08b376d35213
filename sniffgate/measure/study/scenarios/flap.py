"""A primary that dies and returns again and again: how often its route switches, and what clients lose."""

import time
from typing import NamedTuple

from ....address import Address
from ....config.schema import GlobalConfig, NodeConfig
from ....state.detection import shortest_flap
from ..control import dig
from ..lab import Lab
from ..nodes import Node, clock
from ..scenario import ArmPlan, scenario
from ..steady import Asked, Requests, lost, record_seen, turns, under_way
from ..testimony import Watch, check_throughout, record_claims, switches
from .settling import settled_pair

PERIODS = (300, 600, 1200, 2400)  # milliseconds, half of each dead
LEAST, ROUNDS = 3.0, 4  # seconds of a run, and periods
FOREVER = float("inf")
BEFORE = 0.1  # seconds of traffic before the first death
EVERY, CLIENTS = 0.02, 2


def most_switches(lab: Lab, lasting: float) -> int:
    """The most switches in a time that this gateway's rules allow, whatever the node does."""
    rules = GlobalConfig(
        probe_interval=lab.setting("probe_interval_ms") / 1000,
        failure_threshold=int(lab.setting("failure_threshold")),
        success_threshold=int(lab.setting("success_threshold")),
    )
    node = NodeConfig(name="node-a", tcp=Address("127.0.0.1", 1))
    return 2 * (int(lasting / shortest_flap(rules, node)) + 1)


@scenario(
    "flap",
    "A node that flaps",
    "How often does a flapping node switch its route, and what do clients lose by it?",
    harness="second",
    trials=2,
    seconds=6.0,
    arms=(
        *(
            ArmPlan(f"period-{period}", f"dead and alive for {period // 2} ms in turn", {}, {"period_ms": period})
            for period in PERIODS
        ),
        ArmPlan(
            "period-1200-delay",
            "dead and alive for 600 ms in turn, failback delayed by 2 s",
            {"failback_delay_ms": 2000},
            {"period_ms": 1200},
        ),
    ),
)
def flap(lab: Lab) -> None:
    """Kills node-a and starts it again at the pace of the arm, with two clients."""
    pair = settled_pair(lab)
    period = float(lab.parameters["period_ms"] or 0) / 1000
    lasting, zero = max(LEAST, ROUNDS * period), clock()
    with (
        Watch(pair.gateway, zero) as watch,
        Requests(pair.gateway.door.port, zero, every=EVERY, clients=CLIENTS) as requests,
    ):
        time.sleep(BEFORE)
        lives = _die_and_return(lab, pair.a, period, zero, lasting)
        status = pair.gateway.status()
    ended = clock() - zero
    seen, moved = requests.seen, switches(watch.claims, "tcp")
    lab.record("deaths", "count", len(lives) - 1)
    lab.record("switches", "count", len(moved))
    lab.record("answers_moved", "count", len(turns(seen)))
    lab.record("requests", "count", len(seen))
    lab.record("requests_lost", "count", len(lost(seen)))
    lab.record("requests_lost_at_the_dying_node", "count", len(under_way(lost(seen), *_deaths(lives))))
    with lab.perhaps("ejections"):
        lab.record("ejections", "count", sum(dig(node, "stats", "passive_ejects") for node in dig(status, "nodes")))
    if len(moved) > most_switches(lab, ended):
        lab.note(f"{len(moved)} switches in {ended:.1f} s are more than the {most_switches(lab, ended)} of the rules")
    record_seen(lab, "request", seen, 0.0)
    record_claims(lab, watch.claims, 0.0)
    check_throughout(seen, watch.claims, "tcp", lambda node, asked: node == "node-b" or _lives_through(lives, asked))


class _Life(NamedTuple):
    """Of node-a, in seconds: from when it listened to when it was told to die, and when it was dead."""

    ready: float
    told: float
    dead: float


def _die_and_return(lab: Lab, a: Node, period: float, zero: float, lasting: float) -> list[_Life]:
    lives, ready, due = [], 0.0, clock()
    while due < zero + lasting:
        lives.append(_Life(ready, a.kill() - zero, clock() - zero))
        lab.record("death_at_s", "s", round(lives[-1].told, 4))
        time.sleep(max(0.0, due + period / 2 - clock()))
        ready = a.start() - zero
        lab.record("return_at_s", "s", round(ready, 4))
        due = max(due + period, clock())
        time.sleep(max(0.0, due - clock()))
    return [*lives, _Life(ready, FOREVER, FOREVER)]


def _lives_through(lives: list[_Life], asked: Asked) -> bool:
    """Whether node-a could serve a request as long as it took."""
    return any(life.ready <= asked.at and asked.over <= life.told for life in lives)


def _deaths(lives: list[_Life]) -> list[tuple[float, float]]:
    return [(life.told, life.dead) for life in lives]
