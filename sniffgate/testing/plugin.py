"""The pytest plugin: fixtures for tests that pytest-trio runs. Registered as `sniffgate`; there is nothing to set up.

A test that uses `gateway` or `virtual_network` runs on virtual time, unless it asks for a clock itself. pytest-trio
takes a clock only from the test's own arguments, never from a fixture's, so such a test is given a runner that brings
one. (Under Hypothesis pytest-trio asks for no runner: a `@given` test calls `trio.run` itself.)

Such a test also has a seed, for the order of tasks and for the dice of the network; a failure tells it, and
`--sniffgate-seed` runs with it again.

Every pytest run in an environment with sniffgate imports this module, so it imports nothing until a fixture is used.
"""

import random
from collections.abc import AsyncIterator, Callable, Generator
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    import trio

    from .factory import EachFactory, GatewayFactory, RealGatewayFactory
    from .virtual import VirtualNetwork

ON_VIRTUAL_TIME = {"virtual_network", "gateway"}
ON_EACH = "each_gateway"
REAL = "real_processes"  # the marker of what that makes for this machine
REAL_LIMIT = 60.0  # seconds that such a test may take


SEED = pytest.StashKey[int]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds `--sniffgate-seed`."""
    text = "seed of tests on sniffgate's virtual network (default: another one each time, told by what fails)"
    parser.getgroup("sniffgate").addoption("--sniffgate-seed", type=int, metavar="N", help=text)


def pytest_configure(config: pytest.Config) -> None:
    """Throws the seed, and names the marker."""
    config.addinivalue_line("markers", f"{REAL}: a test with `{ON_EACH}` on this machine, its nodes being processes")
    given = config.getoption("--sniffgate-seed")
    config.stash[SEED] = random.SystemRandom().randrange(10**9) if given is None else given


@pytest.hookimpl(trylast=True)  # after pytest-trio has marked what it will run
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Gives tests on the virtual network their clock."""
    for item in items:
        if _is_virtual(item) and _is_plain_trio_test(item):
            item.add_marker(pytest.mark.trio(run=partial(_run_on_virtual_time, config.stash[SEED])), append=False)
        elif item.get_closest_marker(REAL) and _is_plain_trio_test(item):
            item.add_marker(pytest.mark.trio(run=_run_in_bounded_time), append=False)


def _is_virtual(item: pytest.Item) -> bool:
    """Whether it runs on a virtual network of this plugin's."""
    fixtures = getattr(item, "fixturenames", ())
    on_each = ON_EACH in fixtures and item.get_closest_marker(REAL) is None
    return on_each or bool(ON_VIRTUAL_TIME.intersection(fixtures))


def _is_plain_trio_test(item: pytest.Item) -> bool:
    """Whether pytest-trio runs it, and with Trio's own runner."""
    import trio

    markers = list(item.iter_markers("trio"))
    return bool(markers) and all(marker.kwargs.get("run") in (None, trio.run) for marker in markers)


def _run_on_virtual_time(
    seed: int, main: Callable[[], Any], *, clock: "trio.abc.Clock | None" = None, **options: Any
) -> Any:
    """`trio.run` on a clock that jumps, unless the test has brought one."""
    import trio
    from trio.testing import MockClock

    from .seeding import deterministic

    with deterministic(seed):
        return trio.run(main, clock=clock or MockClock(autojump_threshold=0), **options)


def _run_in_bounded_time(main: Callable[[], Any], **options: Any) -> Any:
    """`trio.run` for a test that waits for processes: one that hangs fails."""
    import trio

    async def bounded() -> Any:
        with trio.fail_after(REAL_LIMIT):
            return await main()

    return trio.run(bounded, **options)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Tells the seed of a failed test."""
    report = yield
    if report.when == "call" and report.failed and _is_virtual(item):
        report.sections.append(("sniffgate", f"run it again with --sniffgate-seed={item.config.stash[SEED]}"))
    return report


@pytest.fixture
def virtual_network(pytestconfig: pytest.Config) -> "VirtualNetwork":
    """A virtual network of its own for each test."""
    from .virtual import VirtualNetwork

    return VirtualNetwork(seed=pytestconfig.stash[SEED])


@pytest.fixture
async def gateway(nursery: "trio.Nursery", virtual_network: "VirtualNetwork") -> "AsyncIterator[GatewayFactory]":
    """`subject = await gateway(config)`: a gateway on `virtual_network`; a crash contained in it fails the test."""
    from .factory import GatewayFactory

    factory = GatewayFactory(nursery, virtual_network)
    yield factory
    await factory.close()


@pytest.fixture
async def real_gateway(nursery: "trio.Nursery") -> "AsyncIterator[RealGatewayFactory]":
    """`subject = await real_gateway(config)`: on loopback and real time, otherwise as `gateway`."""
    from .factory import RealGatewayFactory

    factory = RealGatewayFactory(nursery)
    yield factory
    await factory.close()


@pytest.fixture(params=["virtual", pytest.param("real", marks=getattr(pytest.mark, REAL))])
async def each_gateway(
    request: pytest.FixtureRequest, nursery: "trio.Nursery", pytestconfig: pytest.Config
) -> "AsyncIterator[EachFactory]":
    """Runs the test twice: as with `gateway`, and marked `real_processes` and bounded, as with `real_gateway`."""
    from .factory import GatewayFactory, RealGatewayFactory
    from .virtual import VirtualNetwork

    factory: EachFactory
    if request.param == "virtual":
        factory = GatewayFactory(nursery, VirtualNetwork(seed=pytestconfig.stash[SEED]))
    else:
        factory = RealGatewayFactory(nursery)
    yield factory
    await factory.close()
