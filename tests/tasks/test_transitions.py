"""What the log says of a gateway's transitions: each once, in the right words, at the right level."""

import logging
import math
from collections.abc import Awaitable, Callable

import attrs
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from sniffgate.address import Address
from sniffgate.config.schema import Failback, ProbeKind, pool_from
from sniffgate.errors import CommandRefused, PeerReset
from sniffgate.state.model import Endpoint, Mark, RouteKey, State, SwitchReason, Verdict
from sniffgate.testing import VirtualGateway, exact, has, open_gateway, when
from tests.tasks.configs import TCP, TCP_DOOR, A, B, config_for, with_nodes

A_TCP = Endpoint("node-a", TCP)
DOORS = (TCP_DOOR,)
INFO, WARNING = logging.INFO, logging.WARNING


def said(caplog: pytest.LogCaptureFixture) -> list[tuple[int, str]]:
    """Level and text of what the gateway has logged since the last call."""
    lines = [(each.levelno, each.getMessage()) for each in caplog.records if each.name == "sniffgate"]
    caplog.clear()
    return lines


async def test_a_failover_and_a_failback_are_four_lines_each_said_once(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """Verdict and switch, both ways; the evidence stands beside them."""
    caplog.set_level(INFO)
    async with open_gateway(config_for(A, B, listeners=DOORS)) as service:
        await trio.sleep_until(3.5)
        assert [
            (INFO, "node-a/tcp is healthy (was unknown)"),
            (INFO, "node-b/tcp is healthy (was unknown)"),
        ] == sorted(said(caplog))
        service.nodes["node-a"].kill(TCP)
        await trio.sleep_until(10.5)
        epoch = service.state.epoch
        evidence = "node-a/tcp unhealthy by probes (connection refused)"
        assert [
            (WARNING, "node-a/tcp is unhealthy (was healthy): connection refused"),
            (WARNING, f"default/tcp: node-a -> node-b (failover, epoch {epoch}): {evidence}"),
        ] == [line for line in said(caplog) if "/udp" not in line[1]]
        service.nodes["node-a"].recover()
        await trio.sleep_until(60.0)
        lines = [line for line in said(caplog) if "/udp" not in line[1]]
        assert (INFO, "node-a/tcp is healthy (was unhealthy)") == lines[0]
        assert lines[1][1].startswith(f"default/tcp: node-b -> node-a (failback, epoch {epoch + 1})")
        assert 2 == len(lines)


async def test_every_wish_of_the_operator_is_said_once(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """Who reads the log later must know that it was a hand."""
    caplog.set_level(INFO)
    async with open_gateway(config_for(A, B, listeners=DOORS)) as service:
        await trio.sleep_until(0.5)
        said(caplog)
        wishes: list[tuple[int, str]] = []
        asked: tuple[tuple[Callable[[], Awaitable[State]], str], ...] = (
            (lambda: service.disable("node-a"), "node-a: disabled by the operator"),
            (lambda: service.enable("node-a"), "node-a: as configured"),
            (
                lambda: service.drain("node-a", 5.0),
                "node-a: disabled by the operator, draining for at most 5 s",
            ),
            (
                lambda: service.drain("node-a", math.inf),
                "node-a: disabled by the operator, draining without end",
            ),
            (lambda: service.enable("node-a"), "node-a: as configured"),
            (lambda: service.mark("node-b", Mark.DOWN), "node-b: marked down by the operator"),
            (lambda: service.mark("node-b", None), "node-b: as configured"),
        )
        for ask, words in asked:
            await ask()
            await ask()  # the second time nothing changes, but for a drain, which begins anew
            wishes += [(level, text) for level, text in said(caplog) if " -> " not in text]
            assert (INFO, words) == wishes[-1]
        assert 6 + 1 >= len(wishes)


async def test_pins_are_said_when_they_come_change_and_go(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """By the operator's hand quietly; overruled by a failure with a warning."""
    caplog.set_level(INFO)
    async with open_gateway(config_for(A, B, listeners=DOORS)) as service:

        def pins() -> list[tuple[int, str]]:
            return [line for line in said(caplog) if "pin" in line[1] and line[1].startswith("default/tcp")]

        await trio.sleep_until(0.5)
        pins()
        await service.switch("node-b", TCP)
        assert [(INFO, "default/tcp: pinned to node-b")] == pins()
        await service.switch("node-a", TCP)
        assert [(INFO, "default/tcp: pinned to node-a")] == pins()
        await service.switch("node-a", TCP)
        await trio.sleep_until(5.0)
        assert [] == pins()
        await service.release()
        assert [(INFO, "default/tcp: the pin on node-a is released by the operator")] == pins()
        await service.switch("node-a", TCP)
        pins()
        service.nodes["node-a"].kill()
        await when(service, has("node-a", Verdict.UNHEALTHY))
        assert [(WARNING, "default/tcp: the pin on node-a is released")] == pins()
        with pytest.raises(CommandRefused):
            await service.switch("node-a", TCP)
        assert [] == pins()


async def test_a_reload_says_who_is_new_and_what_switched(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """And nothing of what stayed, nor of the wishes about who went."""
    caplog.set_level(INFO)
    config = config_for(A, B, listeners=DOORS)
    async with open_gateway(config) as service:
        await trio.sleep_until(0.5)
        await service.disable("node-a")
        said(caplog)
        await service.apply(with_nodes(config, B))
        await service.apply(with_nodes(config, B))
        assert [] == said(caplog)
        await service.apply(config)
        assert [(INFO, "node-a/tcp,node-a/udp are new")] == said(caplog)
        await trio.sleep_until(10.0)
        lines = said(caplog)
        assert (INFO, "node-a/tcp is healthy (was unknown)") == lines[0]
        switch = f"default/tcp: node-b -> node-a (reload, epoch {service.state.epoch})"
        assert f"{switch}: node-a/tcp healthy since a reload brought it" in [text for _, text in lines]


async def test_hundreds_of_active_nodes_make_no_line_of_hundreds(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """A switch among 500 nodes would be several KB a line, and a flapping one a full disk."""
    caplog.set_level(INFO)
    nodes = [
        attrs.evolve(A, name=f"node-{number:03}", udp=None, tcp=Address("10.0.0.1", number), probe=ProbeKind.NONE)
        for number in range(1, 501)
    ]
    async with open_gateway(config_for(nodes[0], listeners=DOORS)) as service:
        await service.apply(config_for(*nodes, listeners=DOORS))
        said(caplog)
        await service.mark("node-002", Mark.DOWN)

        few = "node-001, node-003, node-004 and 496 more"
        assert f"default/tcp: node-001, node-002, node-003 and 497 more -> {few} (operator, epoch 3)" in [
            text for _, text in said(caplog)
        ]


async def test_nothing_is_logged_while_nothing_changes(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """Minutes of probes are no news."""
    caplog.set_level(INFO)
    async with open_gateway(config_for(A, B)) as service:
        await trio.sleep_until(1.0)
        said(caplog)
        await trio.sleep_until(120.0)

        assert [] == said(caplog)
        assert Verdict.HEALTHY is service.state.health[next(iter(service.state.health))].verdict


async def test_ten_minutes_of_trouble_fill_no_disk(autojump_clock: MockClock, caplog: pytest.LogCaptureFixture) -> None:
    """Every node is dead and clients go on trying: the log grows with changes, not with them."""
    caplog.set_level(INFO)
    async with open_gateway(config_for(A, B, probe_interval=4.0)) as service:
        await trio.sleep_until(4.0)
        said(caplog)
        service.nodes["node-a"].kill()
        service.nodes["node-b"].kill()
        with service.datagrams() as client:
            for _ in range(300):
                client.send_nowait(b"x")
                with await service.connect() as conn, pytest.raises(PeerReset):
                    await conn.receive_some(100)
                await trio.sleep(2.0)

        lines = said(caplog)
        assert 20 >= len(lines), lines[:40]
        assert 300 * 2 >= len(service.flow_log)  # the flow log: a line for each client that failed


# --- whole stories --------------------------------------------------------------------------------


def switches(service: VirtualGateway) -> list[tuple[float, str, SwitchReason]]:
    """Each change of the TCP route since the start: when, to whom, why."""
    return [
        (exact(each.at), ",".join(each.after), each.reason)
        for each in service.state.switches
        if each.route == RouteKey("default", TCP) and each.reason is not SwitchReason.START
    ]


def has_failed(times: int) -> Callable[[State], bool]:
    """A predicate: so many probes of node-a have failed in a row."""
    return lambda state: state.health[A_TCP].bad_streak == times


async def test_single_failures_by_script_move_nobody(autojump_clock: MockClock) -> None:
    """Ok, ok, fail, ok, for ever: no three failures follow one another."""
    async with open_gateway(config_for(A, B, listeners=DOORS)) as service:
        for failures in (1, 2) * 10:
            await trio.sleep(1.5)
            service.nodes["node-a"].refuse()
            await when(service, has_failed(failures))
            service.nodes["node-a"].recover()
        await trio.sleep(5.0)

        assert (30, 0) == (service.state.health[A_TCP].probe_fail, len(switches(service)))


async def test_a_node_two_seconds_up_and_two_down_for_a_minute_switches_as_computed(
    autojump_clock: MockClock,
) -> None:
    """Down at 2, 6, ...: three failed probes in a tenth of a second, then two good ones in half of that."""
    async with open_gateway(config_for(A, B, listeners=DOORS)) as service:
        for round_ in range(15):
            await trio.sleep_until(2.0 + 4.0 * round_)
            service.nodes["node-a"].kill()
            await trio.sleep_until(4.0 + 4.0 * round_)
            service.nodes["node-a"].recover()
        await trio.sleep_until(64.0)

        assert 30 == len(switches(service))
        assert [(2.15, "node-b", SwitchReason.FAILOVER), (4.20, "node-a", SwitchReason.FAILBACK)] == switches(service)[
            :2
        ]


@pytest.mark.parametrize("delay", [3.0, 30.0])
async def test_a_failback_waits_until_the_node_has_been_healthy_for_its_delay(
    delay: float, autojump_clock: MockClock
) -> None:
    """Unrelated reloads do not start the count anew."""
    config = config_for(A, B, listeners=DOORS, failback_delay=delay)
    async with open_gateway(config) as service:
        await trio.sleep_until(2.0)
        service.nodes["node-a"].kill()
        await trio.sleep_until(4.0)
        service.nodes["node-a"].recover()
        back = await when(service, has("node-a", Verdict.HEALTHY))
        await trio.sleep_until(back + 1.0)
        await service.apply(with_nodes(config, A, attrs.evolve(B, remark="x")))
        await trio.sleep_until(100.0)

        assert [
            (2.15, "node-b", SwitchReason.FAILOVER),
            (exact(back + delay), "node-a", SwitchReason.FAILBACK),
        ] == switches(service)


async def test_with_a_delay_a_flapping_node_is_left_once(autojump_clock: MockClock) -> None:
    """It never holds healthy long enough."""
    async with open_gateway(config_for(A, B, listeners=DOORS, failback_delay=5.0)) as service:
        for round_ in range(15):
            await trio.sleep_until(2.0 + 4.0 * round_)
            service.nodes["node-a"].kill()
            await trio.sleep_until(4.0 + 4.0 * round_)
            service.nodes["node-a"].recover()
        await trio.sleep_until(62.0)

        assert [(2.15, "node-b", SwitchReason.FAILOVER)] == switches(service)


async def test_manual_failback_waits_for_the_operator(autojump_clock: MockClock) -> None:
    """However long the better node has been well."""
    async with open_gateway(config_for(A, B, listeners=DOORS, failback=Failback.MANUAL)) as service:
        await trio.sleep_until(2.0)
        service.nodes["node-a"].kill()
        await trio.sleep_until(4.0)
        service.nodes["node-a"].recover()
        await trio.sleep_until(100.0)
        assert b"node-b:hi" == await service.ask()
        await service.release()

        assert b"node-a:hi" == await service.ask()
        assert [(2.15, "node-b"), (100.0, "node-a")] == [each[:2] for each in switches(service)]


async def test_sessions_on_the_standby_live_for_the_failback_drain_after_the_failback(
    autojump_clock: MockClock,
) -> None:
    """No split system for ever, and no cut without warning."""
    pool = pool_from(config_for().globals, "default", failback_drain_timeout=7.0)
    async with open_gateway(config_for(A, B, pools=(pool,), listeners=DOORS)) as service:
        await trio.sleep_until(2.0)
        service.nodes["node-a"].kill()
        await trio.sleep_until(3.0)
        conns = [await service.connect() for _ in range(20)]
        for conn in conns:
            await conn.send_all(b"x")
            assert b"node-b:x" == await conn.receive_some(100)
        await trio.sleep_until(4.0)
        service.nodes["node-a"].recover()
        back = await when(service, has("node-a", Verdict.HEALTHY))
        await trio.sleep_until(back + 6.9)
        for conn in conns:
            await conn.send_all(b"y")
            assert b"node-b:y" == await conn.receive_some(100)
            assert b"node-a:hi" == await service.ask()
        for conn in conns:
            assert b"" == await conn.receive_some(100)
            assert exact(back + 7.0) == exact(trio.current_time())


async def test_a_node_that_passes_probes_and_fails_clients_stays_out_ever_longer(autojump_clock: MockClock) -> None:
    """It resets every real session: each ejection lasts twice the one before."""
    node = attrs.evolve(A, probe=ProbeKind.AUTO)
    async with open_gateway(config_for(node, B, listeners=DOORS, eject_time=2.0)) as service:
        await trio.sleep_until(1.0)
        out: list[float] = []
        for _ in range(4):
            while service.state.routes[RouteKey("default", TCP)].active == ("node-a",):
                with await service.connect() as conn:
                    await wait_all_tasks_blocked()
                    service.nodes["node-a"].reset_clients()
                    with pytest.raises(PeerReset):
                        await conn.receive_some(100)
                    await wait_all_tasks_blocked()
            began = trio.current_time()
            await when(service, lambda state: state.routes[RouteKey("default", TCP)].active == ("node-a",))
            out.append(exact(trio.current_time() - began))

        assert [2.0, 4.0, 8.0, 16.0] == out
