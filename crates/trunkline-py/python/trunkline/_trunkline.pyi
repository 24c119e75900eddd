"""The native part of the package. Programs use the package instead."""

from collections.abc import Sequence
from typing import Any, final

from numpy import int64, uint32, uint64
from numpy.typing import NDArray

def default_url() -> str | None:
    """Returns the URL of the context that the user has selected; `None` if there is none."""

def parse_time(text: str, now_ns: int) -> int:
    """Reads RFC 3339, or a duration before now such as "-1h", as nanoseconds since 1970 UTC."""

@final
class WakeQueue:
    """The calls of an event loop that can continue. Readable while there is at least one."""

    def __new__(cls) -> WakeQueue: ...
    def fileno(self) -> int: ...
    def take(self) -> list[int]: ...

@final
class Call:
    """A call in progress. The answer can be taken once. Dropping the object abandons the call."""

    def wait(self, seconds: float) -> tuple[Any] | None: ...
    def poll(self, queue: WakeQueue, token: int) -> tuple[Any] | None: ...
    def cancel(self) -> None: ...
    def end(self, seconds: float) -> Any: ...

@final
class Handle:
    """A variable that was opened, with what is configured about it."""

    @property
    def name(self) -> str:
        """Full name of the variable."""
    @property
    def data_type(self) -> str:
        """Type of the values, such as "f64" or "enum(OFF, ON)"."""
    @property
    def units(self) -> str:
        """Engineering unit; empty if there is none."""
    @property
    def description(self) -> str:
        """Description for users; empty if there is none."""
    @property
    def range(self) -> tuple[float, float] | None:
        """Lowest and highest value; `None` if there is no range."""
    @property
    def precision(self) -> int | None:
        """Number of decimal places shown to users; `None` if it is not configured."""
    @property
    def access(self) -> str:
        """"read-write", "read-only" or "write-only"."""
    @property
    def labels(self) -> list[str] | None:
        """Labels of an enum in the order of their numbers; `None` for other types."""

@final
class Reading:
    """A value with its time, quality and losses."""

    @property
    def name(self) -> str:
        """Full name of the variable."""
    @property
    def value(self) -> Any:
        """The value, in engineering units. Without a value, the default of the type."""
    @property
    def ts_ns(self) -> int:
        """Time of the measurement by the source's clock, nanoseconds since 1970 UTC."""
    @property
    def engine_ts_ns(self) -> int:
        """Time at which the engine accepted the value, nanoseconds since 1970 UTC."""
    @property
    def time(self) -> Any:
        """Time of the measurement as `numpy.datetime64[ns]`, UTC."""
    @property
    def epoch(self) -> int:
        """The engine's epoch, which changes with every start."""
    @property
    def seq(self) -> int:
        """Number of the update within the epoch, from 1; 0 if the variable was never written."""
    @property
    def lost(self) -> int | None:
        """Number of updates missed since the previous reading; `None` if unknown."""
    @property
    def lost_by(self) -> dict[str, int | bool]:
        """The missed updates by cause: "queue", "overrun", "disconnect", "unknown"."""
    @property
    def coalesced(self) -> int:
        """Number of updates that the contract replaced by newer ones, which is no loss."""
    @property
    def stale(self) -> float | None:
        """Age in seconds if the value may no longer be the current one; otherwise `None`."""
    @property
    def own(self) -> bool:
        """True if this connection wrote the value."""
    @property
    def has_value(self) -> bool:
        """False if the variable was never written."""
    @property
    def quality(self) -> str:
        """The trust in the value: "good", "uncertain" or "bad"."""
    @property
    def reason(self) -> str:
        """The reason for the quality, such as "sensor-failure"; empty if there is none."""
    @property
    def quality_bits(self) -> int:
        """The quality in packed form, as blocks have it."""
    @property
    def is_forced(self) -> bool:
        """True if an operator has forced the value."""
    @property
    def is_simulated(self) -> bool:
        """True if the value comes from a simulation."""
    @property
    def units(self) -> str:
        """Unit of the value; empty if it has none or if it is not known."""
    def _repr_html_(self) -> str: ...

