"""I/O servers that need no programming, only a configuration: `scpi` and `epics`."""
