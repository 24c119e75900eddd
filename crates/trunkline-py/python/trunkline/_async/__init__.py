"""The asynchronous classes. The package `_sync` is generated from this one."""
