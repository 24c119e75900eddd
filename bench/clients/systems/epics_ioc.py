"""The soft input/output controller of epicscorelibs, which serves Channel Access and pvAccess."""

import os
import sys
import tempfile

from common import await_line, free_port, server


def local_only() -> dict[str, str]:
    """The environment of servers and clients that find each other on this machine, at ports of their own."""
    local = {
        "EPICS_CA_ADDR_LIST": "127.0.0.1", "EPICS_CA_AUTO_ADDR_LIST": "NO", "EPICS_CA_SERVER_PORT": str(free_port()),
        "EPICS_CA_REPEATER_PORT": str(free_port()), "EPICS_CAS_INTF_ADDR_LIST": "127.0.0.1",
        "EPICS_CAS_BEACON_ADDR_LIST": "127.0.0.1", "EPICS_PVA_ADDR_LIST": "127.0.0.1",
        "EPICS_PVA_AUTO_ADDR_LIST": "NO", "EPICS_PVA_BROADCAST_PORT": str(free_port()),
        "EPICS_PVA_SERVER_PORT": str(free_port()), "EPICS_PVAS_INTF_ADDR_LIST": "127.0.0.1",
        "EPICS_PVAS_BEACON_ADDR_LIST": "127.0.0.1",
    }
    local["EPICS_PVAS_BROADCAST_PORT"] = local["EPICS_PVA_BROADCAST_PORT"]
    local["EPICS_PVAS_SERVER_PORT"] = local["EPICS_PVA_SERVER_PORT"]
    os.environ.update(local)
    return local


def started(stack, count: int) -> None:
    """Starts a controller with the records `bench:v0`, `bench:v1`, ..."""
    local = local_only()
    file = stack.enter_context(tempfile.NamedTemporaryFile("w", suffix=".db"))
    for number in range(count):
        file.write(f'record(ao, "bench:v{number}") {{ field(VAL, "0") field(PINI, "YES") }}\n')
    file.flush()
    process = stack.enter_context(server([sys.executable, "-m", "epicscorelibs.ioc", "-d", file.name], **local))
    await_line(process, "iocRun: All initialization complete")
