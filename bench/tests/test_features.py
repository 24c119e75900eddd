"""The tests of this workspace use the dependencies that the tests of the main workspace have compiled."""

import pathlib
import subprocess
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def dependencies(manifest):
    """The dependencies from registries, as a name with its version, each with its sets of features."""
    command = ["cargo", "tree", "--workspace", "--prefix", "none", "--format", "{p}|{f}|", "--manifest-path", manifest]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    found = {}
    for line in filter(None, lines):
        package, features, _ = line.split("|")
        if "/" not in package:
            found.setdefault(package, set()).add(features)
    return found


class Features(unittest.TestCase):
    maxDiff = None

    def test_common_dependencies_have_the_version_and_features_of_the_main_workspace(self):
        own = dependencies(ROOT / "bench/Cargo.toml")
        main = dependencies(ROOT / "Cargo.toml")
        names = {package.split()[0] for package in main}
        different = {
            package: {"bench": sorted(features), "main": sorted(main.get(package, []))}
            for package, features in own.items()
            if package.split()[0] in names and not features <= main.get(package, set())
        }
        self.assertEqual(different, {}, "change [dev-dependencies] of bench/Cargo.toml, or its lock file")


if __name__ == "__main__":
    unittest.main()
