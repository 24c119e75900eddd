"""Tests of packaging/container/Containerfile, as far as they need no container runtime."""

import json
import pathlib
import re
import subprocess
import sys
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import files

RECIPE = files.ROOT / "packaging/container/Containerfile"
PROGRAM = files.program()
# No engine listens here.
NOWHERE = "tl://127.0.0.1:1"


def instructions():
    """The instructions of the last stage, as pairs of name and arguments."""
    text = re.sub(r"\\\n\s*", "", RECIPE.read_text())
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    last = max(at for at, line in enumerate(lines) if line.startswith("FROM "))
    return [tuple(line.split(" ", 1)) for line in lines[last:]]


class Container(unittest.TestCase):
    found = instructions()

    def argument(self, name):
        values = [arguments for instruction, arguments in self.found if instruction == name]
        self.assertEqual(len(values), 1, name)
        return values[0]

    def test_image_has_the_program_only_and_a_user_without_privileges(self):
        self.assertEqual(self.argument("FROM"), "scratch")
        user, group = self.argument("USER").split(":")
        self.assertGreater(int(user), 0)
        self.assertGreater(int(group), 0)
        self.assertNotIn("RUN", dict(self.found))

    def test_data_and_configuration_are_volumes(self):
        volumes = json.loads(self.argument("VOLUME"))
        environment = dict(pair.split("=") for pair in self.argument("ENV").split())
        self.assertLessEqual({"/etc/trunkline", environment["STATE_DIRECTORY"]}, set(volumes))

    def test_rust_version_is_that_of_the_workspace(self):
        wanted = re.search(r'rust-version = "([0-9.]+)"', (files.ROOT / "Cargo.toml").read_text())[1]
        self.assertIn(f"library/rust:{wanted}-", RECIPE.read_text())

    @unittest.skipIf(PROGRAM is None, "the program is not built")
    def test_program_accepts_the_commands_of_the_image(self):
        check = json.loads(self.argument("HEALTHCHECK").split("CMD ", 1)[1])
        self.assertEqual(check[0], "/usr/bin/trunkline")
        done = subprocess.run([PROGRAM, *check[1:], "--url", NOWHERE], capture_output=True, text=True)
        # 3: there is no engine; 2 would be a wrong command.
        self.assertEqual(done.returncode, 3, done.stderr)
        serve = [*json.loads(self.argument("CMD")), "--help"]
        self.assertEqual(subprocess.run([PROGRAM, *serve], capture_output=True).returncode, 0)


if __name__ == "__main__":
    unittest.main()