@final
class Block:
    """Many readings in columns, as NumPy arrays of equal length, oldest first."""

    @property
    def names(self) -> list[str]:
        """Names of the variables, by their index."""
    @property
    def item(self) -> NDArray[uint32]:
        """Index of the variable of each reading."""
    @property
    def value(self) -> NDArray[Any]:
        """The values. `float64` if the variables have several numeric types; objects if there are
        values that are no numbers; otherwise of the dtype of the variables."""
    @property
    def ts_ns(self) -> NDArray[int64]:
        """Times of measurement, nanoseconds since 1970 UTC."""
    @property
    def quality_bits(self) -> NDArray[uint32]:
        """Qualities in packed form. The lowest two bits are 0 if the value is good."""
    @property
    def seq(self) -> NDArray[uint64]:
        """Numbers of the updates."""
    @property
    def lost(self) -> NDArray[uint64]:
        """Numbers of updates missed before each reading; the highest value if unknown."""
    def __len__(self) -> int: ...

@final
class Event:
    """A change of the connection, or the fault or end of a variable."""

    @property
    def kind(self) -> str:
        """"connected", "disconnected", "failed" or "ended"."""
    @property
    def name(self) -> str | None:
        """Name of the variable; `None` for the connection."""
    @property
    def error(self) -> Exception | None:
        """The reason; `None` for "connected"."""
    @property
    def lost(self) -> int | None:
        """Number of updates that will not arrive; `None` if unknown or if nothing was lost."""

@final
class Subscription:
    """A subscription to variables."""

    def wait(self, seconds: float) -> bool: ...
    def poll(self, queue: WakeQueue, token: int) -> bool: ...
    def pop(self) -> Reading | Event | None: ...
    def pop_block(self) -> Block | Event | None: ...
    def close(self) -> None: ...

@final
class PatternSubscription:
    """A subscription to the variables that match patterns."""

    def wait(self, seconds: float) -> bool: ...
    def poll(self, queue: WakeQueue, token: int) -> bool: ...
    def pop(self) -> Reading | Event | None: ...
    def pop_block(self) -> Block | Event | None: ...
    def close(self) -> None: ...

@final
class Connection:
    """A connection to an engine. Methods that return a `Call` return at once."""

    @staticmethod
    def connect(url: str, program: str | None) -> Connection: ...
    @property
    def url(self) -> str | None:
        """The URL of the engine; `None` for an engine in this process."""
    def record(self, options: dict[str, Any]) -> Recorder: ...
    def wait_connected(self) -> Call: ...
    def state(self) -> tuple[str, str | None]: ...
    def transport(self) -> str | None: ...
    def open(self, names: Sequence[str], with_readings: bool) -> Call: ...
    def close_variables(self, handles: Sequence[Handle]) -> Call: ...
    def read(self, handles: Sequence[Handle]) -> Call: ...
    def snapshot(self, handles: Sequence[Handle]) -> Call: ...
    def request_value(self, handles: Sequence[Handle]) -> Call: ...
    def write(
        self,
        handles: Sequence[Handle],
        objects: Sequence[Any],
        *,
        verb: str,
        ts_ns: int | None = None,
        quality_bits: int | None = None,
        newest: bool = False,
        expected: tuple[int, int] | None = None,
    ) -> Call: ...
    def write_group(self, handles: Sequence[Handle], objects: Sequence[Any]) -> Call: ...
    def write_untracked(
        self, handles: Sequence[Handle], objects: Sequence[Any], life: float
    ) -> None: ...
    def flush(self) -> Call: ...
    def write_counts(self) -> dict[str, int]: ...
    def find(self, pattern: str, limit: int | None) -> Call: ...
    def why(self, name: str) -> Call: ...
    def history(
        self,
        patterns: Sequence[str],
        since_ns: int | None,
        until_ns: int | None,
        form: str,
        width: int,
        cursor: Cursor | None,
        /,
    ) -> Call: ...
    def alarms(
        self, pattern: str | None, area: str, priority_min: int, states: Sequence[str]
    ) -> Call: ...
    def act_on_alarms(
        self, of: Sequence[tuple[str, str]], action: str, comment: str, seconds: float
    ) -> Call: ...
    def alarm_journal(
        self,
        pattern: str | None,
        area: str,
        priority_min: int,
        states: Sequence[str],
        since_ns: int | None,
        until_ns: int | None,
        newest_first: bool,
        limit: int,
        cursor: int | None,
        /,
    ) -> Call: ...
    def audit(
        self,
        pattern: str | None,
        since_ns: int | None,
        who: str | None,
        newest_first: bool,
        limit: int,
        cursor: int | None,
        /,
    ) -> Call: ...
    def take_control(
        self, folder: str, level: str, only_this_program: bool, seconds: float | None, waits: bool
    ) -> Call: ...
    def give_control(self, folder: str, number: int) -> Call: ...
    def release_control(self, folder: str) -> Call: ...
    def controls(self, folder: str, own: bool) -> Call: ...
    def follow_control(self, known: int) -> Call: ...
    def lease(self, handles: Sequence[Handle], verb: str, seconds: float) -> Call: ...
    def deploy(
        self, name: str, rows: Sequence[tuple[str, str, dict[str, Any]]], replace: bool
    ) -> Call: ...
    def undeploy(self, name: str, force: bool) -> Call: ...
    def subscribe(
        self,
        names: Sequence[str],
        contract: str,
        *,
        is_async: bool,
        only_changes: bool = False,
        own_suppressed: bool = False,
        max_age: float | None = None,
    ) -> Subscription: ...
    def subscribe_patterns(
        self,
        patterns: Sequence[str],
        excluded: Sequence[str],
        contract: str,
        is_async: bool,
        only_changes: bool,
        max_age: float | None,
    ) -> PatternSubscription: ...
    def close(self) -> None: ...

