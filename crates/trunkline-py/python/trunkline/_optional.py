"""Packages that only some functions need."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def optional(module: str) -> Any:
    """Imports a module of another package.

    Raises:
        ImportError: The package is not installed; the message says how to install it.
    """
    package = module.partition(".")[0]
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name != package:
            raise
        raise ModuleNotFoundError(
            f"this needs the package {package}, which is not installed; pip install {package}", name=package
        ) from None
