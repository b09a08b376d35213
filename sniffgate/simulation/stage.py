"""The configuration's nodes and listeners on a virtual network: scripted nodes, each on a machine of its own."""

import attrs

from ..address import Address
from ..config.schema import Config, ListenerConfig, NodeConfig, Transport
from ..testing.backends import Node
from ..testing.scripts import Client, Script, tagged
from ..testing.shaping import Shape
from ..testing.virtual import VirtualHost, VirtualNetwork

DOORS = "198.19.254.{}"  # all of 198.18.0.0/15 is set aside for tests of this kind (RFC 2544)
MACHINES = "198.18.{}.{}"
SLOW = 2.5  # seconds that a slow node's answers are late
LOSSY = Shape(loss=0.3, jitter=0.005)


def moved_to_stage(config: Config) -> Config:
    """The same configuration with addresses of the stage. Names stay names, and ports stay as they are."""
    names: set[str] = set()
    nodes = tuple(_moved_node(number, node, names) for number, node in enumerate(config.nodes))
    hosts = list(dict.fromkeys(each.listen.host for each in config.listeners))
    listeners = tuple(_moved_listener(each, hosts.index(each.listen.host)) for each in config.listeners)
    return attrs.evolve(config, nodes=nodes, listeners=listeners)


def _moved_node(number: int, node: NodeConfig, names: set[str]) -> NodeConfig:
    def moved(address: Address | None) -> Address | None:
        if address is None or not address.is_literal:
            return address if address is None else Address(own[address.host], address.port)
        return Address(machine_of(number), address.port)

    named = [each.host for each in (node.tcp, node.udp) if each is not None and not each.is_literal]
    own = {name: f"{node.name}.{name}" if name in names else name for name in named}  # two nodes may share a machine
    names.update(named)
    return attrs.evolve(node, tcp=moved(node.tcp), udp=moved(node.udp))


def machine_of(number: int) -> str:
    """The address of the machine of the node of that number."""
    return MACHINES.format(number // 250, number % 250 + 1)


def _moved_listener(listener: ListenerConfig, number: int) -> ListenerConfig:
    return attrs.evolve(listener, listen=Address(DOORS.format(number + 1), listener.listen.port))


class Stage:
    """The network of one history: the gateway's machine, a client's, and the nodes."""

    def __init__(self, config: Config, *, seed: int, latency: float) -> None:
        """`config` is one that `moved_to_stage` returned; `latency` is one way, in seconds."""
        self.network = VirtualNetwork(seed=seed, trace_limit=0)
        doors = list(dict.fromkeys(each.listen.host for each in config.listeners))
        self.gateway: VirtualHost = self.network.host(*(doors or [DOORS.format(1)]))
        self.nodes: dict[str, Node] = {}
        self.names: dict[str, tuple[str, ...]] = {}  # by node: the names that it is configured by
        for number, node in enumerate(config.nodes):
            host = machine_of(number)
            self.nodes[node.name] = Node(
                self.network,
                node.name,
                host,
                tcp=node.tcp.port if node.tcp else None,
                udp=node.udp.port if node.udp else None,
                script=script_for(node),
            )
            self.names[node.name] = tuple(
                dict.fromkeys(each.host for each in (node.tcp, node.udp) if each is not None and not each.is_literal)
            )
            self.network.set_latency(latency, host)
        for name in self.nodes:
            self._resolve(name)

    def inflict(self, name: str, kind: str) -> None:
        """Lets a fault of `history.FAULTS` befall a node."""
        node, network = self.nodes[name], self.network
        match kind:
            case "partition":
                network.partition(node.host, self.gateway.address)
            case "slow":
                node.slow(SLOW)
            case "lossy":
                network.shape(LOSSY, node.host)
            case "dns":
                for each in self.names[name]:
                    network.names[each] = ()
            case "kill":
                node.kill()
            case "freeze":
                node.freeze()
            case "refuse":
                node.refuse()
            case "black_hole":
                node.black_hole()
            case "unreachable":
                node.unreachable()
            case "power_off":
                node.power_off()
            case "close_udp":
                node.close_udp()
            case "reset_clients":
                node.reset_clients()
            case _:
                raise ValueError(f"no fault is called {kind}")

    def recover(self, name: str) -> None:
        """Ends whatever a node suffers from."""
        node = self.nodes[name]
        node.recover()
        self.network.heal(node.host, self.gateway.address)
        self.network.shape(None, node.host)
        self._resolve(name)

    def forget(self) -> None:
        """Lets go of what the nodes remember of their clients: a long history would fill the memory with it."""
        for node in self.nodes.values():
            node.received.clear()
            node.accepted.clear()

    def _resolve(self, name: str) -> None:
        for each in self.names[name]:
            self.network.names[each] = (self.nodes[name].host,)


def script_for(node: NodeConfig) -> Script:
    """Answers a probe with what it expects, and everything else as an echo."""
    asked, expected = node.payload(Transport.TCP), node.expectation(Transport.TCP)
    asked_udp, expected_udp = node.payload(Transport.UDP) or b"\0", node.expectation(Transport.UDP)

    async def talk(client: Client) -> None:
        if expected and not asked:
            await client.send(expected)  # a server that speaks first
        while data := await client.receive():
            await client.send(expected if expected and data == asked else tagged(client.name, data))

    def answer(name: str, data: bytes) -> bytes:
        return expected_udp if expected_udp and data == asked_udp else tagged(name, data)

    return Script(talk, answer)
