"""The commands of `sniffgate measure`, one module each."""
