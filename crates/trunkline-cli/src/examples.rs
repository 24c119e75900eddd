//! Three examples for the help of each command. Tests parse all of them.

/// Each command with its examples.
pub(crate) const EXAMPLES: &[(&str, [&str; 3])] = &[
    (
        "get",
        [
            "trunkline get boiler/level",
            "trunkline get -a 'boiler/*'",
            "trunkline get boiler/level --format '{value} {units}'",
        ],
    ),
    (
        "put",
        [
            "trunkline put boiler/setpoint 75",
            "trunkline put boiler/setpoint=75 boiler/mode=AUTO",
            "trunkline put --atomic oven/zone1=180 oven/zone2=185",
        ],
    ),
    (
        "set",
        [
            "trunkline set boiler/setpoint 75",
            "trunkline set boiler/setpoint=75 boiler/mode=AUTO",
            "trunkline set --json boiler/setpoint 75",
        ],
    ),
    (
        "send",
        [
            "trunkline send boiler/setpoint",
            "trunkline send boiler/setpoint boiler/mode",
            "trunkline send --timeout 5s boiler/setpoint",
        ],
    ),
    (
        "request",
        [
            "trunkline request boiler/level",
            "trunkline request boiler/level boiler/temp",
            "trunkline request --json boiler/level",
        ],
    ),
    (
        "force",
        [
            "trunkline force boiler/level 50",
            "trunkline force --list",
            "trunkline force --off",
        ],
    ),
    (
        "unforce",
        [
            "trunkline unforce boiler/level",
            "trunkline unforce 'boiler/*'",
            "trunkline unforce --all",
        ],
    ),
    (
        "snapshot",
        [
            "trunkline snapshot save before.jsonl 'oven/**'",
            "trunkline snapshot diff before.jsonl",
            "trunkline snapshot restore before.jsonl --yes",
        ],
    ),
    (
        "monitor",
        [
            "trunkline monitor boiler/level",
            "trunkline monitor 'boiler/*' --contract all --json",
            "trunkline monitor boiler/level --until 'value > 90' --for 1m",
        ],
    ),
    (
        "info",
        [
            "trunkline info boiler/level",
            "trunkline info --json boiler/level",
            "trunkline info boiler/level boiler/temp",
        ],
    ),
    (
        "ls",
        [
            "trunkline ls",
            "trunkline ls boiler/pump",
            "trunkline ls --tree",
        ],
    ),
    (
        "find",
        [
            "trunkline find level",
            "trunkline find 'boiler/**' --bad",
            "trunkline find '**' --type f64",
        ],
    ),
    (
        "why",
        [
            "trunkline why boiler/level",
            "trunkline why",
            "trunkline why --json boiler/level",
        ],
    ),
    (
        "limits",
        [
            "trunkline limits",
            "trunkline limits --json",
            "trunkline limits --url tl://plant-7",
        ],
    ),
    (
        "deploy",
        [
            "trunkline deploy bench.toml",
            "trunkline deploy --replace bench.toml",
            "trunkline deploy libraries/ --url tl://plant-7",
        ],
    ),
    (
        "undeploy",
        [
            "trunkline undeploy --yes bench",
            "trunkline undeploy --force bench",
            "trunkline undeploy --yes bench oven",
        ],
    ),
    (
        "library",
        [
            "trunkline library stop bench",
            "trunkline library start bench",
            "trunkline library stop bench oven",
        ],
    ),
    (
        "audit",
        [
            "trunkline audit --since 10m",
            "trunkline audit boiler/setpoint",
            "trunkline audit --last 20",
        ],
    ),
    (
        "stream",
        [
            "trunkline stream read daq/raw --type i32",
            "trunkline stream write lab/source --to daq/raw --type i32",
            "trunkline stream ls",
        ],
    ),
    (
        "record",
        [
            "trunkline record start run.tdms 'boiler/**' --for 10m",
            "trunkline record ls",
            "trunkline record info run.tdms",
        ],
    ),
    (
        "play",
        [
            "trunkline play run.tdms",
            "trunkline play run.tdms --speed 2",
            "trunkline play run.tdms --as boiler=replay --full",
        ],
    ),
    (
        "tdms",
        [
            "trunkline tdms info run.tdms",
            "trunkline tdms cat run.tdms --from 10s --to 20s -o csv",
            "trunkline tdms convert run.tdms run.parquet",
        ],
    ),
    (
        "io",
        [
            "trunkline io drivers",
            "trunkline io run sim --publish",
            "trunkline io run host --name host --period 1s",
        ],
    ),
    (
        "init",
        [
            "trunkline init",
            "trunkline init plant/tank.toml",
            "trunkline init --force trunkline.toml",
        ],
    ),
    (
        "serve",
        [
            "trunkline serve plant.toml",
            "trunkline serve plant/ --listen 127.0.0.1:6000",
            "trunkline serve --store none plant.toml",
        ],
    ),
    (
        "demo",
        [
            "trunkline demo",
            "trunkline demo --listen 127.0.0.1:6000",
            "trunkline demo --json",
        ],
    ),
    (
        "completion",
        [
            "trunkline completion bash",
            "trunkline completion zsh",
            "trunkline completion fish",
        ],
    ),
    (
        "help",
        [
            "trunkline help monitor",
            "trunkline help stream write",
            "trunkline help options",
        ],
    ),
];

/// Returns the examples of one command, or of one of its verbs, as the help shows them.
pub(crate) fn shown(command: &str, verb: Option<&str>) -> String {
    let found = EXAMPLES.iter().find(|(name, _)| *name == command);
    let lines = found.iter().flat_map(|(_, lines)| lines);
    let lines = lines.filter(|line| verb.is_none() || line.split(' ').nth(2) == verb);
    let lines: Vec<String> = lines.map(|line| format!("  {line}\n")).collect();
    match lines.is_empty() {
        true => String::new(),
        false => format!("Examples:\n{}\n", lines.concat()),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::arguments::Cli;

    /// Splits words as a shell does, with single quotes only.
    fn words(line: &str) -> Vec<String> {
        let mut words = Vec::new();
        for (at, part) in line.split('\'').enumerate() {
            match at % 2 {
                0 => words.extend(part.split_whitespace().map(str::to_owned)),
                _ => words.push(part.to_owned()),
            }
        }
        words
    }

    #[test]
    fn every_command_has_examples_that_it_takes() {
        let cli = Cli::command();
        for command in cli.get_subcommands() {
            let name = command.get_name();
            let examples = EXAMPLES.iter().find(|(of, _)| *of == name);
            let (_, lines) = examples.unwrap_or_else(|| panic!("{name} has no examples"));
            for line in lines {
                assert_eq!(line.split(' ').nth(1), Some(name), "{line}");
                let parsed = cli.clone().try_get_matches_from(words(line));
                assert!(parsed.is_ok(), "{line}: {parsed:?}");
            }
        }
    }
}
