"""Known faults of failover gateways, put into a copy of the program on purpose: each must turn its named tests red."""
