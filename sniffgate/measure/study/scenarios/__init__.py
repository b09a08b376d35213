"""The scenarios, one module for each idea. Importing this fills `SCENARIOS`, in the order of the study."""

from . import startup

__all__ = ["startup"]
