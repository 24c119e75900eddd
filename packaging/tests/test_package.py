"""Tests of the Debian package: of its scripts always, of its content if `make deb` has built it."""

import gzip
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import files

SCRIPTS = ("postinst", "prerm", "postrm")
PACKAGE = files.package()


def field(name):
    return subprocess.run(["dpkg-deb", "--field", PACKAGE, name], capture_output=True, text=True).stdout.strip()


class Scripts(unittest.TestCase):
    def test_maintainer_scripts_are_valid_and_stop_at_errors(self):
        for name in SCRIPTS:
            path = files.ROOT / "packaging/deb" / name
            self.assertEqual(subprocess.run(["sh", "-n", path]).returncode, 0, name)
            self.assertEqual(path.read_text().splitlines()[:2], ["#!/bin/sh", "set -e"], name)

    def test_an_installation_does_not_start_the_engine(self):
        script = (files.ROOT / "packaging/deb/postinst").read_text()
        commands = [line for line in script.splitlines() if "echo" not in line]
        for line in commands:
            self.assertIsNone(re.search(r"systemctl.* (re)?start|deb-systemd-invoke", line), line)

    def test_scripts_leave_the_running_system_alone_in_another_root(self):
        for name in SCRIPTS:
            for line in (files.ROOT / "packaging/deb" / name).read_text().splitlines():
                if "/run/systemd/system" in line:
                    self.assertIn('-z "$DPKG_ROOT"', line, name)

    def test_no_script_removes_data(self):
        for name in SCRIPTS:
            self.assertNotIn("rm ", (files.ROOT / "packaging/deb" / name).read_text(), name)

    def test_the_user_of_the_service_is_created(self):
        lines = (files.ROOT / "packaging/deb/sysusers.conf").read_text().splitlines()
        users = [line.split()[:2] for line in lines if line and not line.startswith("#")]
        self.assertEqual(users, [["u", dict(files.settings(files.UNIT.read_text()))["Service.User"]]])


