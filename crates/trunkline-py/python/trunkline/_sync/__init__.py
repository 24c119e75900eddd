"""The synchronous classes. All files but `waiting.py` are generated from `_async`."""
