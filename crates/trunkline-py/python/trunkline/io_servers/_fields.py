"""What the configurations of these I/O servers have in common: a table for each field."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from .._errors import Error
from ..io_server import Config


def tables(config: Config, section: str, keys: set[str]) -> dict[str, tuple[dict[str, Any], dict[str, Any]]]:
    """Returns the tables `[SECTION.PATH]` of a configuration, by path: the keys of the I/O server, which are
    `keys`, and the options of the variable.

    Raises:
        Error: There is none, or one is no table.
    """
    given = config[section]
    if not isinstance(given, Mapping) or not given:
        raise Error(
            f"{section} is no table of fields",
            hint=f"write a table for each field, such as [{section}.volts]",
            code="bad-configuration",
        )
    found: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {}
    for path, one in cast("Mapping[str, Any]", given).items():
        if not isinstance(one, Mapping):
            raise Error(
                f"{section}.{path} is no table", hint=f"write [{section}.{path}]", code="bad-configuration"
            )
        table = dict(cast("Mapping[str, Any]", one))
        own = {key: table.pop(key) for key in list(table) if key in keys}
        found[path] = (own, table)
    return found
