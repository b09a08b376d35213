"""One probe of one endpoint: what it does on the wire, and what its outcome is worth.

Several addresses behind one name are one node. Over TCP they are connected to as traffic does it, one beside the other
where one hangs, and the first connection made is the one that is asked: a probe that asked another address than
the one that clients get would vouch for a node that fails them. Over UDP, where nothing tells a dead address from a
quiet one, all are asked at once and any matching reply is success.
"""

import contextlib
from collections.abc import Callable

import attrs
import trio

from ..address import Address
from ..config.schema import GlobalConfig, NodeConfig, Transport
from ..errors import ConnectFailed, DatagramRefused, LocalShortage, NameUnresolved, PeerReset
from ..net.ports import Conn, Names, Network
from ..state.model import Endpoint
from .connect import connect_first

ANSWER_LIMIT = 64 * 1024  # bytes read in search of the expected answer
FAREWELL = 0.05  # seconds in which a probed server may end its side, one round trip not counted
_FAREWELL_READS = 16
_QUOTED = 32  # bytes of a wrong answer that are worth showing
_WORDS = {"refused": "connection refused", "unreachable": "unreachable", "timeout": "connect timed out"}


@attrs.frozen
class ProbeSpec:
    """What a probe does. Two specs are equal exactly when the settings that a probe depends on are the same."""

    endpoint: Endpoint
    address: Address
    payload: bytes
    expect: bytes
    timeout: float  # seconds for everything: look-up, connecting to every address, exchange
    silence_fails: bool  # UDP only: no answer is a failure rather than no evidence; always False over TCP


@attrs.frozen
class Good:
    """The endpoint works. `latency` is in seconds, from the start of the probe, name look-up included."""

    latency: float


@attrs.frozen
class Bad:
    """The endpoint does not work; `error` says why in a few words."""

    error: str


@attrs.frozen
class Silent:
    """Neither an answer nor a refusal over UDP, where none was to be expected: no evidence either way."""


@attrs.frozen
class Shortage:
    """This machine could not probe: never evidence about the endpoint."""

    error: str


ProbeResult = Good | Bad | Silent | Shortage


def spec_for(node: NodeConfig, transport: Transport, globals_: GlobalConfig) -> ProbeSpec | None:
    """How `node` is probed over `transport`.

    None when it is not: no probing at all, no address there, or the other transport speaks for the whole node.
    """
    address = node.address(transport)
    if not node.is_probed or address is None or node.spokesman is transport.sibling:
        return None
    return ProbeSpec(
        endpoint=Endpoint(node.name, transport),
        address=address,
        payload=node.payload(transport),
        expect=node.expectation(transport),
        timeout=globals_.probe_timeout,
        silence_fails=transport is Transport.UDP and node.udp_is_explicit,
    )


async def run_probe(spec: ProbeSpec, network: Network, names: Names, report: Callable[[ProbeResult], None]) -> None:
    """Probes once, calls `report` once as soon as the result stands, then takes leave of the server and returns.

    The leave-taking lasts at most `FAREWELL` and one round trip, and changes nothing about the result.

    *Cancellation:* before the result, nothing is reported. Whatever was opened is closed on every path.
    """
    opened: list[Conn] = []
    try:
        result = await _probe(spec, network, names, opened)
        report(result)
        await _take_leave(opened, FAREWELL + (result.latency if isinstance(result, Good) else 0.0))
    finally:
        for conn in opened:
            conn.close()


async def probe_once(spec: ProbeSpec, network: Network, names: Names) -> ProbeResult:
    """Probes once and returns the result, after the leave-taking: for callers to whom that delay is nothing."""
    results: list[ProbeResult] = []
    await run_probe(spec, network, names, results.append)
    return results[0]


@attrs.define
class _Seen:
    """What went wrong so far, address by address."""

    failures: list[str] = attrs.field(factory=list)
    shortages: list[str] = attrs.field(factory=list)
    answer: bytes | bytearray = b""  # what came and was not the expected answer

    def note(self, error: ConnectFailed | DatagramRefused | LocalShortage) -> None:
        if isinstance(error, LocalShortage):
            self.shortages.append(str(error))
        else:
            words = _WORDS.get(error.kind, "connect failed") if isinstance(error, ConnectFailed) else str(error)
            self.failures.append(words)

    def verdict(self) -> Bad | Shortage:
        """The result when every address failed; one that could not be tried might have worked."""
        if self.shortages:
            return Shortage(self.shortages[0])
        return Bad(", ".join(dict.fromkeys(self.failures)))

    def verdict_at_timeout(self, spec: ProbeSpec, *, connected: bool) -> ProbeResult:
        """The result when the time ran out before every address had failed."""
        if self.shortages and not connected:
            return Shortage(self.shortages[0])
        if self.answer:
            return _unexpected(self.answer)
        if spec.endpoint.transport is Transport.UDP and not spec.silence_fails:
            return Silent()
        return Bad(_no_answer(spec))