@final
class Cursor:
    """The place at which a page of the history ends."""

@final
class LocalEngine:
    """An engine in this process."""

    @staticmethod
    def start(
        name: str, store: str | None, history: str | None, listen: Sequence[str]
    ) -> LocalEngine: ...
    def connect(self) -> Connection: ...
    def deploy(self, name: str, rows: Sequence[tuple[str, str, dict[str, Any]]]) -> None: ...
    def publish(
        self, name: str, value: Any, ts_ns: int | None, quality: str
    ) -> tuple[str, int, int]: ...
    def addresses(self) -> list[str]: ...
    def stop(self) -> None: ...

# --- I/O servers ---

class Order:
    """What a client wants: a write, or a request for a fresh value."""

    number: int
    item: int
    is_write: bool
    value: Any

class Provider:
    """A running I/O server."""

    @staticmethod
    def start(
        url: str,
        program: str,
        name: str,
        items: Sequence[tuple[str, str]],
        rows: Sequence[tuple[str, str, dict[str, Any]]] | None,
        order_timeout: float,
        takes_requests: bool,
    ) -> Provider: ...
    def publish(self, item: int, value: Any, reason: str | None, ts_ns: int | None) -> None: ...
    def publish_many(self, items: Sequence[tuple[int, Any]], ts_ns: int | None) -> None: ...
    def fail(self, items: Sequence[int], reason: str) -> None: ...
    def last(self, item: int) -> tuple[Any] | None: ...
    def next_order(self, seconds: float) -> Order | None: ...
    def accept(self, order: Order, value: Any) -> None: ...
    def refuse(self, order: Order, reason: str) -> None: ...
    def unknown(self, order: Order, reason: str) -> None: ...
    def status(self) -> dict[str, Any]: ...
    def stop(self) -> None: ...

# --- streams ---

def stream_dtype(given: Any) -> dict[str, Any]:
    """Returns `data_type`, `dtype` and `size` of a type of elements."""

def create_writer(name: str, dtype: Any, options: dict[str, Any]) -> Call:
    """Begins to create a writer. The answer is a `StreamWriter`."""

def create_reader(name: str, dtype: Any, options: dict[str, Any]) -> Call:
    """Begins to create a reader. The answer is a `StreamReader`."""

def create_fan_out(
    name: str,
    dtype: Any,
    options: dict[str, Any],
    readers: int,
    readers_max: int,
    quota: int | None,
) -> Call:
    """Begins to create a writer with several readers. The answer is a `FanOutWriter`."""

def create_fan_in(
    name: str, dtype: Any, options: dict[str, Any], writers: int, writers_max: int
) -> Call:
    """Begins to create a reader with several writers. The answer is a `FanInReader`."""

@final
class StreamWriter:
    """The writer of a stream. Calls return `None` if they did not succeed in their time."""

    def write(self, array: NDArray[Any], seconds: float) -> bool | None: ...
    def write_one(self, element: Any, seconds: float) -> bool | None: ...
    def begin_write(self, array: NDArray[Any]) -> Call: ...
    def begin_write_one(self, element: Any) -> Call: ...
    def reserve(self, count: int, seconds: float) -> WriteLease | None: ...
    def begin_room(self, count: int) -> Call: ...
    def flush(self, stage: str, seconds: float) -> bool | None: ...
    def begin_flush(self, stage: str) -> Call: ...
    def begin_close(self, seconds: float | None) -> Call: ...
    def begin_abort(self, reason: str) -> Call: ...
    def begin_suspend(self) -> Call: ...
    @property
    def available(self) -> int: ...
    @property
    def has_journal(self) -> bool: ...
    @property
    def properties(self) -> dict[str, Any]: ...
    @property
    def dtype(self) -> Any: ...
    @property
    def name(self) -> str: ...
    @property
    def is_closed(self) -> bool: ...

