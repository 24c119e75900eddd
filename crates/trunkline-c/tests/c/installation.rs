//! The library as it is installed: found by pkg-config and by CMake.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::compiler::{expect_success, library, root};

const PROGRAM: &str = "#include <trunkline.h>\n\
                       int main(void) { return tl_client_close(0) == TL_ERROR_NULL ? 0 : 1; }\n";

/// Installs the library of this build in a new folder.
fn install(prefix: &Path) {
    let mut command = Command::new(root().join("packaging/c/install"));
    command
        .arg("--prefix")
        .arg(prefix)
        .arg("--library")
        .arg(library());
    expect_success(&mut command);
}

fn is_missing(tool: &str) -> bool {
    let is_missing = Command::new(tool).arg("--version").output().is_err();
    if is_missing {
        println!("skipped, because {tool} is not installed");
    }
    is_missing
}

#[test]
fn pkg_config_finds_the_installed_library() {
    let folder = tempfile::tempdir().unwrap();
    install(folder.path());
    if is_missing("pkg-config") {
        return;
    }
    let flags = |option: &str| -> Vec<String> {
        let mut command = Command::new("pkg-config");
        command.env("PKG_CONFIG_PATH", folder.path().join("lib/pkgconfig"));
        let printed = expect_success(command.args([option, "trunkline"]));
        printed.split_whitespace().map(str::to_owned).collect()
    };
    let source = folder.path().join("program.c");
    fs::write(&source, PROGRAM).unwrap();
    let program = folder.path().join("program");
    let mut compile = Command::new("cc");
    compile
        .arg("-o")
        .arg(&program)
        .args(flags("--cflags"))
        .arg(&source)
        .args(flags("--libs"));
    expect_success(&mut compile);
    // At run time, the program needs the name with the number.
    fs::remove_file(folder.path().join("lib/libtrunkline.so")).unwrap();
    let mut run = Command::new(&program);
    expect_success(run.env("LD_LIBRARY_PATH", folder.path().join("lib")));
    assert_eq!(flags("--modversion"), [env!("CARGO_PKG_VERSION")]);
}

#[test]
fn cmake_finds_the_installed_library() {
    if is_missing("cmake") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let prefix = folder.path().join("installed");
    install(&prefix);
    let project = folder.path().join("project");
    fs::create_dir(&project).unwrap();
    fs::write(project.join("program.c"), PROGRAM).unwrap();
    fs::write(
        project.join("CMakeLists.txt"),
        "cmake_minimum_required(VERSION 3.16)\nproject(program C)\n\
         find_package(trunkline 0.1 REQUIRED)\nadd_executable(program program.c)\n\
         target_link_libraries(program trunkline::trunkline)\n",
    )
    .unwrap();
    let build = folder.path().join("build");
    let mut configure = Command::new("cmake");
    configure.arg("-S").arg(&project).arg("-B").arg(&build);
    configure.arg(format!("-DCMAKE_PREFIX_PATH={}", prefix.display()));
    expect_success(&mut configure);
    expect_success(Command::new("cmake").arg("--build").arg(&build));
    expect_success(&mut Command::new(build.join("program")));
}

#[test]
fn library_has_a_versioned_name_and_exports_only_its_functions() {
    if is_missing("readelf") || is_missing("nm") {
        return;
    }
    let dynamic = expect_success(Command::new("readelf").arg("-d").arg(library()));
    assert!(dynamic.contains("libtrunkline.so.0"), "{dynamic}");
    let symbols = expect_success(
        Command::new("nm")
            .args(["-D", "--defined-only"])
            .arg(library()),
    );
    let foreign: Vec<&str> = symbols
        .lines()
        .filter_map(|line| line.split_whitespace().last())
        .filter(|name| !name.starts_with("tl_"))
        .collect();
    assert!(foreign.is_empty(), "{foreign:?}");
}
