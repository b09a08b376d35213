"""The study: scenarios on real processes, the artifact that holds every raw value, and what is made from it."""
