"""The resolver on virtual time, over scripted look-ups."""

import attrs
import pytest
import trio
import trio.testing
from trio.testing import MockClock, wait_all_tasks_blocked

from sniffgate.address import Address
from sniffgate.errors import NameUnresolved
from sniffgate.net import resolver as module
from sniffgate.net.resolver import Resolver

NODE = Address("node.example", 80)
ONE = ("192.0.2.1",)
TWO = ("192.0.2.2", "2001:db8::2")


def at(hosts: tuple[str, ...], port: int = 80) -> tuple[Address, ...]:
    return tuple(Address(host, port) for host in hosts)


@attrs.define
class Script:
    """A look-up that takes `takes` seconds and gives `answer`, as both are when it begins; notes its calls."""

    answer: tuple[str, ...] | Exception = ONE
    takes: float = 0.0
    calls: list[tuple[str, float]] = attrs.field(factory=list)

    async def look_up(self, host: str) -> tuple[str, ...]:
        self.calls.append((host, trio.current_time()))
        answer = self.answer
        await trio.sleep(self.takes)
        if isinstance(answer, Exception):
            raise answer
        return answer

    @property
    def times(self) -> list[float]:
        return [time for _, time in self.calls]


@pytest.fixture
def script() -> Script:
    return Script()


@pytest.fixture
def resolver(script: Script) -> Resolver:
    return Resolver(script.look_up)


async def test_a_literal_is_itself_without_a_look_up(script: Script, resolver: Resolver) -> None:
    """Most configurations hold nothing else, and a dead DNS must not touch them."""
    for host in ("127.0.0.1", "::1", "fe80::1%lo", ""):
        literal = Address(host, 53)
        with trio.testing.assert_checkpoints():
            assert (literal,) == await resolver.addresses(literal)
        assert (literal,) == resolver.cached(literal)
    assert [] == script.calls


async def test_an_answer_serves_for_one_second(autojump_clock: MockClock, script: Script, resolver: Resolver) -> None:
    """New flows see a changed record within a second, and a storm of flows asks once a second."""
    for _ in range(30):
        await resolver.addresses(NODE)
        await trio.sleep(0.125)
    assert [0.0, 1.0, 2.0, 3.0] == script.times


async def test_all_addresses_come_in_the_resolvers_order(
    autojump_clock: MockClock, script: Script, resolver: Resolver
) -> None:
    """The caller tries all of them, with the port it asked for, whoever asked before."""
    script.answer = TWO
    assert at(TWO) == await resolver.addresses(NODE)
    assert at(TWO, 443) == await resolver.addresses(Address(NODE.host, 443))
    assert at(TWO, 22) == resolver.cached(Address(NODE.host, 22))
    assert 1 == len(script.calls)


async def test_an_answer_in_the_cache_is_a_checkpoint_too(
    autojump_clock: MockClock, script: Script, resolver: Resolver
) -> None:
    """A loop that only ever hits the cache must not starve others."""
    await resolver.addresses(NODE)
    with trio.testing.assert_checkpoints():
        await resolver.addresses(NODE)


async def test_callers_at_one_time_share_one_look_up(
    autojump_clock: MockClock, script: Script, resolver: Resolver
) -> None:
    """Each look-up is a thread; two names are two."""
    script.takes = 3.0
    times: list[float] = []

    async def ask(host: str) -> None:
        assert at(ONE) == await resolver.addresses(Address(host, 80))
        times.append(trio.current_time())

    async with trio.open_nursery() as nursery:
        for host in ("a.example", "b.example") * 10:
            nursery.start_soon(ask, host)
    assert [3.0] * 20 == times
    assert {("a.example", 0.0), ("b.example", 0.0)} == set(script.calls)
    assert 2 == len(script.calls)


async def test_a_cancelled_caller_takes_nothing_from_the_others(
    autojump_clock: MockClock, script: Script, resolver: Resolver
) -> None:
    """Whoever came first must not be the one on whom all depend."""
    script.takes = 3.0

    async def give_up() -> None:
        with trio.move_on_after(1.0):
            await resolver.addresses(NODE)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(give_up)
        await wait_all_tasks_blocked()
        assert at(ONE) == await resolver.addresses(NODE)
    assert 3.0 == trio.current_time()
    assert [0.0] == script.times


async def test_a_failing_dns_does_not_take_the_last_good_answer(
    autojump_clock: MockClock, script: Script, resolver: Resolver
) -> None:
    """A node does not vanish because its name server does; it is asked again each second."""
    await resolver.addresses(NODE)
    script.answer = NameUnresolved("no answer")
    for _ in range(3):
        await trio.sleep(1.0)
        assert at(ONE) == await resolver.addresses(NODE)
    script.answer = TWO
    assert at(ONE) == await resolver.addresses(NODE)
    await trio.sleep(1.0)
    assert at(TWO) == await resolver.addresses(NODE)
    assert [0.0, 1.0, 2.0, 3.0, 4.0] == script.times


