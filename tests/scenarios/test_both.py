"""One file of scenarios in the kit's own words: each runs on the virtual network and on real processes.

What is true of both is said here; exact times are in `test_virtual.py`, and what a busy machine makes of them in
`test_real.py`.
"""

import trio

import sniffgate
from sniffgate.config.schema import Transport
from sniffgate.state.terms import LeaseKind
from sniffgate.testing import (
    EachFactory,
    ending,
    exact,
    exchange,
    expect_active,
    expect_drained,
    expect_healthy,
    silence,
)

TCP, UDP = Transport.TCP, Transport.UDP
SOON = 10.0  # seconds: far more than a failover takes on a busy machine
LATE = 5.0  # seconds that a busy machine may be late with what has a time
SLOW = 0.3
DRAIN = 3.0
CONFIG = sniffgate.load_text(
    """
[global]
probe_interval_ms = 200
probe_fast_interval_ms = 50
probe_timeout_ms = 1000
drain_timeout_ms = 3000
hedge_delay_ms = 200
udp_session_timeout_ms = 5000

[[listeners]]
name = "web"
protocol = "tcp"
listen = "10.0.0.254:80"

[[listeners]]
name = "dns"
protocol = "udp"
listen = "10.0.0.254:53"

[[nodes]]
name = "node-a"
priority = 2
tcp = "10.0.0.1:7000"
udp = "10.0.0.1:7000"
probe_payload = "ping"
probe_expect = "ping"
udp_probe_payload = "ping"
udp_probe_expect = "ping"

[[nodes]]
name = "node-b"
priority = 1
tcp = "10.0.0.2:7000"
udp = "10.0.0.2:7000"
probe_payload = "ping"
probe_expect = "ping"
udp_probe_payload = "ping"
udp_probe_expect = "ping"
""",
    file="both.toml",
)

UNPROBED = sniffgate.load_text(
    """
[global]
passive_eject_threshold = 1
eject_time_ms = 300

[[listeners]]
name = "web"
protocol = "tcp"
listen = "10.0.0.254:80"

[[listeners]]
name = "dns"
protocol = "udp"
listen = "10.0.0.254:53"

[[nodes]]
name = "node-a"
priority = 2
tcp = "10.0.0.1:7000"
udp = "10.0.0.1:7000"
probe = "none"

[[nodes]]
name = "node-b"
priority = 1
tcp = "10.0.0.2:7000"
udp = "10.0.0.2:7000"
probe = "none"
""",
    file="unprobed.toml",
)


async def test_a_killed_node_costs_no_new_client(each_gateway: EachFactory) -> None:
    """A refusal is an answer: whoever comes after the death is served before any probe knows of it."""
    service = await each_gateway(CONFIG)
    await expect_healthy(service, "node-a", within=SOON)
    node = service.nodes["node-a"]
    with await service.connect() as conn, service.datagrams() as port:
        assert (b"node-a:hi", b"node-a:hi") == (await exchange(conn), await exchange(port))
        with node.kill():
            assert (b"node-b:hi", b"node-b:hi") == (await service.ask(), await exchange(port))
            began = trio.current_time()
            assert (await ending(conn)).at < began + LATE
            await expect_active(service, "node-b", within=SOON)
    await node.wait_ready()
    await expect_active(service, "node-a", within=SOON)
    assert (b"node-a:hi", b"node-a:hi") == (await service.ask(), await service.query())


async def test_a_frozen_node_is_left_though_its_kernel_answers(each_gateway: EachFactory) -> None:
    """Connects succeed and prove nothing; a probe with words does. Its flows drain, and it is taken back."""
    service = await each_gateway(CONFIG)
    await expect_healthy(service, "node-a", within=SOON)
    with await service.connect() as conn, service.datagrams() as port:
        assert (b"node-a:hi", b"node-a:hi") == (await exchange(conn), await exchange(port))
        with service.nodes["node-a"].freeze():
            await conn.send_all(b"anybody?")
            assert await silence(conn, 0.1)
            await expect_active(service, "node-b", within=SOON)
            left = trio.current_time()
            assert (b"node-b:hi", b"node-b:hi") == (await service.ask(), await exchange(port))
            assert (await ending(conn)).at < left + DRAIN + LATE
    await expect_active(service, "node-a", within=SOON)
    assert (b"node-a:hi", b"node-a:hi") == (await service.ask(), await service.query())


