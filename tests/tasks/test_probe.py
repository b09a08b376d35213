"""One probe on the virtual network, to the exact second."""

from collections.abc import Awaitable, Callable, Mapping

import attrs
import pytest
import trio
from trio.testing import MockClock

from sniffgate.address import Address
from sniffgate.config.schema import GlobalConfig, NodeConfig, ProbeKind, Transport
from sniffgate.errors import LocalShortage, NameUnresolved, SniffgateError
from sniffgate.net.ports import Conn, DatagramPort
from sniffgate.state.model import Endpoint
from sniffgate.tasks.probe import Bad, Good, ProbeResult, ProbeSpec, Shortage, Silent, probe_once, run_probe, spec_for
from sniffgate.testing import VirtualNetwork
from sniffgate.testing.trace import Fate, Kind

A, B, C = (Address(f"10.0.0.{number}", 7000) for number in (1, 2, 3))
APP = Address("app.test", 7000)
Server = Callable[[Conn], Awaitable[None]]


@attrs.frozen
class Book:
    """Names with fixed answers, each after `delay` seconds."""

    entries: Mapping[Address, tuple[Address, ...] | SniffgateError] = {}
    delay: float = 0.0

    async def addresses(self, address: Address) -> tuple[Address, ...]:
        await trio.sleep(self.delay)
        answer = self.entries.get(address, (address,))
        if isinstance(answer, SniffgateError):
            raise answer
        return answer


