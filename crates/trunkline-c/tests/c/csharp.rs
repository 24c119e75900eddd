//! The C# bindings, compiled and run by Mono.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::compiler::{Installed, expect_success, root};

/// The bindings as a library of .NET, beside the library of this build.
pub(crate) struct Bindings {
    pub(crate) installed: Installed,
    assembly: PathBuf,
}

impl Bindings {
    /// Compiles the bindings. Prints what is skipped, and returns `None`, without Mono.
    pub(crate) fn new(what: &str) -> Option<Self> {
        let is_missing = |tool: &str| Command::new(tool).arg("--version").output().is_err();
        if is_missing("mcs") || is_missing("mono") {
            println!("skipped, because mono-mcs and mono-runtime are not installed: {what}");
            return None;
        }
        let installed = Installed::new();
        let assembly = installed.path().join("Trunkline.dll");
        let mut compile = Command::new("mcs");
        compile
            .args(["-warnaserror", "-unsafe", "-target:library"])
            .arg(format!("-out:{}", assembly.display()));
        expect_success(compile.arg(root().join("bindings/csharp/Trunkline.cs")));
        Some(Self {
            installed,
            assembly,
        })
    }

    /// Compiles a program, and returns a command that runs it.
    pub(crate) fn program(&self, source: &Path) -> Command {
        let name = source.file_stem().unwrap().to_str().unwrap();
        let program = self.installed.path().join(format!("{name}.exe"));
        let mut compile = Command::new("mcs");
        compile
            .arg("-warnaserror")
            .arg(format!("-out:{}", program.display()))
            .arg(format!("-reference:{}", self.assembly.display()));
        expect_success(compile.arg(source));
        let mut command = self.installed.command(Path::new("mono"));
        command.arg(program);
        command
    }
}

/// Every function of the header is declared with the types of the header. `tl_subscribe_callback` is not:
/// a thread of the library must not run code of .NET, and no task needs it.
#[test]
fn csharp_declares_the_functions_of_the_header() {
    let header = std::fs::read_to_string(root().join("crates/trunkline-c/include/trunkline.h"));
    let bindings = std::fs::read_to_string(root().join("bindings/csharp/Trunkline.cs")).unwrap();
    let header = header.unwrap();
    let lines = header
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"));
    let code: Vec<&str> = lines.map(str::trim).collect();
    let code = code.join(" ");
    let handles: Vec<&str> = code
        .split("typedef uint64_t ")
        .skip(1)
        .filter_map(|rest| rest.split(';').next())
        .collect();
    let mut count = 0;
    for declared in code.split("tl_status tl_").skip(1) {
        let declared = declared.split(");").next().unwrap();
        let (name, parameters) = declared.split_once('(').unwrap();
        if name == "subscribe_callback" {
            continue;
        }
        let parameters = parameters
            .split(", ")
            .filter(|parameter| *parameter != "void");
        let types: Vec<String> = parameters
            .map(|parameter| type_of(parameter, &handles))
            .collect();
        let start = format!("internal static extern int tl_{name}(");
        let here = bindings.split(&start).nth(1);
        let here = here.unwrap_or_else(|| panic!("tl_{name} is not declared in Trunkline.cs"));
        let given = here.split(");").next().unwrap().split(", ");
        let given: Vec<&str> = given
            .filter_map(|parameter| Some(parameter.rsplit_once(' ')?.0))
            .collect();
        assert_eq!(given, types, "the parameters of tl_{name} in Trunkline.cs");
        count += 1;
    }
    assert!(count > 140, "{count}");
}

/// Returns the type of C# for a parameter of C. A struct has the name of C without underscores.
fn type_of(parameter: &str, handles: &[&str]) -> String {
    let stars = parameter.matches('*').count();
    let words = parameter.replace(['*'], " ");
    let mut words = words
        .split_whitespace()
        .filter(|word| !["const", "struct"].contains(word));
    let name = words.next().unwrap();
    let plain = match name {
        "int32_t" | "tl_status" | "tl_type" => "int".to_owned(),
        "uint32_t" => "uint".to_owned(),
        "int64_t" => "long".to_owned(),
        "uint64_t" => "ulong".to_owned(),
        "uint16_t" => "ushort".to_owned(),
        "size_t" => "UIntPtr".to_owned(),
        "char" | "uint8_t" => "byte".to_owned(),
        "double" | "void" => name.to_owned(),
        handle if handles.contains(&handle) => "ulong".to_owned(),
        structure => {
            let parts = structure.strip_prefix("tl_").unwrap().split('_');
            parts
                .map(|part| part[..1].to_uppercase() + &part[1..])
                .collect()
        }
    };
    plain + &"*".repeat(stars)
}