async def test_a_refusing_node_keeps_whom_it_has(each_gateway: EachFactory) -> None:
    """A server that is told to finish: connections go on until their drain ends, what is new goes elsewhere."""
    service = await each_gateway(CONFIG)
    await expect_healthy(service, "node-a", within=SOON)
    node = service.nodes["node-a"]
    with await service.connect() as conn:
        assert b"node-a:hi" == await exchange(conn)
        with node.refuse():
            await node.wait_ready()
            assert (b"node-b:hi", b"node-b:hi") == (await service.ask(), await service.query())
            assert b"node-a:more" == await exchange(conn, b"more")
    await node.wait_ready()
    await expect_active(service, "node-a", within=SOON)
    assert (b"node-a:hi", b"node-a:hi") == (await service.ask(), await service.query())


async def test_a_black_hole_costs_a_client_the_hedge_delay(each_gateway: EachFactory) -> None:
    """Nothing is answered and nothing refused: a second try begins beside the first. Datagrams need the probes."""
    service = await each_gateway(CONFIG)
    await expect_healthy(service, "node-a", within=SOON)
    node = service.nodes["node-a"]
    with node.black_hole():
        await node.wait_ready()
        assert b"node-b:hi" == await service.ask()
        await expect_active(service, "node-b", within=SOON)
        assert (b"node-b:hi", b"node-b:hi") == (await service.ask(), await service.query())
    await node.wait_ready()
    await expect_active(service, "node-a", within=SOON)
    assert (b"node-a:hi", b"node-a:hi") == (await service.ask(), await service.query())


async def test_a_closed_udp_port_moves_udp_alone(each_gateway: EachFactory) -> None:
    """The refused datagram itself is sent once more, to the other node; health belongs to a transport."""
    service = await each_gateway(CONFIG)
    await expect_healthy(service, "node-a", within=SOON)
    node = service.nodes["node-a"]
    with service.datagrams() as port:
        assert b"node-a:hi" == await exchange(port)
        with node.close_udp():
            await node.wait_ready()
            assert b"node-b:again" == await exchange(port, b"again")
            await expect_active(service, "node-b", within=SOON, transport=UDP)
            await expect_active(service, "node-a", within=SOON, transport=TCP)
            assert b"node-a:hi" == await service.ask()
    await node.wait_ready()
    await expect_active(service, "node-a", within=SOON)
    assert b"node-a:hi" == await service.query()


async def test_a_slow_node_is_waited_for(each_gateway: EachFactory) -> None:
    """Late is not dead: within the probes' timeout nothing moves, over either transport."""
    service = await each_gateway(CONFIG)
    await expect_healthy(service, "node-a", within=SOON)
    node = service.nodes["node-a"]
    with node.slow(SLOW):
        await node.wait_ready()
        for question in (service.ask, service.query):
            began = trio.current_time()
            assert b"node-a:hi" == await question()
            assert SLOW <= exact(trio.current_time() - began)
        await expect_active(service, "node-a", within=SOON)
    assert 0 == len(service.state.switches) or service.state.switches[-1].after == ("node-a",)


async def test_a_connection_reset_in_mid_stream_is_no_death(each_gateway: EachFactory) -> None:
    """The client learns of it as a reset; the node has its next client."""
    service = await each_gateway(CONFIG)
    await expect_healthy(service, "node-a", within=SOON)
    node = service.nodes["node-a"]
    with await service.connect() as conn:
        assert b"node-a:hi" == await exchange(conn)
        with node.reset_mid_stream(after=len(b"node-a:hi")):
            await node.wait_ready()
            await conn.send_all(b"more")
            assert "reset" == (await ending(conn)).how
        await node.wait_ready()
    assert b"node-a:hi" == await service.ask()


