"""An I/O server for EPICS: process variables of IOCs become variables of an engine.

    python -m trunkline.io_servers.epics --name ring --config ring.toml

The configuration names the process variables; it needs the package `caproto`:

    [pv.current]
    pv = "SR:DCCT:CURRENT"

    [pv.setpoint]
    pv = "SR:RF:SETPOINT"
    writable = true

Settings: `timeout`, seconds to wait for the IOCs at the start (5).

Keys of a process variable: `pv`, its name; `writable` (false). All other keys are those of a variable. Type, units,
limits and labels are those of the IOC; if `type` is given, the IOC need not run when the I/O server starts.
Values have the timestamps of the IOC. The severity INVALID makes the quality bad; MINOR and MAJOR do not, because
they are alarms, which the engine can have as well.
"""

from __future__ import annotations

import functools
import importlib
import logging
import threading
from collections.abc import Mapping
from typing import Any

import numpy as np

from .._errors import Closed, Error, Rejected
from ..io_server import Config, Field, IoServer, field
from ._fields import tables

KEYS = {"pv", "writable"}
EPICS_EPOCH = 631_152_000
"""Start of the time of EPICS, 1990-01-01 00:00 UTC, in seconds since 1970."""
INVALID = 3
"""Severity of a value that must not be used; EPICS Application Developer's Guide, alarm.h."""
ELEMENTS = {"DOUBLE": "f64", "FLOAT": "f32", "LONG": "i32", "INT": "i16", "CHAR": "u8", "STRING": "string"}
"""Types of the Channel Access protocol as types of elements."""


class Epics(IoServer):
    """Process variables of EPICS, through Channel Access."""

    def fields(self, config: Config) -> Mapping[str, Field[Any]]:
        """Makes a field of each table `[pv.PATH]`."""
        try:
            client: Any = importlib.import_module("caproto.threading.client")
        except ImportError:
            raise Error(
                "caproto is not installed", hint="pip install 'trunkline[epics]'", code="not-installed"
            ) from None
        # It reports each connection.
        logging.getLogger("caproto").setLevel(logging.WARNING)
        timeout = float(config.get("timeout", 5.0))
        given = tables(config, "pv", KEYS)
        for path, (own, _) in given.items():
            if "pv" not in own:
                raise Error(f"pv.{path} has no name", hint='add pv = "NAME"', code="bad-configuration")
        self._context: Any = client.Context(timeout=timeout)
        self._opened = threading.Event()
        self._subscriptions: dict[str, tuple[Any, Any]] = {}
        self._paths = {str(own["pv"]): path for path, (own, _) in given.items()}
        # caproto keeps no reference to callbacks.
        self._connection_changed = self._on_connection
        pvs = self._context.get_pvs(
            *(str(own["pv"]) for own, _ in given.values()),
            connection_state_callback=self._connection_changed,
        )
        self._pvs: dict[str, Any] = dict(zip(given, pvs))
        self._timeout = timeout
        self._types: dict[str, str] = {}
        found: dict[str, Field[Any]] = {}
        for path, (own, options) in given.items():
            writable = bool(own.get("writable", False))
            if "type" not in options:
                options = {**_described(self._pvs[path], timeout, writable), **options}
            self._types[path] = str(options.pop("type"))
            one = field(self._types[path], writable=writable, path=path, **options)
            if writable:
                one.on_put(functools.partial(Epics._write, path=path))
            found[path] = one
        return found

    def open(self, config: Config) -> None:
        """Follows the process variables."""
        self._opened.set()
        for path, pv in self._pvs.items():
            if not pv.connected:
                self[path].fail("not-connected")
            self._subscribe(path, pv)

    def close(self) -> None:
        """Stops following them."""
        self._opened.clear()
        for subscription, _ in self._subscriptions.values():
            subscription.clear()
        self._subscriptions.clear()

    def _subscribe(self, path: str, pv: Any) -> None:
        def received(subscription: Any, response: Any) -> None:
            self._on_value(path, response)

        subscription = pv.subscribe(data_type="time")
        self._subscriptions[path] = (subscription, received)
        subscription.add_callback(received)

    def _on_connection(self, pv: Any, state: str) -> None:
        if state == "disconnected" and self._opened.is_set():
            self[self._paths[pv.name]].fail("not-connected")

    def _on_value(self, path: str, response: Any) -> None:
        if not self._opened.is_set():
            return
        stamp = response.metadata.stamp
        ts_ns = (EPICS_EPOCH + stamp.secondsSinceEpoch) * 10**9 + stamp.nanoSeconds
        is_invalid = int(response.metadata.severity) == INVALID
        try:
            value = _value(response.data, self._types[path])
            self[path].publish(value, ts_ns=ts_ns, reason="sensor-failure" if is_invalid else None)
        except (TypeError, ValueError, OverflowError) as error:
            self.log.error("%s: the IOC sent a value that the field cannot have: %s", path, error)
            self[path].fail("configuration-error")
        except Closed:
            # The I/O server ends.
            self._opened.clear()

    def _write(self, value: Any, *, path: str) -> None:
        """Writes a value, and waits until the IOC has processed it."""
        pv = self._pvs[path]
        if not pv.connected:
            raise Rejected(f"{pv.name} is not connected", hint="start its IOC")
        data_type = self._types[path]
        if data_type.startswith("enum("):
            value = _labels(data_type).index(value)
        elif isinstance(value, str):
            value = value.encode()
        pv.write(value, wait=True, timeout=self._timeout)


def _described(pv: Any, timeout: float, writable: bool) -> dict[str, Any]:
    """Returns the type and the options of a process variable, as its IOC describes it."""
    try:
        pv.wait_for_connection(timeout=timeout)
        control = pv.read(data_type="control", timeout=timeout)
    except TimeoutError:
        raise Error(
            f"{pv.name} does not answer",
            hint="start its IOC, or give its type; EPICS_CA_ADDR_LIST says where it is searched",
            code="not-connected",
        ) from None
    about = control.metadata
    if pv.channel.native_data_type.name == "ENUM":
        labels = [label.decode(errors="replace") for label in about.enum_strings]
        return {"type": f"enum({', '.join(labels)})"}
    element = ELEMENTS[pv.channel.native_data_type.name]
    options: dict[str, Any] = {"type": element}
    if pv.channel.native_data_count > 1:
        options["type"] = f"array({element}, *)"
    units = getattr(about, "units", b"").decode(errors="replace")
    if units:
        options["units"] = units
    precision = getattr(about, "precision", 0)
    if 0 < precision <= 17:
        options["precision"] = precision
    limits = (getattr(about, "lower_ctrl_limit", 0), getattr(about, "upper_ctrl_limit", 0))
    if writable and limits[0] < limits[1] and options["type"] == element:
        options["range"] = [float(limit) for limit in limits]
    return options


def _value(data: Any, data_type: str) -> Any:
    """Returns a value of an IOC as a variable of this type has it."""
    if data_type.startswith("array("):
        is_text = data_type.startswith("array(string")
        return [one.decode(errors="replace") for one in data] if is_text else np.asarray(data)
    first = data[0]
    if isinstance(first, bytes):
        return first.decode(errors="replace")
    if data_type == "bool":
        return bool(first)
    if data_type.startswith("enum("):
        return _labels(data_type)[int(first)]
    return float(first) if data_type in ("f32", "f64") else int(first)


def _labels(data_type: str) -> list[str]:
    return [label.strip() for label in data_type.removeprefix("enum(").removesuffix(")").split(",")]


if __name__ == "__main__":
    Epics.main()