@final
class StreamReader:
    """The reader of a stream. Calls return `None` if they did not succeed in their time."""

    def read(self, count: int, seconds: float) -> NDArray[Any] | None: ...
    def read_into(self, array: NDArray[Any], seconds: float) -> int | None: ...
    def read_available(self) -> NDArray[Any]: ...
    def acquire(self, count: int, seconds: float) -> ReadLease | None: ...
    def begin_ready(self, count: int) -> Call: ...
    def commit(self) -> None: ...
    def begin_close(self, destroys: bool) -> Call: ...
    @property
    def available(self) -> int: ...
    @property
    def lost(self) -> int: ...
    @property
    def properties(self) -> dict[str, Any]: ...
    @property
    def dtype(self) -> Any: ...
    @property
    def name(self) -> str: ...
    @property
    def is_closed(self) -> bool: ...

@final
class FanOutWriter:
    """A writer with several readers."""

    def write(self, array: NDArray[Any], seconds: float) -> bool | None: ...
    def begin_write(self, array: NDArray[Any]) -> Call: ...
    def flush(self, stage: str, seconds: float) -> bool | None: ...
    def begin_flush(self, stage: str) -> Call: ...
    def begin_close(self, seconds: float | None) -> Call: ...
    def begin_abort(self, reason: str) -> Call: ...
    def readers(self) -> list[tuple[int, str, str, bool, int, int]]: ...
    def departed(self) -> list[tuple[int, str, str, int, int, int, str | None]]: ...
    @property
    def available(self) -> int: ...
    @property
    def properties(self) -> dict[str, Any]: ...
    @property
    def dtype(self) -> Any: ...
    @property
    def name(self) -> str: ...
    @property
    def is_closed(self) -> bool: ...

@final
class FanInReader:
    """A reader with several writers."""

    def read_run(
        self, max: int, seconds: float
    ) -> tuple[int, str, str, NDArray[Any] | None, str | None, str | None] | None: ...
    def begin_read_run(self, max: int) -> Call: ...
    def begin_close(self) -> Call: ...
    def writers(self) -> list[tuple[int, str, str, bool, int, int]]: ...
    @property
    def available(self) -> int: ...
    @property
    def properties(self) -> dict[str, Any]: ...
    @property
    def dtype(self) -> Any: ...
    @property
    def name(self) -> str: ...
    @property
    def is_closed(self) -> bool: ...

@final
class ReadLease:
    """Elements in the memory of a reader."""

    def array(self) -> NDArray[Any]: ...
    def release(self, array: NDArray[Any]) -> None: ...

@final
class WriteLease:
    """Room in the memory of a writer."""

    def array(self) -> NDArray[Any]: ...
    def commit(self, array: NDArray[Any], count: int, seconds: float) -> bool: ...
    def release(self, array: NDArray[Any]) -> None: ...

# --- TDMS files ---

@final
class TdmsChannelInfo:
    """What is known of a channel without reading its values."""

    @property
    def group(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def count(self) -> int: ...
    @property
    def data_type(self) -> str: ...
    @property
    def raw_dtype(self) -> Any: ...
    @property
    def dtype(self) -> Any: ...
    @property
    def scale_error(self) -> str | None: ...
    @property
    def waveform(self) -> tuple[int | None, float, float] | None: ...

@final
class TdmsReader:
    """A TDMS file that is read piece by piece."""

    @staticmethod
    def open(path: str) -> TdmsReader: ...
    def refresh(self) -> None: ...
    def close(self) -> None: ...
    @property
    def is_closed(self) -> bool: ...
    def groups(self) -> list[str]: ...
    def channels(self) -> list[TdmsChannelInfo]: ...
    def properties(self, group: str | None = None, channel: str | None = None) -> dict[str, Any]: ...
    def read(
        self, group: str, channel: str, start: int, count: int, scaled: bool
    ) -> NDArray[Any]: ...
    def findings(self) -> list[str]: ...

@final
class TdmsFileWriter:
    """Writes a new TDMS file, segment by segment."""

    @staticmethod
    def create(path: str, replace: bool) -> TdmsFileWriter: ...
    def write(
        self, rows: list[tuple[str | None, str | None, dict[str, Any], Any]]
    ) -> int: ...
    def close(self) -> None: ...

# --- recorder ---

@final
class Recorder:
    """A recorder of variables into a TDMS file."""

    @property
    def status(self) -> dict[str, Any]: ...
    def stop(self) -> dict[str, Any]: ...
