//! At least three examples for the help of each command. Tests check that all of them parse.

const EXAMPLES: &[&str] = &[
    "trunkline get boiler/level",
    "trunkline get -a 'boiler/*'",
    "trunkline get boiler/level --format '{value} {units}'",
    "trunkline put boiler/setpoint 75",
    "trunkline put boiler/setpoint=75 boiler/pump/mode=AUTO",
    "trunkline put --atomic oven/zone1=180 oven/zone2=185",
    "trunkline set boiler/setpoint 75",
    "trunkline set boiler/setpoint=75 boiler/pump/mode=AUTO",
    "trunkline set --json boiler/setpoint 75",
    "trunkline send boiler/setpoint",
    "trunkline send boiler/setpoint boiler/pump/mode",
    "trunkline send --timeout 5s boiler/setpoint",
    "trunkline request boiler/level",
    "trunkline request boiler/level boiler/temp",
    "trunkline request --json boiler/level",
    "trunkline force boiler/level 50",
    "trunkline force --list",
    "trunkline force --off",
    "trunkline unforce boiler/level",
    "trunkline unforce 'boiler/*'",
    "trunkline unforce --all",
    "trunkline snapshot save before.jsonl 'oven/**'",
    "trunkline snapshot diff before.jsonl",
    "trunkline snapshot restore before.jsonl --yes",
    "trunkline monitor boiler/level",
    "trunkline monitor 'boiler/*' --contract all --json",
    "trunkline monitor boiler/level --until 'value > 90' --for 1m",
    "trunkline monitor --alarms --priority 800",
    "trunkline info boiler/level",
    "trunkline info --json boiler/level",
    "trunkline info boiler/level boiler/temp",
    "trunkline ls",
    "trunkline ls boiler/pump",
    "trunkline ls --tree",
    "trunkline find level",
    "trunkline find 'boiler/**' --bad",
    "trunkline find '**' --type f64",
    "trunkline why boiler/level",
    "trunkline why",
    "trunkline why --json boiler/level",
    "trunkline limits",
    "trunkline limits --json",
    "trunkline limits --url tl://plant-7",
    "trunkline support",
    "trunkline support --config plant.toml --url tl://plant-7 help-me.txt",
    "trunkline deploy bench.toml",
    "trunkline deploy --replace bench.toml",
    "trunkline deploy libraries/ --url tl://plant-7",
    "trunkline undeploy --yes bench",
    "trunkline undeploy --force bench",
    "trunkline undeploy --yes bench oven",
    "trunkline library stop bench",
    "trunkline library start bench",
    "trunkline library stop bench oven",
    "trunkline alarm ls --area boiler",
    "trunkline alarm ack 'boiler/**' --comment 'on my way'",
    "trunkline alarm shelve boiler/level --for 2h",
    "trunkline alarm journal boiler --since 1h",
    "trunkline control ls",
    "trunkline control take boiler",
    "trunkline control take boiler/pump --level supervisor --for 10m",
    "trunkline control request boiler",
    "trunkline control give boiler bo",
    "trunkline control release boiler",
    "trunkline audit --since 10m",
    "trunkline audit boiler/setpoint",
    "trunkline audit --last 20",
    "trunkline audit verify",
    "trunkline audit verify plant.db",
    "trunkline audit export --as syslog --follow --to unix:/dev/log",
    "trunkline history boiler/level --since 10m",
    "trunkline history 'boiler/*' --since today --every 5m",
    "trunkline history boiler/level --since 1h --plot",
    "trunkline history boiler/level --since 10m --interpolated --every 1s",
    "trunkline history 'boiler/*' --since today --coverage",
    "trunkline history ls plant.history",
    "trunkline history verify plant.history",
    "trunkline history export level.parquet boiler/level --since yesterday",
    "trunkline backup create /mnt/backup/plant plant.toml",
    "trunkline backup verify /mnt/backup/plant",
    "trunkline backup restore /mnt/backup/plant plant.toml --replace",
    "trunkline engine ping",
    "trunkline engine ping --count 100 --interval 10ms",
    "trunkline engine ping --json --url tl://plant-7",
    "trunkline engine info",
    "trunkline engine info --json",
    "trunkline engine info --url tl://plant-7",
    "trunkline engine stop",
    "trunkline engine stop --json",
    "trunkline engine stop --url tl://plant-7",
    "trunkline stream read daq/raw --type i32",
    "trunkline stream write lab/source --to daq/raw --type i32",
    "trunkline stream ls",
    "trunkline record start run.tdms 'boiler/**' --for 10m",
    "trunkline record ls",
    "trunkline record info run.tdms",
    "trunkline play run.tdms",
    "trunkline play run.tdms --speed 2",
    "trunkline play run.tdms --as boiler=replay --full-speed",
    "trunkline play --history 'boiler/**' --since 10m --as boiler=replay",
    "trunkline tdms info run.tdms",
    "trunkline tdms cat run.tdms --from 10s --to 20s -o csv",
    "trunkline tdms convert run.tdms run.parquet",
    "trunkline io drivers",
    "trunkline io run sim --publish",
    "trunkline io run host --name host --period 1s",
    "trunkline init",
    "trunkline init plant/tank.toml",
    "trunkline init --force trunkline.toml",
    "trunkline pair press1 --role operator",
    "trunkline join tl://plant.example:5850",
    "trunkline join tl://plant.example:5850 K7QF-2M9D-4RTB-X8WN-6HJC-V3PZ-9GKS-5YAE",
    "trunkline ctx",
    "trunkline ctx select plant.example",
    "trunkline ctx add plant --url tl://plant.example:5850 --authority authority.crt",
    "trunkline user ls",
    "trunkline user add anna --role operator --group shift-a",
    "trunkline user role anna viewer",
    "trunkline user password anna",
    "trunkline user disable anna --security /etc/plant/security",
    "trunkline access ls",
    "trunkline access grant read,subscribe 'boiler/**' --group guests",
    "trunkline access deny write 'boiler/**' --role operator",
    "trunkline access check anna boiler/level",
    "trunkline access check anna boiler/level --action write --host 10.0.0.7",
    "trunkline serve plant.toml",
    "trunkline serve plant/ --listen 127.0.0.1:6000",
    "trunkline serve --store none plant.toml",
    "trunkline demo",
    "trunkline demo --listen 127.0.0.1:6000",
    "trunkline demo --json",
    "trunkline completion bash",
    "trunkline completion zsh",
    "trunkline completion fish",
    "trunkline help monitor",
    "trunkline help stream write",
    "trunkline help options",
];