def _unexpected(answer: bytes | bytearray) -> Bad:
    return Bad(f"unexpected answer: {bytes(answer[:_QUOTED])!r}")


def _no_answer(spec: ProbeSpec) -> str:
    return f"no answer in {round(spec.timeout * 1000)} ms"


async def _probe(spec: ProbeSpec, network: Network, names: Names, opened: list[Conn]) -> ProbeResult:
    started = trio.current_time()
    addresses: tuple[Address, ...] = ()
    seen = _Seen()
    with trio.move_on_after(spec.timeout):
        try:
            addresses = await names.addresses(spec.address)
        except NameUnresolved as error:
            return Bad(f"dns: {error}")
        except LocalShortage as error:
            return Shortage(str(error))
        if spec.endpoint.transport is Transport.UDP:
            failure = await _ask_all(spec, addresses, network, seen)
        else:
            conn = await connect_first(network, addresses, spec.timeout, lambda _, error: seen.note(error))
            if conn is not None:
                opened.append(conn)
            failure = seen.verdict() if conn is None else await _exchange(conn, spec, seen)
        return failure or Good(trio.current_time() - started)
    if not addresses:
        return Bad(f"dns: {_no_answer(spec)}")
    return seen.verdict_at_timeout(spec, connected=bool(opened))


# --- TCP ------------------------------------------------------------------------------------------


async def _exchange(conn: Conn, spec: ProbeSpec, seen: _Seen) -> Bad | None:
    """Says what is to be said and reads until the expected answer is found (None), or cannot come any more.

    A payload without an expectation has done its work once the kernel has taken it: nothing says that the server
    would answer it at all.
    """
    lost = None
    if spec.payload:
        try:
            await conn.send_all(spec.payload)
        except PeerReset as error:
            lost = Bad(str(error))
    if not spec.expect:
        return lost
    # Also after a failed send: a server that greets and hangs up has said what was expected of it.
    received = seen.answer = bytearray()
    while len(received) < ANSWER_LIMIT:
        try:
            chunk = await conn.receive_some(ANSWER_LIMIT - len(received))
        except PeerReset as error:
            return Bad(str(error))
        if not chunk:
            return _unexpected(received) if received else Bad("closed before the expected answer")
        overlap = max(0, len(received) - len(spec.expect) + 1)  # the answer may span segments
        received += chunk
        if received.find(spec.expect, overlap) >= 0:
            return None
    return _unexpected(received)


async def _take_leave(conns: list[Conn], patience: float) -> None:
    """Ends our side, then reads what is under way until the server ends its own, for `patience` seconds at most.

    Closing a socket with unread bytes makes the kernel send a reset, which servers that speak first log and count
    against the client (MySQL blocks hosts for it).
    """
    with trio.move_on_after(patience):
        for conn in conns:
            await conn.send_eof()
        for conn in conns:
            with contextlib.suppress(PeerReset):
                for _ in range(_FAREWELL_READS):
                    if not await conn.receive_some(ANSWER_LIMIT):
                        break


# --- UDP ------------------------------------------------------------------------------------------


async def _ask_all(
    spec: ProbeSpec, addresses: tuple[Address, ...], network: Network, seen: _Seen
) -> Bad | Shortage | None:
    """Asks every address from a socket of its own, so that neither late nor stray replies count.

    Returns None once one has given a matching reply, else when all have refused; silence lasts until the caller's
    timeout.
    """
    answered = False

    async def ask(address: Address) -> None:
        nonlocal answered
        try:
            with network.connect_udp(address) as port:
                port.send_nowait(spec.payload or b"\0")
                while spec.expect not in (reply := await port.receive()):
                    seen.answer = reply
        except (ConnectFailed, DatagramRefused, LocalShortage) as error:
            seen.note(error)
        else:
            answered = True
            asks.cancel_scope.cancel()

    async with trio.open_nursery() as asks:
        for address in addresses:
            asks.start_soon(ask, address)
    return None if answered else seen.verdict()
