"""An I/O server for instruments that understand SCPI, through PyVISA.

    python -m trunkline.io_servers.scpi --name psu --config psu.toml

The configuration names the instrument, and the commands of each field:

    visa = "TCPIP::10.0.0.5::INSTR"
    errors = "SYST:ERR?"

    [field.volts]
    units = "V"
    range = [0, 30]
    read = "VOLT?"
    write = "VOLT {value}"

    [field.amps]
    units = "A"
    read = "MEAS:CURR?"
    period = 0.2
    alarm.hi = 2.5

Settings: `visa`, `visa_library` ("@py"), `timeout` (2 s), `read_termination`, `write_termination`; `identity`, a
text that the answer to `*IDN?` must contain; `errors`, a query that is sent after each write, whose answer must begin
with 0 or the write is refused.

Keys of a field: `read`, a query; `write`, a command in which {value} stands for the value; `period`, seconds between
two queries (1); `binary`, the type of the elements if the answer is a binary block, such as "f32", with `big_endian`
(true). All other keys are those of a variable; `type` is "f64" unless it is given.
"""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from .._errors import Error, Rejected
from ..io_server import Config, Field, IoServer, field, poll
from ._fields import tables

KEYS = {"read", "write", "period", "binary", "big_endian"}
TRUE = {"1", "ON", "TRUE"}
FALSE = {"0", "OFF", "FALSE"}
NOT_A_NUMBER = 9.91e37
"""SCPI-99, volume 1, 7.2.1: this number stands for NaN, and 9.9E+37 for infinity."""
INFINITY = 9.9e37


class Query(NamedTuple):
    """How a field is read."""

    path: str
    command: str
    period: float
    parse: Callable[[str], Any]
    binary: str | None
    """Layout of the elements of a binary block, as NumPy writes it."""


class Scpi(IoServer):
    """An instrument that understands SCPI. The fields are those of the configuration."""

    def fields(self, config: Config) -> Mapping[str, Field[Any]]:
        """Makes a field of each table `[field.PATH]`."""
        found: dict[str, Field[Any]] = {}
        self._queries: list[Query] = []
        for path, (own, options) in tables(config, "field", KEYS).items():
            if "read" not in own and "write" not in own:
                raise Error(
                    f"field.{path} has no command", hint="give it read or write", code="bad-configuration"
                )
            data_type = str(options.pop("type", "f64"))
            writes = own.get("write")
            one = field(data_type, writable=writes is not None, path=path, **options)
            if writes is not None:
                one.on_put(functools.partial(Scpi._write, path=path, command=str(writes)))
            if "read" in own:
                self._queries.append(_query(path, own, data_type))
            found[path] = one
        self._due = dict.fromkeys((query.path for query in self._queries), 0.0)
        return found

    def open(self, config: Config) -> None:
        """Opens the instrument and checks its identity."""
        self._instrument: Any = config.visa()
        self._errors = config.get("errors")
        identity = config.get("identity")
        if identity is not None:
            answer = self._instrument.query("*IDN?").strip()
            if str(identity) not in answer:
                raise Error(
                    f"the instrument at {config['visa']} is {answer!r}, not {identity!r}",
                    hint="correct visa or identity",
                    code="wrong-instrument",
                )
        # Afterwards, all fields are read at once.
        self._due = dict.fromkeys(self._due, 0.0)

    def close(self) -> None:
        """Closes the instrument."""
        instrument = getattr(self, "_instrument", None)
        if instrument is not None:
            instrument.close()
            self._instrument = None

    @poll(0.01)
    def scan(self) -> None:
        """Reads the fields that are due."""
        now = time.monotonic()
        for query in self._queries:
            if self._due[query.path] <= now:
                self._due[query.path] = now + query.period
                self._read(query)

    def _read(self, query: Query) -> None:
        if query.binary is not None:
            block = self._instrument.query_binary_values(
                query.command,
                datatype=np.dtype(query.binary).char,
                is_big_endian=query.binary.startswith(">"),
                container=np.array,
            )
            self[query.path].publish(block.astype(query.binary.replace(">", "=").replace("<", "=")))
            return
        answer = self._instrument.query(query.command).strip()
        try:
            value = query.parse(answer)
        except ValueError:
            self.log.error("%s: the instrument answered %r to %s", query.path, answer, query.command)
            self[query.path].fail("sensor-failure")
            return
        self[query.path].publish(value)

    def _write(self, value: Any, *, path: str, command: str) -> Any:
        """Writes a value to the instrument, and returns what it has afterwards if it can be asked."""
        self._instrument.write(command.format(value=_formatted(value)))
        if self._errors is not None:
            answer = self._instrument.query(self._errors).strip()
            if not answer.lstrip("+").startswith("0"):
                raise Rejected(f"the instrument refused {value}: {answer}")
        for query in self._queries:
            if query.path == path and query.binary is None:
                return query.parse(self._instrument.query(query.command).strip())
        return None


def _formatted(value: Any) -> Any:
    """Returns a value as the command has it: numbers stay numbers, so that formats such as {value:.3f} work."""
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, np.ndarray):
        elements: list[Any] = value.ravel().tolist()
        return ",".join(str(_formatted(one)) for one in elements)
    if isinstance(value, str) and any(one in "\"';" or not one.isprintable() for one in value):
        raise Rejected("the text has a character that could end the command", hint="write one without \" ' ;")
    return value


def _query(path: str, own: dict[str, Any], data_type: str) -> Query:
    period = float(own.get("period", 1.0))
    if not period > 0:
        raise Error(f"field.{path}: the period is {period} s", hint="use more than 0", code="bad-configuration")
    binary = own.get("binary")
    layout: str | None = None
    if binary is not None:
        name = f"{binary}"
        kind = name[:1] if name[:1] in ("i", "u", "f") else ""
        try:
            order = ">" if own.get("big_endian", True) else "<"
            size = int(name[1:]) // 8
            layout = f"{order}{kind}{size}"
            np.dtype(layout)
        except (TypeError, ValueError):
            raise Error(
                f"field.{path}: {binary!r} is no type of elements", hint='use one such as "f32"', code="bad-configuration"
            ) from None
    return Query(path, str(own["read"]), period, _parser(data_type), layout)


def _parser(data_type: str) -> Callable[[str], Any]:
    """Returns the function that reads a value of this type from an answer."""
    if data_type == "bool":
        return _boolean
    if data_type in ("f32", "f64"):
        return _number
    if data_type[:1] in ("i", "u") and data_type[1:].isdigit():
        return _integer
    if data_type.startswith("array("):
        element = data_type.removeprefix("array(").partition(",")[0].strip()
        parse = _parser(element)
        return lambda answer: [parse(one) for one in answer.split(",")] if answer else []
    return lambda answer: answer.strip('"')


def _boolean(answer: str) -> bool:
    word = answer.upper().lstrip("+")
    if word in TRUE:
        return True
    if word in FALSE:
        return False
    raise ValueError(answer)


def _number(answer: str) -> float:
    number = float(answer)
    if number == NOT_A_NUMBER:
        return math.nan
    return math.copysign(math.inf, number) if abs(number) == INFINITY else number


def _integer(answer: str) -> int:
    number = _number(answer)
    if not number.is_integer():
        raise ValueError(answer)
    return int(number)


if __name__ == "__main__":
    Scpi.main()
