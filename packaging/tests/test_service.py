"""Tests of packaging/systemd/trunkline.service."""

import ipaddress
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import files

# The rating of systemd-analyze: 0 is best, 10 is worst.
EXPOSURE_MAX = 2.0

# Uses what an engine has: a store, the audit trail, a history, retained values, alarms, and I/O servers.
PLANT = """
[engine]
listen = ["127.0.0.1:0"]
store = "store.db"
history = "history"

[library]
name = "plant"

[[variable]]
name = "level"
type = "f64"
initial = 1.0
retain = true
audit = "complete"
alarm = { hi = 80 }

[[io]]
name = "host"
driver = "host"
publish = true

[[io]]
name = "boiler"
driver = "sim"
publish = true

[[history]]
variables = "**"
"""

HAS_SYSTEMD = shutil.which("systemd-analyze") is not None
PROGRAM = files.program()


def analyze(*arguments):
    return subprocess.run(["systemd-analyze", *arguments], capture_output=True, text=True)


def exposure(unit):
    """The rating of the text of a unit."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "trunkline.service")
        path.write_text(unit)
        printed = analyze("security", "--offline=true", "--no-pager", str(path)).stdout
    return float(re.search(r"Overall exposure level for \S+: ([0-9.]+)", printed)[1])


def system_calls_of(groups):
    """The system calls of groups such as @aio, with those of the groups that they contain."""
    found, open_groups = set(), list(groups)
    while open_groups:
        for line in analyze("syscall-filter", "--no-pager", open_groups.pop()).stdout.splitlines()[1:]:
            word = line.strip()
            if word.startswith("@"):
                open_groups.append(word)
            elif word and not word.startswith("#"):
                found.add(word)
    return found


def permitted_system_calls(unit):
    """The system calls that the filter of a unit permits."""
    permitted = set()
    for key, value in files.settings(unit):
        if key == "Service.SystemCallFilter":
            calls = system_calls_of(value.removeprefix("~").split())
            permitted = permitted - calls if value.startswith("~") else permitted | calls
    return permitted


class Engine:
    """An engine that runs in a folder of its own, perhaps below another command."""

    def __init__(self, folder, configuration, *before):
        self.folder = folder
        state = pathlib.Path(folder, "state")
        state.mkdir(mode=0o700)
        environment = {"PATH": "/usr/bin:/bin", "STATE_DIRECTORY": str(state), "TMPDIR": folder}
        self.process = subprocess.Popen(
            [*before, PROGRAM, "--json", "serve", configuration],
            cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        line = self.process.stdout.readline()
        self.serving = json.loads(line) if line else None

    def client(self, *arguments):
        url = self.serving["listen"][0]
        command = [PROGRAM, "--url", url, "--timeout", "30s", *arguments]
        return subprocess.run(command, capture_output=True, text=True)

    def stop(self):
        self.process.kill()
        self.process.communicate()


def listeners(process):
    """The TCP addresses at which a process listens, as the kernel lists them."""
    links = [os.readlink(path) for path in pathlib.Path(f"/proc/{process}/fd").iterdir()]
    inodes = {link[len("socket:["):-1] for link in links if link.startswith("socket:[")}
    found = set()
    for table in ("tcp", "tcp6"):
        for line in pathlib.Path(f"/proc/{process}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            # State 0A is LISTEN.
            if fields[3] == "0A" and fields[9] in inodes:
                found.add(address(fields[1]))
    return found


def address(text):
    """`0100007F:16DA` of /proc/net/tcp as 127.0.0.1:5850. Each group of four bytes is one number."""
    host, port = text.split(":")
    groups = [bytes.fromhex(host[at:at + 8])[::-1] for at in range(0, len(host), 8)]
    return f"{ipaddress.ip_address(b''.join(groups))}:{int(port, 16)}"


class Service(unittest.TestCase):
    unit = files.UNIT.read_text()

    def engine(self, *arguments):
        engine = Engine(*arguments)
        self.addCleanup(engine.stop)
        return engine

    @unittest.skipUnless(HAS_SYSTEMD, "systemd-analyze is missing")
    def test_exposure_is_low(self):
        self.assertLessEqual(exposure(self.unit), EXPOSURE_MAX)

    @unittest.skipUnless(HAS_SYSTEMD, "systemd-analyze is missing")
    def test_exposure_is_high_without_the_settings(self):
        bare = "[Service]\nType=notify\nExecStart=/usr/bin/trunkline serve /etc/trunkline\n"
        self.assertGreater(exposure(bare), EXPOSURE_MAX)

    @unittest.skipUnless(HAS_SYSTEMD, "systemd-analyze is missing")
    def test_systemd_accepts_every_setting(self):
        # The program is at its place only where the package is installed.
        unit = re.sub(r"(?m)^ExecStart=\S+", "ExecStart=/bin/true", self.unit)
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "trunkline.service")
            path.write_text(unit)
            verified = analyze("verify", "--man=no", str(path))
        self.assertEqual((verified.returncode, verified.stderr), (0, ""))

    def test_engine_starts_with_the_system_and_after_failures(self):
        """Behaviour DP-08."""
        found = dict(files.settings(self.unit))
        self.assertEqual(found["Install.WantedBy"], "multi-user.target")
        self.assertEqual(found["Service.Restart"], "on-failure")
        self.assertEqual(found["Unit.StartLimitIntervalSec"], "0")

    def test_socket_unit_passes_sockets_that_the_program_accepts(self):
        """The names, and the kinds: see the tests of socket activation of the program."""
        unit = (files.ROOT / "packaging/systemd/trunkline.socket").read_text()
        found = files.settings(unit)
        settings = dict(found)
        self.assertEqual(settings["Socket.FileDescriptorName"], "listen")
        self.assertNotIn("Socket.Accept", settings)
        self.assertEqual(settings["Socket.SocketUser"], dict(files.settings(self.unit))["Service.User"])
        self.assertEqual(settings["Socket.SocketMode"], "0600")
        self.assertEqual(settings["Install.WantedBy"], "sockets.target")
        addresses = [value for key, value in found if key.startswith("Socket.Listen")]
        for listening in addresses:
            if listening.startswith("/"):
                self.assertTrue(listening.endswith(".sock"), listening)
                # systemd removes this folder when the service stops.
                self.assertFalse(listening.startswith("/run/trunkline/"), listening)
            else:
                host = listening.rpartition(":")[0].strip("[]")
                self.assertTrue(ipaddress.ip_address(host).is_loopback, listening)
        self.assertEqual(len(addresses), 2)

    @unittest.skipUnless(HAS_SYSTEMD, "systemd-analyze is missing")
    def test_systemd_accepts_every_setting_of_the_socket(self):
        unit = re.sub(r"(?m)^ExecStart=\S+", "ExecStart=/bin/true", self.unit)
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "trunkline.service").write_text(unit)
            path = pathlib.Path(folder, "trunkline.socket")
            path.write_text((files.ROOT / "packaging/systemd/trunkline.socket").read_text())
            verified = analyze("verify", "--man=no", str(path))
        self.assertEqual((verified.returncode, verified.stderr), (0, ""))

    def test_reload_sends_the_signal_that_the_program_handles(self):
        found = dict(files.settings(self.unit))
        self.assertEqual(found["Service.ExecReload"], "/bin/kill -HUP $MAINPID")
        sources = (files.ROOT / "crates").glob("*/src/**/*.rs")
        self.assertTrue(any("Signals::new([SIGHUP])" in path.read_text() for path in sources))

    def test_user_has_no_privileges(self):
        found = dict(files.settings(self.unit))
        self.assertEqual(found["Service.User"], "trunkline")
        self.assertEqual(found["Service.CapabilityBoundingSet"], "")
        self.assertEqual(found["Service.AmbientCapabilities"], "")
        self.assertEqual(found["Service.NoNewPrivileges"], "yes")

    def test_no_memory_dump_is_written(self):
        self.assertEqual(dict(files.settings(self.unit))["Service.LimitCORE"], "0")

    def test_users_of_clients_can_be_told_apart(self):
        """In a user namespace, the engine would see all other users as one."""
        self.assertEqual(dict(files.settings(self.unit))["Service.PrivateUsers"], "no")

    def test_service_waits_for_what_the_program_sends(self):
        """A unit of type `notify` never counts as started if its program sends no notification."""
        kind = dict(files.settings(self.unit))["Service.Type"]
        sources = (files.ROOT / "crates").glob("*/src/**/*.rs")
        notifies = any("NOTIFY_SOCKET" in path.read_text() for path in sources)
        self.assertEqual(kind, "notify" if notifies else "exec")

    @unittest.skipIf(PROGRAM is None, "the program is not built")
    def test_default_configuration_listens_on_loopback_only(self):
        with tempfile.TemporaryDirectory() as folder:
            engine = self.engine(folder, str(files.CONFIGURATION))
            if engine.serving is None:
                # Another engine has the port. Then the address that could not be had is the default.
                self.assertIn("127.0.0.1:5850", engine.process.stderr.read())
                return
            listening = listeners(engine.process.pid)
        self.assertEqual(listening, {"127.0.0.1:5850"})

    @unittest.skipIf(PROGRAM is None, "the program is not built")
    @unittest.skipUnless(HAS_SYSTEMD and shutil.which("strace"), "systemd-analyze or strace is missing")
    def test_engine_makes_no_forbidden_system_call(self):
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "plant.toml").write_text(PLANT)
            trace = pathlib.Path(folder, "trace")
            engine = self.engine(folder, "plant.toml", "strace", "-f", "-qq", "-e", "signal=none", "-o", str(trace))
            if engine.serving is None:
                said = engine.process.stderr.read()
                self.assertIn("ptrace", said)
                self.skipTest(f"strace cannot trace here: {said}")
            for arguments in [
                ("put", "plant/level", "90"), ("get", "plant/level"), ("alarm", "ls"),
                ("monitor", "host/cpu/total", "--until", "quality = good"),
                ("monitor", "boiler/level", "--count", "20"), ("history", "boiler/level", "--since", "1m"),
                ("audit", "plant"), ("info", "plant/level"), ("ls",),
            ]:
                done = engine.client(*arguments)
                self.assertEqual(done.returncode, 0, f"{arguments}: {done.stderr}")
            # SIGTERM goes to the engine, not to strace.
            os.kill(int(trace.read_text().split(" ", 1)[0]), signal.SIGTERM)
            engine.process.wait()
            made = {call for call in re.findall(r"(?m)^\d+ +([a-z0-9_]+)\(", trace.read_text())}
        # The service manager makes this call before the filter applies.
        made.discard("execve")
        # SQLite calls it only if it runs as root, which the service does not.
        if os.geteuid() == 0:
            made.discard("fchown")
        self.assertGreater(len(made), 30, made)
        self.assertEqual(made - permitted_system_calls(self.unit), set())


if __name__ == "__main__":
    unittest.main()
