//! Tests which files of a directory are read, and in which order.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

use std::fs;
use std::path::PathBuf;

use tempfile::TempDir;
use trunkline_config::{DeploymentPlan, load};

/// Creates a directory with these files.
fn directory(files: &[(&str, &str)]) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = directory.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    directory
}

/// Returns the messages of loading a directory, without its path.
fn errors(directory: &TempDir) -> String {
    let errors = load(&[directory.path().to_owned()])
        .unwrap_err()
        .to_string();
    errors.replace(&format!("{}/", directory.path().display()), "")
}

fn names(plan: &DeploymentPlan) -> Vec<&str> {
    plan.libraries
        .iter()
        .map(|library| library.name.as_str())
        .collect()
}

const VARIABLE: &str = "[[variable]]\nname = \"x\"\ntype = \"f64\"\n";

#[test]
fn directory_is_read_in_the_order_of_names_and_not_below() {
    let sut = directory(&[
        ("20-b.toml", VARIABLE),
        ("10-a.toml", VARIABLE),
        ("notes.txt", "not = TOML = at all"),
        ("old/c.toml", VARIABLE),
        ("30-d.toml.bak", VARIABLE),
    ]);
    let plan = load(&[sut.path().to_owned()]).unwrap();
    assert_eq!(names(&plan), ["10-a", "20-b"]);
    assert_eq!(
        plan.sources,
        ["10-a.toml", "20-b.toml"].map(|name| sut.path().join(name))
    );
    let origin = &plan.libraries[0].variables[0].properties.origin;
    assert_eq!(
        *origin,
        format!("{}:1", sut.path().join("10-a.toml").display())
    );
}

#[test]
fn file_named_twice_is_read_once() {
    let sut = directory(&[("a.toml", VARIABLE)]);
    let file = sut.path().join("a.toml");
    let again = sut.path().join("./a.toml");
    let plan = load(&[file, sut.path().to_owned(), again]).unwrap();
    assert_eq!(plan.variable_count(), 1);
}

#[test]
fn file_named_by_itself_may_have_any_ending() {
    let sut = directory(&[("plant.conf", VARIABLE)]);
    let plan = load(&[sut.path().join("plant.conf")]).unwrap();
    assert_eq!(names(&plan), ["plant"]);
}

#[test]
fn no_files_give_the_default_plan() {
    assert_eq!(load(&[]).unwrap(), DeploymentPlan::default());
}

#[test]
fn wrong_files_do_not_hide_mistakes_in_others() {
    let sut = directory(&[
        ("a.toml", "= 1"),
        ("b.toml", "[librry]\n"),
        ("c.toml", "[[variable]]\nname = \"x\"\n"),
    ]);
    let text = errors(&sut);
    let places: Vec<&str> = text
        .lines()
        .map(|line| line.split(' ').next().unwrap())
        .collect();
    assert_eq!(places, ["a.toml:1:1", "b.toml:1:2", "c.toml:1:1"], "{text}");
}

/// Returns a configuration with a template that has these parameters and is used with `rows.csv`.
fn with_csv(params: &str) -> String {
    format!(
        "[[template]]\nname = \"t\"\nparams = {{ {params} }}\n\
         variable = [{{ name = \"{{tag}}\", type = \"f64\" }}]\n\
         [[use]]\ntemplate = \"t\"\ncsv = \"sub/rows.csv\"\n"
    )
}

#[test]
fn rows_are_read_from_a_csv_file_in_a_subfolder() {
    let params = "tag = \"string\", n = \"int\", x = \"float\", on = \"bool\"";
    let csv = "\u{feff}n,tag,on,x\r\n1,\"a, b\",true,0.5\r\n\r\n -2 ,c,false,1e3\r\n";
    let sut = directory(&[("a.toml", &with_csv(params)), ("sub/rows.csv", csv)]);
    let plan = load(&[sut.path().to_owned()]).unwrap();
    let paths: Vec<&str> = plan.libraries[0]
        .variables
        .iter()
        .map(|variable| variable.path.as_str())
        .collect();
    assert_eq!(paths, ["a, b", "c"]);
    assert_eq!(plan.sources[1], sut.path().join("sub/rows.csv"));
}

