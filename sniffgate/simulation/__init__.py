"""A configuration under seeded histories of faults, on virtual time, judged by rules that hold at every moment."""
