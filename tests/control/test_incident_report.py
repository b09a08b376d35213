"""Incidents as operators see them: in `status`, in `events`, on a terminal."""

from typing import Any

import trio
from trio.testing import MockClock

from sniffgate.control.table import render
from sniffgate.state.model import Verdict
from sniffgate.testing import has
from tests.control.desk import Desk, open_desk
from tests.tasks.configs import A, B, config_for

CONFIG = config_for(A, B, probe_interval=10.0, drain_timeout=2.0)


async def kill_under_a_client(desk: Desk) -> None:
    """Node-a dies at 5 s; the client that meets that is slow, the next one is served after the switch."""
    service = desk.service
    await service.wait_for(has("node-a", Verdict.HEALTHY))
    await trio.sleep_until(5.0)
    service.nodes["node-a"].kill()
    await service.ask()
    await service.wait_for(has("node-a", Verdict.UNHEALTHY))
    await service.ask()


async def test_status_tells_how_long_an_outage_was_and_who_felt_it(autojump_clock: MockClock) -> None:
    """The first two questions after every incident."""
    async with open_desk(CONFIG) as desk:
        began = (await desk.ask("status"))["now_ms"]
        await kill_under_a_client(desk)
        reply = await desk.ask("status")

        incident = next(each for each in reply["incidents"] if each["route"] == "default/tcp")
        assert began <= incident["evidence_ms"] <= reply["now_ms"]
        assert {
            "route": "default/tcp", "node": "node-a", "evidence": "traffic: refused", "verdict_ms": 50.0,
            "switched_ms": 50.0, "first_good_ms": 50.0, "drained_ms": 50.0, "outage_ms": 50.0, "epoch": 2,
            "after": "node-b", "slow": 1, "lost": 0, "over": True, "evidence_ms": incident["evidence_ms"],
        } == incident  # fmt: skip
        assert "50 ms" in render("status", reply, width=300)


async def test_what_has_not_come_yet_is_null(autojump_clock: MockClock) -> None:
    """Nobody asked since: the outage has no end that anybody saw."""
    async with open_desk(CONFIG) as desk:
        await desk.service.wait_for(has("node-a", Verdict.HEALTHY))
        desk.service.nodes["node-a"].kill()
        await desk.service.wait_for(has("node-a", Verdict.UNHEALTHY))
        await trio.sleep(1)
        reply = await desk.ask("status")

        (incident,) = [each for each in reply["incidents"] if each["route"] == "default/tcp"]
        assert incident["switched_ms"] == incident["drained_ms"] is not None
        assert [None, None, False] == [incident[key] for key in ("first_good_ms", "outage_ms", "over")]
        assert "not yet" in render("status", reply, width=300)


async def test_an_incident_is_an_event_when_its_length_is_known_and_when_it_is_over(autojump_clock: MockClock) -> None:
    """Two moments; where they are one, it is told once."""
    async with open_desk(CONFIG) as desk:
        await kill_under_a_client(desk)
        (told,) = await incidents(desk)
        assert (50.0, True, 1) == (told["outage_ms"], told["over"], told["slow"])
        assert "traffic: refused" == told["detail"]
        assert "incident" in render("events", await desk.ask("events"), width=300)

    async with open_desk(CONFIG) as desk:
        await desk.service.wait_for(has("node-a", Verdict.HEALTHY))
        with await desk.service.connect() as conn:
            await conn.send_all(b"hi")
            await conn.receive_some(100)
            desk.service.nodes["node-a"].black_hole()
            await desk.service.wait_for(has("node-a", Verdict.UNHEALTHY))
            await desk.service.ask()
            assert [False] == [each["over"] for each in await incidents(desk)]
            await trio.sleep(5)

        first, last = await incidents(desk)
        assert (False, True) == (first["over"], last["over"])
        assert first["outage_ms"] == last["outage_ms"]
        assert 1990 <= last["ts_ms"] - first["ts_ms"] <= 2010


async def incidents(desk: Desk) -> list[dict[str, Any]]:
    """What `events` tells of incidents of the TCP route."""
    events = (await desk.ask("events"))["events"]
    return [each for each in events if each["type"] == "incident" and each["route"] == "default/tcp"]


async def test_a_route_that_nobody_uses_does_not_pile_up_incidents(autojump_clock: MockClock) -> None:
    """A node that flaps for a week under no traffic: bounded memory, and one client ends what is still open."""
    async with open_desk(config_for(A, B, probe_interval=0.1)) as desk:
        for _ in range(120):
            desk.service.nodes["node-a"].kill()
            await desk.service.wait_for(has("node-a", Verdict.UNHEALTHY))
            desk.service.nodes["node-a"].recover()
            await desk.service.wait_for(has("node-a", Verdict.HEALTHY))
            await trio.sleep(0.2)
        kept = list(desk.service.gateway.services.incidents)
        assert 200 >= len(kept)
        assert [each.evidence_at for each in kept] == sorted(each.evidence_at for each in kept)
        assert 20 == len((await desk.ask("status"))["incidents"])

        assert b"node-a:hi" == await desk.service.ask()
        tcp = [each for each in (await desk.ask("status"))["incidents"] if each["route"] == "default/tcp"]
        assert all(each["over"] for each in tcp)
