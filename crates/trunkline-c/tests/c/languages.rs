//! The headers compile in every language that they promise, without warnings.

use std::fs;

use crate::compiler::{Installed, expect_success, root};

#[test]
fn header_compiles_as_every_standard() {
    let installed = Installed::new();
    for standard in ["c99", "c11", "c17", "c++11", "c++17", "c++20"] {
        let extension = if standard.starts_with("c++") {
            "cpp"
        } else {
            "c"
        };
        let source = installed.path().join(format!("only.{extension}"));
        let text = "#include <trunkline.h>\n#include <trunkline.h>\n\
                    int main(void) { return (int)tl_last_error(); }\n";
        fs::write(&source, text).unwrap();
        let program = installed.compile(&source, standard, &[]);
        expect_success(&mut installed.command(&program));
    }
}

#[test]
fn cpp_wrapper_works_with_and_without_exceptions() {
    let installed = Installed::new();
    let source = root().join("crates/trunkline-c/tests/c/wrapper.cpp");
    for more in [&["-fno-exceptions"][..], &["-DTRUNKLINE_EXCEPTIONS"][..]] {
        let program = installed.compile(&source, "c++17", more);
        expect_success(&mut installed.command(&program));
    }
}
