//! Runs the documentation: every command block of the README, the tutorial and the how-to pages runs
//! as printed, in the order of the page.
//!
//! Each page has its own network namespace, so that its ports are free, and an empty folder. HTML
//! comments in the page give the test what the text gives a reader: [`page`] lists them.

#![cfg(target_os = "linux")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a test fails if its setup fails; it prints what it skips"
)]

mod output;
mod page;
#[path = "../black_box/rig.rs"]
#[allow(dead_code, reason = "the black-box tests use all of it")]
mod rig;
mod terminal;

use std::fs;
use std::path::{Path, PathBuf};

use page::{Code, Step};
use terminal::{Network, Terminal};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The pages of a folder, by their paths from the root of the repository.
fn pages_of(folder: &str) -> Vec<String> {
    let entries = fs::read_dir(root().join(folder)).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut pages: Vec<String> = names
        .filter(|name| name.ends_with(".md"))
        .map(|name| format!("{folder}/{name}"))
        .collect();
    pages.sort();
    pages
}

/// Runs one page; prints why a block of it is not run.
fn run_page(path: &str) {
    let text = fs::read_to_string(root().join(path)).unwrap();
    let steps = page::steps(&text).unwrap_or_else(|problem| panic!("{path}:{problem}"));
    let Some(network) = Network::create() else {
        println!("skipped, because network namespaces are not available here: {path}");
        return;
    };
    let mut terminal = Terminal::new(&network, &root());
    let mut printed = String::new();
    for step in steps {
        let place = format!("{path}:{}", step.line);
        match step.code {
            Code::File { name, text, append } => terminal.write_file(&name, &text, append),
            Code::Start { command, until } => terminal.start(&place, &command, until.as_deref()),
            Code::Kill { part } => terminal.kill(&place, &part),
            Code::Run { command, exits } => {
                let run = terminal.run(&place, &format!("set -e\n{command}"), false);
                assert!(
                    run.exit.is_some_and(|exit| exits.contains(&exit)),
                    "{place}: `{command}` ended with {:?}, not with {exits:?}\n{}",
                    run.exit,
                    run.output
                );
                printed = run.output;
            }
            Code::Interrupted { commands } => {
                for command in commands {
                    printed = terminal.run(&place, &command, true).output;
                }
            }
            Code::Transcript { entries } => {
                for entry in entries {
                    let run = terminal.run(&place, &entry.command, false);
                    let expected = entry.output.join("\n");
                    output::check(&expected, &run.output)
                        .unwrap_or_else(|why| panic!("{place}: `{}`: {why}", entry.command));
                }
            }
            Code::Prints { text } => {
                output::check(&text, &printed).unwrap_or_else(|why| panic!("{place}: {why}"));
            }
            Code::PrintsMeanwhile { part, lines } => {
                terminal.wait_for_lines(&place, &part, &lines);
            }
            Code::NotRun { why } => println!("{place}: not run, {why}"),
        }
    }
}

macro_rules! pages {
    ($($test:ident: $path:literal,)*) => {
        const PAGES: &[&str] = &[$($path),*];
        $(
            #[test]
            fn $test() {
                run_page($path);
            }
        )*
    };
}

pages! {
    readme: "README.md",
    add_an_io_server: "docs/how-to/add-an-io-server.md",
    alarms: "docs/how-to/alarms.md",
    alias_a_variable: "docs/how-to/alias-a-variable.md",
    back_up_and_restore: "docs/how-to/back-up-and-restore.md",
    build_from_source: "docs/how-to/build-from-source.md",
    call_from_labview: "docs/how-to/call-from-labview.md",
    coming_from_other_packages: "docs/how-to/coming-from-other-packages.md",
    control_a_folder: "docs/how-to/control-a-folder.md",
    deploy_a_library: "docs/how-to/deploy-a-library.md",
    find_out_why: "docs/how-to/find-out-why.md",
    follow_changing_variables: "docs/how-to/follow-what-comes-and-goes.md",
    force_variables: "docs/how-to/force-variables.md",
    history_python_sql: "docs/how-to/history-python-sql.md",
    history: "docs/how-to/history.md",
    install: "docs/how-to/install.md",
    io_servers_in_python: "docs/how-to/io-servers-in-python.md",
    measure: "docs/how-to/measure.md",
    put_an_engine_on_the_network: "docs/how-to/put-an-engine-on-the-network.md",
    read_and_write_from_rust: "docs/how-to/read-and-write-from-rust.md",
    record: "docs/how-to/record.md",
    see_who_changed_what: "docs/how-to/see-who-changed-what.md",
    streams: "docs/how-to/streams.md",
    swap_the_hardware: "docs/how-to/swap-the-hardware.md",
    tdms_files: "docs/how-to/tdms-files.md",
    use_certificates_of_your_own: "docs/how-to/use-certificates-of-your-own.md",
    use_from_c: "docs/how-to/use-from-c.md",
    use_from_python: "docs/how-to/use-from-python.md",
    watch_health: "docs/how-to/watch-health.md",
    watch_the_engine: "docs/how-to/watch-the-engine.md",
    write_a_configuration: "docs/how-to/write-a-configuration.md",
    write_values_that_belong_together: "docs/how-to/write-values-that-belong-together.md",
    first_steps: "docs/tutorial/first-steps.md",
}

#[test]
fn every_page_is_run() {
    let mut pages = vec!["README.md".to_owned()];
    pages.extend(pages_of("docs/how-to"));
    pages.extend(pages_of("docs/tutorial"));
    assert_eq!(pages, PAGES);
}

/// A check that compares nothing would pass every page.
#[test]
fn differing_output_is_detected() {
    let printed = "boiler/level   70.1 %   good\n";
    assert_eq!(output::check("boiler/level 68.0 % good", printed), Ok(()));
    assert_eq!(output::check("boiler/level ... good", printed), Ok(()));
    assert_eq!(output::check("...", printed), Ok(()));
    for wrong in [
        "boiler/level 68.0 bar good",
        "boiler/level ... bad",
        "",
        "level 1 % good",
    ] {
        assert!(output::check(wrong, printed).is_err(), "{wrong}");
    }
}

#[test]
fn block_without_a_directive_is_refused() {
    let problem = page::steps("# A\n\n```toml\na = 1\n```\n").unwrap_err();
    assert!(problem.contains("<!-- file: NAME -->"), "{problem}");
    let problem = page::steps("<!-- rum: x -->\n").unwrap_err();
    assert!(problem.contains("rum"), "{problem}");
    // A shell block needs no directive.
    let steps = page::steps("```sh\ntrunkline ls\n```\n").unwrap();
    assert!(
        matches!(&steps[0].code, Code::Run { command, exits } if command == "trunkline ls\n" && *exits == [0])
    );
    assert_eq!(steps[0].line, 1);
}

/// The description of one block of a page.
#[test]
fn transcript_has_commands_and_their_output() {
    let text = "<!-- exit: 1 -->\n```text\n$ a\nb\nc\n$ d\n```\n";
    assert!(
        page::steps(text).is_err(),
        "a transcript shows its exit codes by `echo $?`"
    );
    let steps = page::steps(&text[17..]).unwrap();
    let Step {
        code: Code::Transcript { entries },
        ..
    } = &steps[0]
    else {
        panic!("{steps:?}");
    };
    assert_eq!(entries[0].command, "a");
    assert_eq!(entries[0].output, ["b", "c"]);
    assert_eq!(
        (entries[1].command.as_str(), entries[1].output.len()),
        ("d", 0)
    );
}
