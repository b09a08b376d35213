"""A small gateway that takes sniffgate's file and control commands, forwards honestly, and lies where it is told to.

    python fake_gateway.py CONFIG [LIE]

`switch`: says that traffic was moved and moves none. `probes`: counts probes that it never sent. `answers`: answers
clients itself, in the name of the active node. It has no `reload` command, no epoch and no passive ejection.
"""

import asyncio
import json
import sys
import time
import tomllib
from pathlib import Path
from typing import Any

LIE = sys.argv[2] if len(sys.argv) > 2 else ""


class Fake:
    """The whole of it."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.settings = config["global"]
        self.listeners = config["listeners"]
        self.nodes = sorted(config["nodes"], key=lambda node: -node.get("priority", 0))
        self.healthy = {node["name"]: False for node in self.nodes}
        self.streaks = {node["name"]: 0 for node in self.nodes}
        self.probes = {node["name"]: 0 for node in self.nodes}
        self.pins: dict[str, str] = {}
        self.open: dict[str, set[asyncio.StreamWriter]] = {node["name"]: set() for node in self.nodes}
        self.tasks: list[object] = []

    def claimed(self, transport: str) -> str | None:
        """The node that is said to have the traffic."""
        if self.pins.get(transport):
            return self.pins[transport]
        return next((node["name"] for node in self.nodes if self.healthy[node["name"]]), None)

    def active(self, transport: str) -> dict[str, Any] | None:
        """The node that really has it."""
        name = self.claimed(transport)
        if LIE == "switch" and transport in self.pins:
            name = self.nodes[0]["name"]
        return next((node for node in self.nodes if node["name"] == name), None)

    async def probe_forever(self, node: dict[str, Any]) -> None:
        """Connects at every interval; three failures, or two successes, in a row change its verdict."""
        name, (host, port) = node["name"], address(node["tcp"])
        while True:
            try:
                _, writer = await asyncio.wait_for(asyncio.open_connection(host, port), 0.3)
                writer.close()
                ok = True
            except (TimeoutError, OSError):
                ok = False
            self.probes[name] += ok * (5 if LIE == "probes" else 1)
            self.streaks[name] = 0 if ok == self.healthy[name] else self.streaks[name] + 1
            if self.streaks[name] >= (2 if ok else 3):
                self.healthy[name], self.streaks[name] = ok, 0
            await asyncio.sleep(self.settings["probe_interval_ms"] / 1000)

    async def serve_client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One TCP connection."""
        node = self.active("tcp")
        try:
            if node is None:
                return
            if LIE == "answers":
                while chunk := await reader.read(65536):
                    writer.write(node["name"].encode() + b":" + chunk)
                return
            away = await asyncio.open_connection(*address(node["tcp"]))
            self.open[node["name"]].add(writer)
            await asyncio.gather(pump(reader, away[1]), pump(away[0], writer))
        except OSError:
            pass
        finally:
            writer.close()

    async def control(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One control connection."""
        while line := await reader.readline():
            words = line.decode(errors="replace").split()
            reply = await self.obey(words)
            writer.write(json.dumps(reply).encode() + b"\n")
        writer.close()

    async def obey(self, words: list[str]) -> dict[str, Any]:
        """The reply to one command."""
        if words[:1] == ["status"]:
            return self.status()
        if words[:1] == ["switch"]:
            for transport in words[2:] or ["tcp", "udp"]:
                self.pins[transport] = words[1]
            if "tcp" in self.pins and LIE != "switch":
                self.tasks.append(asyncio.create_task(self.drain(self.pins["tcp"])))
            return self.status()
        return {"ok": False, "error": "unknown command"}

    async def drain(self, name: str) -> None:
        """Closes what is open elsewhere once the timeout is over."""
        old = [writer for other, writers in self.open.items() if other != name for writer in writers]
        await asyncio.sleep(self.settings["drain_timeout_ms"] / 1000)
        for writer in old:
            writer.close()

    def status(self) -> dict[str, Any]:
        """What it says of itself."""
        nodes = [
            {"name": n, "healthy": ok, "last_probe_ms": int(time.time() * 1000), "stats": {"probe_ok": self.probes[n]}}
            for n, ok in self.healthy.items()
        ]
        active = {"tcp": self.claimed("tcp"), "udp": self.claimed("udp")}
        return {"ok": True, "engine": "fake", "version": "1", "active": active, "nodes": nodes}


async def pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    """One direction, to its end."""
    try:
        while chunk := await source.read(65536):
            sink.write(chunk)
    except OSError:
        pass
    sink.close()


def address(text: str) -> tuple[str, int]:
    """Host and port."""
    host, _, port = text.rpartition(":")
    return host, int(port)


async def main(text: str) -> None:
    """Serves until killed."""
    fake = Fake(tomllib.loads(text))
    unknown = set(fake.settings) & {"hedge_delay_ms", "no_gateway_knows_this_key"}
    if unknown:
        sys.exit(f"unknown key {min(unknown)}")
    for each in fake.listeners:
        if each["protocol"] == "tcp":
            fake.tasks.append(await asyncio.start_server(fake.serve_client, *address(each["listen"])))
    fake.tasks.append(await asyncio.start_server(fake.control, *address(fake.settings["admin_listen"])))
    await asyncio.gather(*(fake.probe_forever(node) for node in fake.nodes))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]).read_text()))
