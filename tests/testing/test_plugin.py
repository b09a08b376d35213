"""The pytest plugin, as its users have it: pytest in a process of its own."""

import re
import subprocess
import sys

import pytest

from tests.testing.plugged import install_entry_points, run_tests

pytestmark = pytest.mark.slow


def test_ten_lines_are_a_drain_scenario(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a gateway promises about deadlines must be easier to test than to argue about."""
    source = """
async def test_a_flow_is_cut_at_its_deadline(gateway):
    service = await gateway(CONFIG)
    with await service.connect() as conn:
        await conn.send_all(b"hi")
        assert await conn.receive_some(100) == b"node-a:hi"
        await trio.sleep(3)
        await service.switch("node-b")
        assert await service.ask() == b"node-b:hi"
        assert await conn.receive_some(100) == b""
    assert trio.current_time() == 3 + 2

async def test_with_a_clock_of_its_own(gateway, autojump_clock, virtual_network):
    service = await gateway(CONFIG)
    virtual_network.black_hole("10.0.0.1")
    await expect_active(service, "node-b", within=5)
    await trio.sleep(1000)

async def test_a_clock_that_stands(gateway, mock_clock):
    service = await gateway(CONFIG)
    await service.switch("node-b")
    mock_clock.jump(50)
    assert trio.current_time() == 50

async def test_a_network_without_a_gateway(virtual_network):
    await trio.sleep(10_000)
    assert trio.current_time() == 10_000

async def test_several_gateways(gateway):
    first = await gateway(CONFIG)
    second = await gateway(sniffgate.load_text('''
[[listeners]]
name = "front"
protocol = "tcp"
listen = "10.0.1.254:80"
[[nodes]]
name = "gateway"
tcp = "10.0.0.254:80"
''', file="second.toml"), serve_nodes=False)
    assert await second.ask() == b"node-a:hi"
"""
    run_tests(pytester, monkeypatch, source).assert_outcomes(passed=5)


def test_a_contained_crash_fails_the_test(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """Traffic goes on after a bug in one flow, which is no reason to overlook it."""
    source = """
def crash(service):
    with service.gateway.services.containing("a flow"):
        raise ZeroDivisionError("a planted bug")

async def test_crashes(gateway):
    crash(await gateway(CONFIG))

async def test_crashes_as_expected(gateway):
    service = await gateway(CONFIG)
    crash(service)
    service.expected_crashes = 1

async def test_crashes_really(real_gateway):
    crash(await real_gateway(CONFIG, serve_nodes=False))

async def test_fails_and_crashes(gateway):
    crash(await gateway(CONFIG))
    assert False, "of its own"
"""
    result = run_tests(pytester, monkeypatch, source)

    result.assert_outcomes(passed=1, failed=3)
    result.stdout.fnmatch_lines(["*ZeroDivisionError: a planted bug*", "*GatewayCrashed: *contained 1 crash*"])
    result.stdout.fnmatch_lines(["*of its own*"])


def test_a_failed_expectation_explains_itself(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """`timed out` sends its reader back to the debugger."""
    source = """
async def test_failover(gateway):
    service = await gateway(CONFIG)
    service.nodes["node-b"].kill()
    await trio.sleep(5)
    service.nodes["node-a"].kill()
    await expect_active(service, "node-b", within=2)
"""
    result = run_tests(pytester, monkeypatch, source)

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["*AssertionError: node-b/tcp: not active within 2 s", "*why:", "*node-b/tcp is active: *nothing is usable*",
         "*default/tcp: fail_open*", "*what happened *", "*node-b/tcp: probe failed: connection refused"]
    )  # fmt: skip


@pytest.mark.realnet
def test_the_same_test_runs_on_real_processes(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a virtual network says is worth checking once against a kernel."""
    source = """
async def scenario(service):
    assert await service.ask() == b"node-a:hi"
    with service.nodes["node-a"].kill():
        assert await service.ask() == b"node-b:hi"
        await expect_active(service, "node-b", within=5)
    await expect_active(service, "node-a", within=10)
    await expect_healthy(service, "node-a", within=1)
    assert await service.ask() == b"node-a:hi"

async def test_virtually(gateway):
    await scenario(await gateway(CONFIG))

async def test_really(real_gateway):
    with trio.fail_after(20):
        await scenario(await real_gateway(CONFIG))

async def test_on_each(each_gateway):
    await scenario(await each_gateway(CONFIG))
"""
    run_tests(pytester, monkeypatch, source).assert_outcomes(passed=4)


def test_what_is_real_of_a_test_on_each_is_marked_and_bounded(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever has no time for processes leaves them out; a process that hangs must not hang the run."""
    source = """
import sniffgate.testing.plugin
sniffgate.testing.plugin.REAL_LIMIT = 0.5

async def test_on_each(each_gateway):
    await each_gateway(CONFIG, serve_nodes=False)
    await trio.sleep(30)
"""
    run_tests(pytester, monkeypatch, source, "-m", "not real_processes").assert_outcomes(passed=1, deselected=1)
    pytester.runpytest_subprocess("-p", "no:cacheprovider", timeout=60).assert_outcomes(passed=1, failed=1)


def test_marked_tests_need_no_trio_mode(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """pytest-trio's other way to find its tests."""
    source = """
@pytest.mark.trio
async def test_marked(gateway):
    service = await gateway(CONFIG)
    await trio.sleep(1000)
    assert trio.current_time() == 1000
"""
    run_tests(pytester, monkeypatch, source, "-o", "trio_mode=false").assert_outcomes(passed=1)


def test_the_plugin_costs_nothing_where_it_is_not_used(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is loaded into every pytest run of an environment that has sniffgate."""
    monkeypatch.setenv("PYTHONPATH", install_entry_points(pytester.path / "installed"))
    pytester.makepyfile(
        """
        import sys
        def test_nothing_was_imported():
            assert "sniffgate.testing.plugin" in sys.modules
            found = [name for name in sys.modules if name.startswith(("trio", "attrs", "sniffgate."))]
            assert ["sniffgate.testing", "sniffgate.testing.plugin"] == sorted(found)
        """
    )
    blocked = ("-p", "no:trio", "-p", "no:hypothesispytest", "-p", "no:anyio")
    pytester.runpytest_subprocess(*blocked, timeout=60).assert_outcomes(passed=1)


def test_the_kit_imports_nothing_by_itself() -> None:
    """Its names are found when they are asked for, and all of them are there."""
    code = (
        "import sys, sniffgate.testing as kit; assert 'trio' not in sys.modules; "
        "[getattr(kit, name) for name in kit.__all__]; assert 'trio' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_a_failure_tells_its_seed_and_runs_again_with_it(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What fails once in a hundred runs must fail every time from then on."""
    source = """
async def test_order(virtual_network):
    order = []
    async def task(number):
        await trio.sleep(1)
        order.append(number)
    async with trio.open_nursery() as nursery:
        for number in range(20):
            nursery.start_soon(task, number)
    assert False, f"order {order}"
"""
    first = run_tests(pytester, monkeypatch, source)
    (seed,) = re.findall(r"run it again with (--sniffgate-seed=\d+)", first.stdout.str())
    again = pytester.runpytest_subprocess("-p", "no:cacheprovider", seed, timeout=60)

    orders = [re.findall(r"AssertionError: order (\[.*\])", result.stdout.str())[0] for result in (first, again)]
    assert orders[0] == orders[1]
