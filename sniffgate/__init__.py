"""sniffgate: a TCP/UDP failover gateway on Trio.

Clients know one address; behind it stand several nodes; when the active node fails, traffic moves to the next.
"""

__version__ = "0.1.0"
