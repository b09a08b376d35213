"""The table of sessions, without any network."""

from sniffgate.address import Address
from sniffgate.tasks.sessions import WAITING_DATAGRAMS, Session, SessionTable

FRONT, OTHER_FRONT = Address("10.0.0.254", 53), Address("10.0.0.253", 53)


def session_of(host: str, port: int = 5000, local: Address = FRONT, at: float = 0.0) -> Session:
    """A session that began at `at`."""
    return Session(Address(host, port), local, began=at, seen=at)


async def test_an_ipv4_client_and_its_mapped_form_are_one() -> None:
    """A dual-stack socket may name one client either way."""
    table, session = SessionTable(), session_of("::ffff:10.0.0.9")
    table.add(session)

    assert session is table.find(Address("10.0.0.9", 5000), FRONT)
    assert session is table.find(Address("::ffff:10.0.0.9", 5000), FRONT)
    table.remove(session)
    assert table.find(Address("10.0.0.9", 5000), FRONT) is None


async def test_another_port_host_or_local_address_is_another_session() -> None:
    """Replies must leave from the address that the client wrote to."""
    table = SessionTable()
    table.add(session_of("10.0.0.9"))

    assert table.find(Address("10.0.0.9", 5001), FRONT) is None
    assert table.find(Address("10.0.0.8", 5000), FRONT) is None
    assert table.find(Address("10.0.0.9", 5000), OTHER_FRONT) is None


async def test_the_oldest_is_the_one_not_heard_of_for_longest() -> None:
    """It is the one that goes first, by time or for room."""
    table, first, second = SessionTable(), session_of("10.0.0.1"), session_of("10.0.0.2", at=1.0)
    table.add(first)
    table.add(second)

    assert first is table.oldest()
    table.touch(first, 2.0)
    assert second is table.oldest()
    assert {first, second} == set(table)


async def test_the_next_expiry_is_the_oldest_session_s() -> None:
    """The task that expires sessions sleeps exactly until then."""
    table = SessionTable()
    assert float("inf") == table.next_expiry(2.0)
    table.add(session_of("10.0.0.1", at=1.0))
    table.add(session_of("10.0.0.2", at=1.5))

    assert 3.0 == table.next_expiry(2.0)


async def test_a_session_keeps_so_many_datagrams_and_no_more() -> None:
    """A client must not fill memory while a name is looked up."""
    session = session_of("10.0.0.1")

    assert [True] * WAITING_DATAGRAMS + [False] == [session.put_off(b"") for _ in range(WAITING_DATAGRAMS + 1)]
    assert 64 == WAITING_DATAGRAMS
