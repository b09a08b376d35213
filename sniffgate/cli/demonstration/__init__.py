"""`sniffgate demo`: three nodes, a gateway, two steady clients, and what can happen to them in ten seconds."""
