"""Tests of Cargo.lock against deny.toml, as far as they need neither cargo-deny nor a network."""

import collections
import pathlib
import sys
import tomllib
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import files

CRATES_IO = "registry+https://github.com/rust-lang/crates.io-index"


def problems(packages, rules):
    """What the packages of a lock file break of the rules of deny.toml."""
    versions = collections.defaultdict(set)
    for package in packages:
        versions[package["name"]].add(package["version"])
    found = []
    for rule in rules["bans"]["deny"]:
        name = rule["crate"]
        if rule.get("deny-multiple-versions"):
            if len(versions[name]) > 1:
                found.append(f"{name} in {len(versions[name])} versions")
        elif versions[name]:
            found.append(f"{name} is banned")
    return found


class Dependencies(unittest.TestCase):
    packages = tomllib.loads((files.ROOT / "Cargo.lock").read_text())["package"]
    rules = tomllib.loads((files.ROOT / "deny.toml").read_text())

    def test_one_library_for_cryptography(self):
        banned = {rule["crate"] for rule in self.rules["bans"]["deny"]}
        self.assertLessEqual({"openssl", "native-tls", "aws-lc-rs", "rustls", "ring"}, banned)
        self.assertEqual(problems(self.packages, self.rules), [])

    def test_a_banned_package_and_a_second_version_are_found(self):
        planted = [
            {"name": "openssl-sys", "version": "0.9.1"},
            {"name": "rustls", "version": "0.22.4"},
            {"name": "rustls", "version": "0.23.9"},
        ]
        expected = ["openssl-sys is banned", "rustls in 2 versions"]
        self.assertEqual(problems(planted, self.rules), expected)

    def test_packages_come_from_one_registry(self):
        for package in self.packages:
            if "source" in package:
                self.assertEqual(package["source"], CRATES_IO, package["name"])
                self.assertEqual(len(package["checksum"]), 64, package["name"])
            else:
                # A crate of this repository.
                self.assertTrue(package["name"].startswith(("trunkline", "xtask")), package["name"])

    def test_an_exception_for_an_advisory_has_a_reason(self):
        for exception in self.rules["advisories"]["ignore"]:
            self.assertTrue(exception["reason"], exception)


if __name__ == "__main__":
    unittest.main()