async def test_a_drain_ends_at_its_deadline(each_gateway: EachFactory) -> None:
    """Flows are values with a deadline, and that is when the last is cut; sessions move, what is new goes elsewhere."""
    service = await each_gateway(CONFIG)
    await expect_healthy(service, "node-a", within=SOON)
    with await service.connect() as conn, service.datagrams() as port:
        assert (b"node-a:hi", b"node-a:hi") == (await exchange(conn), await exchange(port))
        deadline = trio.current_time() + 1.0
        await service.drain("node-a", deadline=deadline)

        assert (b"node-b:hi", b"node-b:hi") == (await service.ask(), await exchange(port))
        lease = {str(each.endpoint): each for each in service.leases()}["node-a/tcp"]
        assert ("web", LeaseKind.RETIRING, 1) == (lease.listener, lease.kind, lease.flows)
        assert abs(lease.deadline - deadline) < 0.1
        assert b"node-a:still" == await exchange(conn, b"still")
        how, at = await ending(conn)
        assert "end of stream" == how
        assert -0.1 < at - deadline < LATE
        await expect_drained(service, "node-a", within=SOON)
    await service.enable("node-a")
    await expect_active(service, "node-a", within=SOON)
    assert (b"node-a:hi", b"node-a:hi") == (await service.ask(), await service.query())


async def test_a_gateway_stops_within_a_scope(each_gateway: EachFactory) -> None:
    """Its flows live as long as the scope that it was handed."""
    service = await each_gateway(CONFIG)
    await expect_healthy(service, "node-a", within=SOON)
    with await service.connect() as conn:
        assert b"node-a:hi" == await exchange(conn)
        began = trio.current_time()
        await service.stop_within(trio.CancelScope(deadline=began + 0.5))

        assert 0.5 <= exact(trio.current_time() - began) < 0.5 + LATE
        assert (await ending(conn)).at < began + 0.5 + LATE


async def test_a_byte_of_the_node_on_trial_proves_it(each_gateway: EachFactory) -> None:
    """Without probes nothing else does so early, and whoever carries the bytes must tell of it."""
    service = await each_gateway(UNPROBED)
    node = service.nodes["node-a"]
    with node.kill():
        assert (b"node-b:hi", b"node-b:hi") == (await service.ask(), await service.query())
        await expect_active(service, "node-b", within=SOON)
    await node.wait_ready()
    await trio.sleep(0.35)  # the ejection is over

    with await service.connect() as conn:
        assert b"node-a:hi" == await exchange(conn)
        await expect_active(service, "node-a", within=0.9, transport=TCP)
    with service.datagrams() as port:
        assert b"node-a:hi" == await exchange(port)
        await expect_active(service, "node-a", within=SOON, transport=UDP)


async def test_a_second_without_a_reset_proves_a_silent_node(each_gateway: EachFactory) -> None:
    """The client on trial may have nothing to say, and nobody else is risked meanwhile."""
    service = await each_gateway(UNPROBED)
    node = service.nodes["node-a"]
    with node.kill():
        assert b"node-b:hi" == await service.ask()
        await expect_active(service, "node-b", within=SOON, transport=TCP)
    await node.wait_ready()
    await trio.sleep(0.35)

    began = trio.current_time()
    with await service.connect() as conn:
        assert await silence(conn, 0.5)
        assert b"node-b:hi" == await service.ask()
        await expect_active(service, "node-a", within=1.0 + LATE, transport=TCP)
        assert 1.0 <= exact(trio.current_time() - began)
        assert b"node-a:hi" == await exchange(conn)


async def test_an_outage_ends_with_the_first_good_byte(each_gateway: EachFactory) -> None:
    """Not with the switch, nor with a client's connect: the incident is as long as clients say."""
    service = await each_gateway(UNPROBED)
    with service.nodes["node-a"].kill(), await service.connect() as conn:
        await expect_active(service, "node-b", within=SOON, transport=TCP)
        await trio.sleep(0.3)
        (incident,) = (each for each in service.gateway.services.incidents if each.route.transport is TCP)
        assert ("node-a", ("node-b",), None) == (incident.node, incident.after, incident.outage)

        assert b"node-b:hi" == await exchange(conn)
        await trio.sleep(0.1)
        (incident,) = (each for each in service.gateway.services.incidents if each.route.transport is TCP)
        assert incident.outage is not None
        assert 0.3 <= exact(incident.outage) < 0.3 + LATE
