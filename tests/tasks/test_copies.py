"""Copies of long datagrams: which one a cut quote means."""

from sniffgate.address import Address
from sniffgate.tasks.copies import KEPT_FOR, MOST_BYTES, Copies

V4, V6 = Address("10.0.0.1", 53), Address("fd00::1", 53)
NEVER = float("-inf")


def test_a_datagram_below_the_limit_is_not_kept() -> None:
    """Its quote is whole: a copy would be memory for nothing."""
    copies = Copies()
    copies.keep("leg", V4, b"a" * 519, 0.0)
    copies.keep("leg", V6, b"b" * 1183, 0.0)

    assert copies.find("leg", b"a" * 519, NEVER, 0.0) is None
    assert copies.find("leg", b"b" * 1183, NEVER, 0.0) is None


def test_a_datagram_at_the_limit_is_kept_for_each_family() -> None:
    """The kernel does not say that it cut: at the limit it may have."""
    copies = Copies()
    copies.keep("leg", V4, b"a" * 520, 0.0)
    copies.keep("leg", V6, b"b" * 1184, 0.0)

    assert b"a" * 520 == copies.find("leg", b"a" * 520, NEVER, 0.0)
    assert b"b" * 1184 == copies.find("leg", b"b" * 1184, NEVER, 0.0)


def test_a_copy_is_given_out_once() -> None:
    """One refusal, one more try."""
    copies = Copies()
    copies.keep("leg", V4, b"a" * 600, 0.0)

    assert b"a" * 600 == copies.find("leg", b"a" * 520, NEVER, 0.5)
    assert copies.find("leg", b"a" * 520, NEVER, 0.5) is None


def test_a_copy_belongs_to_the_leg_that_sent_it() -> None:
    """Two clients may say the same; each is to be helped with its own."""
    copies = Copies()
    copies.keep("one", V4, b"a" * 600, 0.0)

    assert copies.find("other", b"a" * 520, NEVER, 0.0) is None


def test_of_equal_beginnings_the_oldest_unanswered_one_is_meant() -> None:
    """Refusals come in the order of sending, and what was answered was not refused."""
    copies = Copies()
    head = b"a" * 520
    copies.keep("leg", V4, head + b"answered", 0.1)
    copies.keep("leg", V4, head + b"first", 0.3)
    copies.keep("leg", V4, head + b"second", 0.4)

    assert [head + b"first", head + b"second"] == [copies.find("leg", head, 0.2, 0.5) for _ in range(2)]


def test_a_datagram_that_an_answer_crossed_on_its_way_is_found() -> None:
    """The last answer of a dying node was to an earlier question: what followed that one is refused all the same."""
    copies = Copies()
    copies.keep("leg", V4, b"a" * 600, 0.1)
    copies.keep("leg", V4, b"b" * 600, 0.2)

    assert b"b" * 600 == copies.find("leg", b"b" * 520, 0.3, 0.4)


def test_a_copy_is_forgotten_after_a_second() -> None:
    """Refusals come within a round trip; later there is nothing to wait for."""
    copies = Copies()
    copies.keep("leg", V4, b"a" * 600, 0.0)

    assert copies.find("leg", b"a" * 520, NEVER, KEPT_FOR) is None


def test_copies_take_no_more_than_a_mebibyte() -> None:
    """The oldest makes room: memory is bounded whatever clients send."""
    copies = Copies()
    size = MOST_BYTES // 16
    for number in range(17):
        copies.keep("leg", V4, bytes([number]) * size, 0.0)

    assert copies.find("leg", bytes([0]) * 520, NEVER, 0.0) is None
    assert bytes([1]) * size == copies.find("leg", bytes([1]) * 520, NEVER, 0.0)
    assert bytes([16]) * size == copies.find("leg", bytes([16]) * 520, NEVER, 0.0)