pub(crate) fn examples_for(command: &str, verb: Option<&str>) -> String {
    let is_of = |line: &&&str| {
        let mut words = line.split(' ').skip(1);
        words.next() == Some(command) && (verb.is_none() || words.next() == verb)
    };
    let lines = EXAMPLES.iter().filter(is_of);
    let lines: Vec<String> = lines.map(|line| format!("  {line}\n")).collect();
    match lines.is_empty() {
        true => String::new(),
        false => format!("Examples:\n{}\n", lines.concat()),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;
    use trunkline_types::LibraryDefinition;

    use super::*;
    use crate::arguments::Cli;

    /// Splits a line into words as a shell does, but supports only single quotes.
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
    fn every_variable_of_the_boiler_in_an_example_exists() {
        let plant = (trunkline_boiler::DRIVER.make)(&Default::default()).unwrap();
        let libraries = plant.libraries("sim");
        let full = |library: &LibraryDefinition| {
            let names = library.variables.iter();
            let names = names.map(|variable| format!("boiler/{}", variable.path));
            names.collect::<Vec<_>>()
        };
        let boiler = libraries.iter().filter(|library| library.name == "boiler");
        let names: Vec<String> = boiler.flat_map(full).collect();
        for line in EXAMPLES {
            for word in words(line) {
                let name = word.split('=').next().unwrap();
                let is_name = name.starts_with("boiler/") && !name.contains('*');
                let is_known = names
                    .iter()
                    .any(|known| known == name || known.starts_with(&format!("{name}/")));
                assert!(!is_name || is_known, "{line}: {name}");
            }
        }
    }

    #[test]
    fn every_command_has_examples_that_it_accepts() {
        let cli = Cli::command();
        let listed = cli.get_subcommands();
        for command in listed.filter(|command| !command.is_hide_set()) {
            let name = command.get_name();
            assert!(
                !examples_for(name, None).is_empty(),
                "{name} has no examples"
            );
        }
        for line in EXAMPLES {
            let name = line.split(' ').nth(1).unwrap();
            // `record` and `play` exist only on Linux.
            if cli.find_subcommand(name).is_some() {
                let parsed = cli.clone().try_get_matches_from(words(line));
                assert!(parsed.is_ok(), "{line}: {parsed:?}");
            }
        }
    }
}