@unittest.skipIf(PACKAGE is None or shutil.which("dpkg-deb") is None, "no package is built: `make deb`")
class Content(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        data = subprocess.run(["dpkg-deb", "--fsys-tarfile", PACKAGE], capture_output=True, check=True).stdout
        cls.folder = tempfile.TemporaryDirectory()
        cls.root = pathlib.Path(cls.folder.name)
        archive = cls.root / "data.tar"
        archive.write_bytes(data)
        with tarfile.open(archive) as tar:
            cls.members = {member.name.removeprefix("./"): member for member in tar}
        archive.unlink()
        subprocess.run(["dpkg-deb", "--raw-extract", PACKAGE, cls.root / "extracted"], check=True)
        cls.extracted = cls.root / "extracted"

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def run_program(self, *arguments):
        return subprocess.run([self.extracted / "usr/bin/trunkline", *arguments], capture_output=True, text=True)

    def test_version_is_that_of_the_workspace(self):
        workspace = tomllib.loads((files.ROOT / "Cargo.toml").read_text())["workspace"]
        version = workspace["package"]["version"]
        self.assertEqual(field("Version"), f"{version}-1")
        printed = self.run_program("--version")
        self.assertEqual((printed.returncode, printed.stdout.strip()), (0, f"trunkline {version}"))

    def test_files_belong_to_root_and_nobody_else_can_write_them(self):
        for name, member in self.members.items():
            self.assertEqual((member.uid, member.gid), (0, 0), name)
            if not member.issym():
                self.assertEqual(member.mode & 0o7022, 0, f"{name} {member.mode:o}")

    def test_program_has_both_names(self):
        self.assertEqual(self.members["usr/bin/trunkline"].mode, 0o755)
        self.assertEqual(self.members["usr/bin/tl"].linkname, "trunkline")

    def test_every_command_has_its_manual_page(self):
        help_ = json.loads(self.run_program("help", "--json").stdout)
        names = ["tl", "trunkline"]
        for command in help_["commands"]:
            names.append(f"trunkline-{command['name']}")
            names += [f"{names[-1]}-{verb['name']}" for verb in command.get("commands", [])]
        expected = {f"usr/share/man/man1/{name}.1.gz" for name in names}
        self.assertEqual({name for name in self.members if name.endswith(".1.gz")}, expected)
        page = gzip.decompress((self.extracted / "usr/share/man/man1/trunkline-get.1.gz").read_bytes())
        self.assertIn(b".TH trunkline-get 1 ", page)

    def test_shells_find_the_completions_of_both_names(self):
        for name in ("trunkline", "tl"):
            self.assertIn(f"usr/share/bash-completion/completions/{name}", self.members)
            zsh = self.extracted / f"usr/share/zsh/vendor-completions/_{name}"
            self.assertEqual(zsh.read_text().splitlines()[0], f"#compdef {name}")
            fish = self.extracted / f"usr/share/fish/vendor_completions.d/{name}.fish"
            self.assertIn(f"complete -c {name} ", fish.read_text())

    def test_service_and_user_are_those_of_the_source(self):
        for place, source in [
            ("usr/lib/systemd/system/trunkline.service", files.UNIT),
            ("usr/lib/sysusers.d/trunkline.conf", files.ROOT / "packaging/deb/sysusers.conf"),
            ("etc/trunkline/trunkline.toml", files.CONFIGURATION),
            (
                "usr/share/doc/trunkline/examples/trunkline.socket",
                files.ROOT / "packaging/systemd/trunkline.socket",
            ),
        ]:
            self.assertEqual((self.extracted / place).read_bytes(), source.read_bytes(), place)

    def test_configuration_is_kept_on_updates(self):
        conffiles = (self.extracted / "DEBIAN/conffiles").read_text()
        self.assertEqual(conffiles, "/etc/trunkline/trunkline.toml\n")

    def test_checksums_are_those_of_the_files(self):
        listed = {}
        for line in (self.extracted / "DEBIAN/md5sums").read_text().splitlines():
            checksum, name = line.split("  ", 1)
            listed[name] = checksum
            content = (self.extracted / name).read_bytes()
            self.assertEqual(hashlib.md5(content).hexdigest(), checksum, name)
        self.assertEqual(set(listed), {name for name, member in self.members.items() if member.isfile()})

    def test_libraries_that_the_program_needs_are_declared(self):
        needed = subprocess.run(
            ["objdump", "-p", self.extracted / "usr/bin/trunkline"], capture_output=True, text=True
        ).stdout
        self.assertNotRegex(needed, r"NEEDED +lib(ssl|crypto)")
        self.assertRegex(field("Depends"), r"\blibc6 \(>= ")

    @unittest.skipUnless(os.geteuid() == 0, "dpkg needs root")
    @unittest.skipUnless(shutil.which("systemd-sysusers") and shutil.which("deb-systemd-helper"), "systemd is missing")
    def test_package_is_installed_updated_and_purged(self):
        """In a root of its own. Behaviour DP-08: the service is enabled."""
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for name in ("info", "updates", "triggers"):
                (root / "var/lib/dpkg" / name).mkdir(parents=True)
            (root / "var/lib/dpkg/status").touch()
            (root / "etc").mkdir()

            def dpkg(*arguments):
                options = [f"--root={folder}", "--force-script-chrootless", "--force-depends", "--force-confold"]
                return subprocess.run(["dpkg", *options, *arguments], capture_output=True, text=True, check=True)

            dpkg("--install", PACKAGE)
            user = (root / "etc/passwd").read_text().split(":")
            self.assertEqual((user[0], user[-1].strip()), ("trunkline", "/usr/sbin/nologin"))
            link = root / "etc/systemd/system/multi-user.target.wants/trunkline.service"
            self.assertTrue(link.is_symlink())
            configuration = root / "etc/trunkline/trunkline.toml"
            configuration.write_text("# mine\n")
            data = root / "var/lib/trunkline/engine-5850.db"
            data.parent.mkdir()
            data.touch()
            link.unlink()
            dpkg("--install", PACKAGE)
            self.assertEqual(configuration.read_text(), "# mine\n")
            self.assertFalse(link.is_symlink(), "an update enabled a service that was disabled")
            purged = dpkg("--purge", "trunkline")
            self.assertIn("/var/lib/trunkline has the data", purged.stdout)
            self.assertTrue(data.exists())
            self.assertFalse(configuration.exists())
            self.assertFalse((root / "usr/bin/trunkline").exists())

    def test_bill_of_materials_is_complete(self):
        document = json.loads((self.extracted / "usr/share/doc/trunkline/sbom.cdx.json").read_text())
        program = document["metadata"]["component"]
        described = {(c["name"], c["version"]) for c in [program, *document["components"]]}
        locked = tomllib.loads((files.ROOT / "Cargo.lock").read_text())["package"]
        self.assertEqual(described, {(package["name"], package["version"]) for package in locked})


if __name__ == "__main__":
    unittest.main()