@attrs.frozen
class Bench:
    """A virtual network with servers on it, and probes of them."""

    network: VirtualNetwork
    servers: trio.Nursery

    async def serve_tcp(self, address: Address, server: Server) -> None:
        """Serves each connection with `server`, then closes it."""

        async def accept_forever(*, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
            with await self.network.host(address.host).listen_tcp(address) as acceptor:
                task_status.started()
                while True:
                    self.servers.start_soon(serve, await acceptor.accept())

        async def serve(conn: Conn) -> None:
            with conn:
                await server(conn)

        await self.servers.start(accept_forever)

    async def serve_udp(self, address: Address, *replies: tuple[float, bytes]) -> list[bytes]:
        """Answers each datagram with `replies`, each after its seconds; returns what will have been received."""
        received: list[bytes] = []

        async def receive_forever(*, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
            with await self.network.host(address.host).listen_udp(address) as port:
                task_status.started()
                while True:
                    datagram = await port.receive()
                    received.append(datagram.data)
                    for delay, data in replies:
                        self.servers.start_soon(reply, port, delay, data, datagram.client, datagram.local)

        async def reply(port: DatagramPort, delay: float, data: bytes, client: Address, local: Address) -> None:
            await trio.sleep(delay)
            port.send_nowait(data, client, local)

        await self.servers.start(receive_forever)
        return received

    async def tcp(
        self, address: Address, *, payload: bytes = b"", expect: bytes = b"", timeout: float = 0.8, names: Book = Book()
    ) -> ProbeResult:
        spec = ProbeSpec(Endpoint("node-a", Transport.TCP), address, payload, expect, timeout, False)
        return await probe_once(spec, self.network, names)

    async def udp(
        self,
        address: Address,
        *,
        payload: bytes = b"",
        expect: bytes = b"",
        silence_fails: bool = True,
        names: Book = Book(),
    ) -> ProbeResult:
        spec = ProbeSpec(Endpoint("node-a", Transport.UDP), address, payload, expect, 0.8, silence_fails)
        return await probe_once(spec, self.network, names)


@pytest.fixture
def bench(nursery: trio.Nursery) -> Bench:
    return Bench(VirtualNetwork(), nursery)


async def mute(_: Conn) -> None:
    """A server that says nothing and keeps its side open."""
    await trio.sleep_forever()


def says(*parts: tuple[float, bytes], close: bool = False) -> Server:
    """A server that sends each part after its seconds, then closes or waits for the client to end."""

    async def server(conn: Conn) -> None:
        for delay, data in parts:
            await trio.sleep(delay)
            await conn.send_all(data)
        if not close:
            await conn.receive_some(100)

    return server


# --- what is probed, and how ----------------------------------------------------------------------

BOTH = NodeConfig(name="node-a", tcp=A, udp=B)


@pytest.mark.parametrize(
    ("node", "probed"),
    [
        (BOTH, {Transport.TCP, Transport.UDP}),
        (attrs.evolve(BOTH, probe=ProbeKind.NONE), set()),
        (attrs.evolve(BOTH, probe=ProbeKind.TCP), {Transport.TCP}),
        (attrs.evolve(BOTH, probe=ProbeKind.UDP), {Transport.UDP}),
        (attrs.evolve(BOTH, udp=None), {Transport.TCP}),
        (attrs.evolve(BOTH, tcp=None, probe=ProbeKind.TCP), {Transport.UDP}),
    ],
)
def test_an_endpoint_is_probed_unless_another_speaks_for_it(node: NodeConfig, probed: set[Transport]) -> None:
    """`probe = "tcp"` or `"udp"` makes one transport speak for the node; "none" probes nothing."""
    assert probed == {transport for transport in Transport if spec_for(node, transport, GlobalConfig()) is not None}


@pytest.mark.parametrize(
    ("node", "fails"),
    [
        (BOTH, False),
        (attrs.evolve(BOTH, udp_probe_payload=b"ping"), True),
        (attrs.evolve(BOTH, udp_probe_expect=b"pong"), True),
        (attrs.evolve(BOTH, probe=ProbeKind.UDP), True),
    ],
)
def test_silence_fails_only_where_an_answer_was_asked_for(node: NodeConfig, fails: bool) -> None:
    """Many UDP services never answer a stray byte: only words of the operator make their silence a failure."""
    spec = spec_for(node, Transport.UDP, GlobalConfig())
    assert spec is not None
    assert fails == spec.silence_fails


def test_a_spec_changes_with_the_settings_it_depends_on_and_no_others() -> None:
    """A prober is restarted when its spec changes: another transport's settings must not restart it."""
    spec = spec_for(BOTH, Transport.TCP, GlobalConfig())
    assert spec == spec_for(attrs.evolve(BOTH, udp_probe_expect=b"x", remark="moved"), Transport.TCP, GlobalConfig())
    assert spec != spec_for(attrs.evolve(BOTH, probe_expect=b"x"), Transport.TCP, GlobalConfig())
    assert spec != spec_for(BOTH, Transport.TCP, GlobalConfig(probe_timeout=1.0))


# --- TCP ------------------------------------------------------------------------------------------


async def test_a_connection_is_success(autojump_clock: MockClock, bench: Bench) -> None:
    """Without words of the operator, taking a connection is all that can be asked of a server."""
    await bench.serve_tcp(A, mute)
    assert Good(0.0) == await bench.tcp(A)


async def test_the_latency_is_the_time_to_the_verdict(autojump_clock: MockClock, bench: Bench) -> None:
    """Connecting takes one round trip; what the leave-taking takes is not the server's latency."""
    bench.network.set_latency(0.05, A.host)
    await bench.serve_tcp(A, mute)
    assert Good(0.1) == await bench.tcp(A)


async def test_a_distant_server_that_speaks_first_sees_no_reset(autojump_clock: MockClock, bench: Bench) -> None:
    """Its greeting is a round trip away, so the patience for it grows with the distance."""
    bench.network.set_latency(0.1, A.host)
    await bench.serve_tcp(A, says((0.0, b"greeting")))
    await bench.tcp(A)
    await trio.sleep(1.0)
    assert 1 == len(bench.network.trace.select(Kind.DATA, Fate.ARRIVED, source=A))
    assert [] == bench.network.trace.select(Kind.RST, Fate.SENT)


async def test_the_result_does_not_wait_for_the_leave_taking(autojump_clock: MockClock, bench: Bench) -> None:
    """A server that keeps its side open costs 50 ms, but not in the result: detection must not be late."""
    reported: list[tuple[float, ProbeResult]] = []
    await bench.serve_tcp(A, mute)
    spec = ProbeSpec(Endpoint("node-a", Transport.TCP), A, b"", b"", 0.8, False)

    await run_probe(spec, bench.network, Book(), lambda result: reported.append((trio.current_time(), result)))

    assert [(0.0, Good(0.0))] == reported
    assert 0.05 == trio.current_time()


async def test_a_server_that_ends_its_side_is_left_at_once(autojump_clock: MockClock, bench: Bench) -> None:
    """The leave-taking is bounded by the server's own end, so that most probes hold a descriptor no longer."""
    await bench.serve_tcp(A, says())
    await bench.tcp(A)
    assert 0.0 == trio.current_time()


async def test_the_expected_answer_may_span_segments(autojump_clock: MockClock, bench: Bench) -> None:
    """TCP has no messages: half a match is not a failure."""
    await bench.serve_tcp(A, says((0.1, b"220 mail.te"), (0.2, b"st ES"), (0.3, b"MTP")))
    assert isinstance(result := await bench.tcp(A, expect=b"test ESMTP"), Good)
    assert pytest.approx(0.6) == result.latency


async def test_the_payload_is_said_before_an_answer_is_expected(autojump_clock: MockClock, bench: Bench) -> None:
    """A server that waits for its client must be asked."""

    async def echo(conn: Conn) -> None:
        await conn.send_all(await conn.receive_some(100))

    await bench.serve_tcp(A, echo)
    assert Good(0.0) == await bench.tcp(A, payload=b"PING", expect=b"PING")


async def test_a_payload_without_expectation_is_success_once_sent(autojump_clock: MockClock, bench: Bench) -> None:
    """Nothing says that the server would answer, so no answer is waited for."""
    heard: list[bytes] = []

    async def listen(conn: Conn) -> None:
        heard.append(await conn.receive_some(100))

    await bench.serve_tcp(A, listen)
    assert Good(0.0) == await bench.tcp(A, payload=b"PING")
    assert [b"PING"] == heard


@pytest.mark.parametrize(
    ("said", "error"),
    [
        (b"", "closed before the expected answer"),
        (b"503 Service Unavailable", "unexpected answer: b'503 Service Unavailable'"),
        (b"x" * 33, f"unexpected answer: {b'x' * 32!r}"),
    ],
)
async def test_an_end_before_the_expected_answer_is_failure(
    autojump_clock: MockClock, bench: Bench, said: bytes, error: str
) -> None:
    """What came instead is the operator's best hint, cut so that a status line can hold it."""
    await bench.serve_tcp(A, says((0.1, said), close=True))
    assert Bad(error) == await bench.tcp(A, expect=b"200 OK")
    assert 0.1 == trio.current_time()


async def test_a_reset_before_the_expected_answer_is_failure(autojump_clock: MockClock, bench: Bench) -> None:
    """A reset is an end too."""

    async def reset(conn: Conn) -> None:
        await conn.receive_some(100)
        conn.abort()

    await bench.serve_tcp(A, reset)
    assert Bad("connection reset") == await bench.tcp(A, payload=b"PING", expect=b"PONG")


async def test_no_answer_is_failure_when_the_time_is_up(autojump_clock: MockClock, bench: Bench) -> None:
    """A hung server still completes handshakes; only its silence gives it away."""
    reported: list[float] = []
    await bench.serve_tcp(A, mute)
    spec = ProbeSpec(Endpoint("node-a", Transport.TCP), A, b"", b"hello", 0.8, False)
    await run_probe(spec, bench.network, Book(), lambda _: reported.append(trio.current_time()))
    assert [0.8] == reported
    assert Bad("no answer in 800 ms") == await bench.tcp(A, expect=b"hello")


async def test_a_wrong_answer_and_then_silence_shows_the_answer(autojump_clock: MockClock, bench: Bench) -> None:
    """ "No answer" would be untrue of a server that said something else."""
    await bench.serve_tcp(A, says((0.1, b"hell")))
    assert Bad("unexpected answer: b'hell'") == await bench.tcp(A, expect=b"hello")


async def test_the_timeout_is_one_budget_for_look_up_connect_and_exchange(
    autojump_clock: MockClock, bench: Bench
) -> None:
    """Otherwise a probe could last a multiple of what the operator set."""
    await bench.serve_tcp(A, says((0.5, b"hello")))
    assert Bad("no answer in 800 ms") == await bench.tcp(A, expect=b"hello", names=Book(delay=0.4))


async def test_the_search_ends_after_64_kib(autojump_clock: MockClock, bench: Bench) -> None:
    """A server that never stops talking must not fill the gateway's memory."""
    await bench.serve_tcp(A, says((0.0, b"x" * 65536), (0.0, b"hello")))
    assert Bad(f"unexpected answer: {b'x' * 32!r}") == await bench.tcp(A, expect=b"hello")


async def test_the_last_bytes_of_the_64_kib_count(autojump_clock: MockClock, bench: Bench) -> None:
    """The bound includes its last byte."""
    await bench.serve_tcp(A, says((0.0, b"x" * 65531 + b"hello")))
    assert isinstance(await bench.tcp(A, expect=b"hello"), Good)


async def test_a_refused_connection_is_failure_at_once(autojump_clock: MockClock, bench: Bench) -> None:
    """Nobody listens: there is nothing to wait for."""
    assert Bad("connection refused") == await bench.tcp(A)
    assert 0.0 == trio.current_time()


async def test_an_unreachable_host_is_failure_at_once(autojump_clock: MockClock, bench: Bench) -> None:
    """Routers have said that there is no way."""
    bench.network.unreachable(A.host)
    assert Bad("unreachable") == await bench.tcp(A)
    assert 0.0 == trio.current_time()


async def test_a_greeting_is_heard_though_the_server_hung_up_on_our_payload(
    autojump_clock: MockClock, bench: Bench
) -> None:
    """The failed send comes first, but what was expected has arrived all the same."""

    async def greet_and_hang_up(conn: Conn) -> None:
        await conn.send_all(b"hello")
        await trio.sleep(0.1)
        conn.abort()

    await bench.serve_tcp(A, greet_and_hang_up)
    size = 1 << 23  # more than the buffers hold, so that the send is under way when the reset comes
    assert Good(0.1) == await bench.tcp(A, payload=b"x" * size, expect=b"hello")
    assert Bad("connection reset") == await bench.tcp(A, payload=b"x" * size)


# --- several addresses ----------------------------------------------------------------------------


async def test_a_refusing_address_makes_way_at_once(autojump_clock: MockClock, bench: Bench) -> None:
    """`localhost` is often ::1 first while the server has IPv4 only: the node works."""
    await bench.serve_tcp(C, says())
    assert Good(0.0) == await bench.tcp(APP, names=Book({APP: (A, B, C)}))


@pytest.mark.parametrize(("timeout", "found_at"), [(0.8, 0.25), (0.375, 0.125)])
async def test_beside_a_hanging_address_the_next_is_tried(
    autojump_clock: MockClock, bench: Bench, timeout: float, found_at: float
) -> None:
    """A black hole must not use up the time of the address that works, however short that time is."""
    bench.network.black_hole(A.host)
    await bench.serve_tcp(B, says())
    assert Good(found_at) == await bench.tcp(APP, timeout=timeout, names=Book({APP: (A, B)}))


async def test_even_the_last_of_many_hanging_addresses_has_its_time(autojump_clock: MockClock, bench: Bench) -> None:
    """The time is shared among as many addresses as there are."""
    hanging = tuple(Address(f"10.0.1.{number}", 7000) for number in range(1, 8))
    for address in hanging:
        bench.network.black_hole(address.host)
    await bench.serve_tcp(B, says())
    assert isinstance(result := await bench.tcp(APP, names=Book({APP: (*hanging, B)})), Good)
    assert pytest.approx(7 * 0.8 / 9) == result.latency


async def test_a_slow_first_address_still_wins_if_it_connects_first(autojump_clock: MockClock, bench: Bench) -> None:
    """Starting the next one beside it does not give the slow one up."""
    bench.network.set_latency(0.15, A.host)
    bench.network.set_latency(0.15, B.host)
    await bench.serve_tcp(A, says((0.0, b"a")))
    await bench.serve_tcp(B, says((0.0, b"b")))
    assert isinstance(await bench.tcp(APP, expect=b"a", names=Book({APP: (A, B)})), Good)


async def test_refused_at_every_address_is_failure_in_one_word(autojump_clock: MockClock, bench: Bench) -> None:
    """The same reason twice tells nothing more."""
    assert Bad("connection refused") == await bench.tcp(APP, names=Book({APP: (A, B)}))
    assert 0.0 == trio.current_time()


async def test_the_address_that_traffic_would_reach_is_the_one_that_is_asked(
    autojump_clock: MockClock, bench: Bench
) -> None:
    """Clients get the first address that connects; a good answer from another one would not help them."""
    await bench.serve_tcp(A, says((0.1, b"broken"), close=True))
    await bench.serve_tcp(B, says((0.0, b"hello")))
    assert Bad("unexpected answer: b'broken'") == await bench.tcp(APP, expect=b"hello", names=Book({APP: (A, B)}))


# --- names and shortages --------------------------------------------------------------------------


@pytest.mark.parametrize("transport", Transport)
async def test_a_name_without_an_address_is_failure(
    autojump_clock: MockClock, bench: Bench, transport: Transport
) -> None:
    """Traffic could not reach the node either, and UDP's silence does not excuse it."""
    names = Book({APP: NameUnresolved("app.test is unknown")})
    spec = ProbeSpec(Endpoint("node-a", transport), APP, b"", b"", 0.8, False)
    assert Bad("dns: app.test is unknown") == await probe_once(spec, bench.network, names)


@pytest.mark.parametrize("transport", Transport)
async def test_a_look_up_that_outlasts_the_budget_is_failure(
    autojump_clock: MockClock, bench: Bench, transport: Transport
) -> None:
    """The words tell the operator that it is the name that hangs, not the node."""
    spec = ProbeSpec(Endpoint("node-a", transport), APP, b"", b"", 0.8, False)
    assert Bad("dns: no answer in 800 ms") == await probe_once(spec, bench.network, Book(delay=2.0))
    assert 0.8 == trio.current_time()


async def test_a_shortage_in_the_look_up_is_no_evidence(autojump_clock: MockClock, bench: Bench) -> None:
    """Our own trouble must never move traffic away from a node."""
    names = Book({APP: LocalShortage("out of descriptors")})
    assert Shortage("out of descriptors") == await bench.tcp(APP, names=names)


@pytest.mark.parametrize("transport", Transport)
async def test_a_lack_of_local_ports_is_no_evidence(autojump_clock: MockClock, transport: Transport) -> None:
    """The node was never asked."""
    spec = ProbeSpec(Endpoint("node-a", transport), APP, b"", b"", 0.8, True)
    network = VirtualNetwork(ports=range(40000, 40000))
    assert isinstance(await probe_once(spec, network, Book({APP: (A, B)})), Shortage)


async def test_an_address_that_could_not_be_tried_might_have_worked(autojump_clock: MockClock, bench: Bench) -> None:
    """A refusal at one address condemns the node only if every other has failed too."""
    network = VirtualNetwork(ports=range(40000, 40001))
    network.black_hole(A.host)
    network.black_hole(B.host)
    spec = ProbeSpec(Endpoint("node-a", Transport.UDP), APP, b"", b"pong", 0.8, True)
    assert isinstance(await probe_once(spec, network, Book({APP: (A, B)})), Shortage)
    assert 0.8 == trio.current_time()


async def test_a_payload_that_fits_no_datagram_is_no_evidence(autojump_clock: MockClock, bench: Bench) -> None:
    """What cannot leave this machine says nothing about another one."""
    await bench.serve_udp(A, (0.0, b"pong"))
    assert isinstance(await bench.udp(A, payload=b"x" * 65508), Shortage)


# --- UDP ------------------------------------------------------------------------------------------


async def test_any_reply_is_success_where_nothing_is_expected(autojump_clock: MockClock, bench: Bench) -> None:
    """An answer, even an error message of the service, shows that it lives. An empty datagram is one."""
    received = await bench.serve_udp(A, (0.1, b""))
    assert Good(0.1) == await bench.udp(A)
    assert [b"\0"] == received


async def test_a_matching_reply_after_a_wrong_one_is_success(autojump_clock: MockClock, bench: Bench) -> None:
    """Datagrams may be duplicated or overtaken: one that does not match decides nothing."""
    received = await bench.serve_udp(A, (0.1, b"noise"), (0.2, b"+pong"))
    assert Good(0.2) == await bench.udp(A, payload=b"ping", expect=b"pong")
    assert [b"ping"] == received


async def test_a_wrong_reply_alone_is_failure_when_the_time_is_up(autojump_clock: MockClock, bench: Bench) -> None:
    """The wrong service answers there."""
    await bench.serve_udp(A, (0.1, b"noise"))
    assert Bad("unexpected answer: b'noise'") == await bench.udp(A, expect=b"pong")
    assert 0.8 == trio.current_time()


@pytest.mark.parametrize(("silence_fails", "result"), [(True, Bad("no answer in 800 ms")), (False, Silent())])
async def test_silence_is_what_the_settings_say(
    autojump_clock: MockClock, bench: Bench, silence_fails: bool, result: ProbeResult
) -> None:
    """Only where an answer was asked for is its absence evidence."""
    await bench.serve_udp(A)
    assert result == await bench.udp(A, silence_fails=silence_fails)
    assert 0.8 == trio.current_time()


@pytest.mark.parametrize("silence_fails", [True, False])
async def test_a_refused_datagram_is_failure_at_once(
    autojump_clock: MockClock, bench: Bench, silence_fails: bool
) -> None:
    """A closed port is evidence whatever silence would be."""
    assert Bad("datagram refused") == await bench.udp(A, silence_fails=silence_fails)
    assert 0.0 == trio.current_time()


async def test_a_late_reply_does_not_pass_the_next_probe(autojump_clock: MockClock, bench: Bench) -> None:
    """A server slower than the timeout would otherwise look healthy for ever, one probe behind."""
    await bench.serve_udp(A, (0.9, b"pong"))
    results = [await bench.udp(A, expect=b"pong") for _ in range(3)]
    assert [Bad("no answer in 800 ms")] * 3 == results


async def test_every_address_is_asked_over_udp(autojump_clock: MockClock, bench: Bench) -> None:
    """A dead address and a quiet one look alike, so none is waited for before the next."""
    await bench.serve_udp(B)
    await bench.serve_udp(C, (0.1, b"pong"))
    assert Good(0.1) == await bench.udp(APP, names=Book({APP: (A, B, C)}))


async def test_one_silent_address_keeps_a_refusal_from_deciding(autojump_clock: MockClock, bench: Bench) -> None:
    """The service may well be the quiet one."""
    await bench.serve_udp(B)
    assert Silent() == await bench.udp(APP, silence_fails=False, names=Book({APP: (A, B)}))


# --- cancellation ---------------------------------------------------------------------------------


@pytest.mark.parametrize("transport", Transport)
async def test_a_cancelled_probe_reports_nothing(autojump_clock: MockClock, bench: Bench, transport: Transport) -> None:
    """A prober whose endpoint has gone must not report on it any more."""
    reported: list[ProbeResult] = []
    await bench.serve_tcp(A, mute)
    await bench.serve_udp(A)
    spec = ProbeSpec(Endpoint("node-a", transport), A, b"", b"hello", 0.8, True)
    with trio.move_on_after(0.5):
        await run_probe(spec, bench.network, Book(), reported.append)
    assert [] == reported
    assert 0.5 == trio.current_time()