async def test_a_name_that_never_had_an_answer_is_unresolved_and_asked_once_a_second(
    autojump_clock: MockClock, script: Script, resolver: Resolver
) -> None:
    """The resolver's own reason reaches the operator; a storm of flows does not become a storm of queries."""
    script.answer = NameUnresolved("node.example: Name or service not known")
    for _ in range(3):
        with pytest.raises(NameUnresolved, match=r"node\.example: Name or service not known"):
            await resolver.addresses(NODE)
        assert resolver.cached(NODE) is None
        await trio.sleep(0.5)
    assert [0.0, 1.0] == script.times


async def test_an_empty_answer_is_none(autojump_clock: MockClock, script: Script, resolver: Resolver) -> None:
    """Callers may rely on at least one address."""
    script.answer = ()
    with pytest.raises(NameUnresolved, match="no address"):
        await resolver.addresses(NODE)


async def test_a_hung_look_up_holds_callers_half_a_second_once(
    autojump_clock: MockClock, script: Script, resolver: Resolver
) -> None:
    """The last good answer serves instead, later callers get it at once, and no second look-up is started."""
    await resolver.addresses(NODE)
    await trio.sleep(10)
    script.takes, script.answer = 30.0, TWO
    assert at(ONE) == await resolver.addresses(NODE)
    assert 10.5 == trio.current_time()
    for _ in range(5):
        assert at(ONE) == await resolver.addresses(NODE)
    assert 10.5 == trio.current_time()
    await trio.sleep(30)
    assert at(TWO) == await resolver.addresses(NODE)
    assert [0.0, 10.0] == script.times


async def test_a_look_up_just_in_time_is_waited_for(
    autojump_clock: MockClock, script: Script, resolver: Resolver
) -> None:
    """An ordinary slow answer is fresh, not last good."""
    await resolver.addresses(NODE)
    await trio.sleep(1)
    script.takes, script.answer = 0.25, TWO
    assert at(TWO) == await resolver.addresses(NODE)
    assert 1.25 == trio.current_time()


async def test_a_cancelled_wait_is_a_cancellation_not_an_answer(
    autojump_clock: MockClock, script: Script, resolver: Resolver
) -> None:
    """The bound on the wait must not swallow the caller's own."""
    await resolver.addresses(NODE)
    await trio.sleep(1)
    script.takes = 30.0
    with trio.move_on_after(0.25) as scope:
        await resolver.addresses(NODE)
    assert scope.cancelled_caught
    assert 1.25 == trio.current_time()


async def test_closing_ends_what_is_still_looked_up(
    autojump_clock: MockClock, script: Script, resolver: Resolver
) -> None:
    """Nothing is left behind, and nobody waits for it."""
    script.takes = 30.0

    async def ask() -> None:
        with pytest.raises(NameUnresolved, match="given up"):
            await resolver.addresses(NODE)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        await trio.sleep(1)
        resolver.close()
    assert 1.0 == trio.current_time()
    resolver.close()


async def test_a_bug_in_the_look_up_reaches_the_caller(
    autojump_clock: MockClock, script: Script, resolver: Resolver
) -> None:
    """It neither ends the whole run nor hides behind an old answer."""
    await resolver.addresses(NODE)
    await trio.sleep(1)
    script.answer = ZeroDivisionError()
    with pytest.raises(ZeroDivisionError):
        await resolver.addresses(NODE)


async def test_a_name_unused_for_an_hour_is_forgotten(
    autojump_clock: MockClock, script: Script, resolver: Resolver
) -> None:
    """Names that reloads removed do not pile up; one in use is kept."""
    gone, kept, new = (Address(f"{name}.example", 80) for name in ("gone", "kept", "new"))
    await resolver.addresses(gone)
    await resolver.addresses(kept)
    await trio.sleep(3000)
    await resolver.addresses(kept)
    await trio.sleep(600)
    await resolver.addresses(new)
    assert [False, True, True] == [resolver.cached(name) is not None for name in (gone, kept, new)]


async def test_the_number_of_names_is_bounded(
    autojump_clock: MockClock, script: Script, resolver: Resolver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The longest unused goes first."""
    monkeypatch.setattr(module, "MOST_NAMES", 3)
    names = [Address(f"{name}.example", 80) for name in "abcd"]
    for name in names[:3]:
        await resolver.addresses(name)
    await resolver.addresses(names[0])
    await resolver.addresses(names[3])
    assert [True, False, True, True] == [resolver.cached(name) is not None for name in names]


@pytest.mark.virtual
def test_a_run_ends_while_a_look_up_hangs(script: Script, resolver: Resolver) -> None:
    """A look-up outlives its callers but not the program."""
    script.takes = float("inf")

    async def main() -> None:
        with trio.move_on_after(1):
            await resolver.addresses(NODE)

    trio.run(main, clock=MockClock(autojump_threshold=0))