#[test]
fn mistakes_in_a_csv_file_are_named_with_line_and_column() {
    let params = "tag = \"string\", addr = \"int\", on = \"bool\"";
    for (csv, message) in [
        (
            "",
            "sub/rows.csv:1:1 not valid CSV: the file is empty; its first line must name the parameters",
        ),
        (
            "tag,adr,on,tag\n",
            "sub/rows.csv:1:5 unknown key \"adr\"; did you mean \"addr\"?\n\
             sub/rows.csv:1:12 \"tag\" already has a value from another column; use another name",
        ),
        (
            "tag\nA\n",
            "sub/rows.csv:1:1 this row lacks \"addr\"\nsub/rows.csv:1:1 this row lacks \"on\"",
        ),
        (
            "tag,addr,on\nA,1\nB,x,yes\n",
            "sub/rows.csv:2:1 not valid CSV: the line has 2 fields, but the first line has 3\n\
             sub/rows.csv:3:3 \"addr\" is \"x\", but must be a whole number\n\
             sub/rows.csv:3:5 \"on\" is \"yes\", but must be true or false",
        ),
        (
            "tag,addr,on\nA,1,\"x\"y\n",
            "sub/rows.csv:2:5 not valid CSV: text follows a closing quote; put a comma between the cells",
        ),
        (
            "tag,addr,on\na//b,1,true\n",
            "a.toml:4:22 \"a/a//b\" cannot be a name: empty segment at byte 4: use single \
             slashes between segments and none at the start or end (used at sub/rows.csv:2:1)",
        ),
    ] {
        let sut = directory(&[("a.toml", &with_csv(params)), ("sub/rows.csv", csv)]);
        let prefix = format!("{}/", sut.path().display());
        assert_eq!(errors(&sut).replace(&prefix, ""), message, "{csv}");
    }
    let sut = directory(&[("a.toml", &with_csv(params))]);
    fs::create_dir(sut.path().join("sub")).unwrap();
    fs::write(sut.path().join("sub/rows.csv"), b"tag\n\xff\n").unwrap();
    assert_eq!(
        errors(&sut),
        "a.toml:7:7 \"sub/rows.csv\" cannot be used: at 2:1: this is not UTF-8 text; save the \
         file as UTF-8"
    );
}

#[test]
fn csv_files_elsewhere_are_not_read() {
    let sut = directory(&[("inside/a.toml", ""), ("rows.csv", "tag\nA\n")]);
    let file = sut.path().join("inside/a.toml");
    let attempt = |path: &str| {
        let text = with_csv("tag = \"string\"").replace("sub/rows.csv", path);
        fs::write(&file, text).unwrap();
        load(std::slice::from_ref(&file)).unwrap_err().to_string()
    };
    let absolute = sut.path().join("rows.csv").display().to_string();
    for path in ["../rows.csv", "sub/../../rows.csv", "", "./..", &absolute] {
        let message = attempt(path);
        assert!(
            message.contains("it must be in the folder of the configuration file or below"),
            "{message}"
        );
    }
    #[cfg(unix)]
    {
        let link = PathBuf::from(sut.path()).join("inside/link.csv");
        std::os::unix::fs::symlink(sut.path().join("rows.csv"), link).unwrap();
        let message = attempt("link.csv");
        assert!(
            message.contains("it is a link to a file outside the folder"),
            "{message}"
        );
    }
    let message = attempt(".");
    assert!(message.contains("cannot be read"), "{message}");
}

#[test]
fn folder_of_the_history_is_relative_to_its_file() {
    let sections = "[[history]]\nvariables = \"**\"\n";
    let folder = |engine: &str| {
        let sut = directory(&[("a.toml", engine), ("b.toml", sections)]);
        let plan = load(&[sut.path().to_owned()]).unwrap();
        let folder = plan.history.unwrap().folder;
        folder.strip_prefix(sut.path()).unwrap().to_owned()
    };
    for (engine, expected) in [
        ("[engine]\nhistory = \"rows\"\n", "rows"),
        ("[engine]\nstore = \"plant.db\"\n", "plant.history"),
        ("", "history"),
    ] {
        assert_eq!(folder(engine).to_str(), Some(expected), "{engine}");
    }
}
