//! The table of verbs, with their exit codes.

/// Properties of a verb that clap has no place for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Verb {
    pub(crate) name: &'static str,
    pub(crate) writes: bool,
    /// Possible exit codes, as numbers of [`Exit`](crate::exit::Exit).
    pub(crate) exits: &'static [u8],
    /// Subcommands. A group's metadata includes theirs.
    pub(crate) verbs: &'static [Verb],
}

impl Verb {
    pub(crate) const fn reading(name: &'static str, exits: &'static [u8]) -> Self {
        Self {
            name,
            writes: false,
            exits,
            verbs: &[],
        }
    }

    pub(crate) const fn writing(name: &'static str, exits: &'static [u8]) -> Self {
        Self {
            writes: true,
            ..Self::reading(name, exits)
        }
    }

    pub(crate) const fn group(name: &'static str, verbs: &'static [Verb]) -> Self {
        Self {
            verbs,
            ..Self::reading(name, &[])
        }
    }
}

/// Exit codes of commands that read from an engine.
const READ: &[u8] = &[0, 1, 2, 3, 4, 5, 130];
/// Exit codes of commands that write to an engine.
const WRITE: &[u8] = &[0, 1, 2, 3, 4, 5, 6, 9, 130];
/// Exit codes of commands at either end of a stream.
const STREAM: &[u8] = &[0, 1, 2, 3, 4, 5, 7, 130];
/// Exit codes of commands that read a history from an engine or a folder.
const HISTORY: &[u8] = &[0, 1, 2, 3, 4, 5, 7, 8, 130];
/// Exit codes of commands that work on the folder of a history.
const FOLDER: &[u8] = &[0, 1, 2, 5, 8, 130];
/// Exit codes of commands that work on the accounts and rules of an engine.
const ACCOUNTS: &[u8] = &[0, 1, 2, 8, 130];
/// Exit codes of commands that read a TDMS file.
const TDMS: &[u8] = &[0, 1, 2, 8, 130];

pub(crate) const VERBS: &[Verb] = &[
    Verb::reading("get", READ),
    Verb::writing("put", WRITE),
    Verb::writing("set", WRITE),
    Verb::writing("send", WRITE),
    Verb::writing("request", WRITE),
    Verb::writing("force", WRITE),
    Verb::writing("unforce", WRITE),
    Verb::group(
        "snapshot",
        &[
            Verb::writing("save", READ),
            Verb::reading("diff", &[0, 1, 2, 3, 4, 5, 8, 130]),
            Verb::writing("restore", WRITE),
        ],
    ),
    Verb::reading("monitor", &[0, 1, 2, 3, 4, 5, 7, 130]),
    Verb::reading("info", READ),
    Verb::reading("ls", &[0, 1, 2, 3, 4, 130]),
    Verb::reading("find", &[0, 1, 2, 3, 4, 130]),
    Verb::reading("why", &[0, 2, 8, 130]),
    Verb::reading("limits", &[0, 2, 3, 4, 130]),
    Verb::reading("support", &[0, 1, 2, 130]),
    Verb::writing("deploy", &[0, 1, 2, 3, 4, 5, 6, 8, 9, 130]),
    Verb::writing("undeploy", WRITE),
    Verb::group(
        "library",
        &[Verb::writing("start", WRITE), Verb::writing("stop", WRITE)],
    ),
    Verb::group(
        "alarm",
        &[
            Verb::reading("ls", READ),
            Verb::writing("ack", WRITE),
            Verb::writing("reset", WRITE),
            Verb::writing("shelve", WRITE),
            Verb::writing("unshelve", WRITE),
            Verb::reading("journal", READ),
            Verb::reading("report", READ),
            Verb::writing("disable", WRITE),
            Verb::writing("enable", WRITE),
        ],
    ),
    Verb::group(
        "control",
        &[
            Verb::reading("ls", READ),
            Verb::writing("take", WRITE),
            Verb::writing("request", WRITE),
            Verb::writing("release", WRITE),
            Verb::writing("give", WRITE),
        ],
    ),
    Verb {
        exits: READ,
        ..Verb::group(
            "audit",
            &[
                Verb::reading("verify", &[0, 1, 2, 3, 4, 5, 8, 130]),
                Verb::writing("export", &[0, 1, 2, 3, 4, 5, 8, 130]),
            ],
        )
    },
    Verb {
        exits: HISTORY,
        ..Verb::group(
            "history",
            &[
                Verb::reading("ls", &[0, 1, 2, 5, 7, 8, 130]),
                Verb::reading("info", FOLDER),
                Verb::reading("verify", FOLDER),
                Verb::writing("compact", FOLDER),
                Verb::writing("rebuild", FOLDER),
                Verb::writing("export", HISTORY),
            ],
        )
    },
    Verb::group(
        "backup",
        &[
            Verb::writing("create", &[0, 1, 2, 8, 130]),
            Verb::reading("verify", &[0, 1, 2, 8, 130]),
            Verb::writing("restore", &[0, 1, 2, 8, 130]),
        ],
    ),
    Verb::group(
        "engine",
        &[
            Verb::reading("ping", &[0, 2, 3, 4, 130]),
            Verb::reading("info", &[0, 2, 3, 4, 130]),
            Verb::writing("reload", &[0, 2, 3, 4, 5, 6, 8, 9, 130]),
            Verb::writing("stop", &[0, 2, 3, 4, 5, 6, 9, 130]),
        ],
    ),
    Verb::group(
        "stream",
        &[
            Verb::writing("write", STREAM),
            Verb::writing("read", STREAM),
            Verb::reading("ls", READ),
            Verb::reading("info", READ),
            Verb::reading("bench", STREAM),
        ],
    ),
    #[cfg(target_os = "linux")]
    Verb::group(
        "record",
        &[
            Verb::writing("start", &[0, 1, 2, 3, 4, 7, 130]),
            Verb::writing("stop", &[0, 1, 2, 3, 4, 7, 130]),
            Verb::reading("ls", &[0, 1, 2, 130]),
            Verb::reading("info", &[0, 1, 2, 130]),
            Verb::writing("bench", &[0, 1, 2, 7, 130]),
        ],
    ),
    #[cfg(target_os = "linux")]
    Verb::writing("play", &[0, 1, 2, 3, 4, 5, 7, 8, 130]),
    Verb::group(
        "tdms",
        &[
            Verb::reading("info", &[0, 1, 2, 130]),
            Verb::reading("cat", TDMS),
            Verb::reading("head", TDMS),
            Verb::writing("convert", TDMS),
            Verb::reading("verify", TDMS),
            Verb::writing("repair", TDMS),
            Verb::writing("defrag", TDMS),
        ],
    ),
    Verb::group(
        "io",
        &[
            Verb::writing("run", &[0, 1, 2, 8]),
            Verb::reading("drivers", &[0, 2]),
        ],
    ),
    Verb::writing("init", &[0, 1, 2]),
    Verb::writing("pair", &[0, 1, 2, 3, 4, 5, 130]),
    Verb::writing("join", &[0, 1, 2, 3, 4, 5, 130]),
    Verb {
        exits: &[0, 1, 2],
        ..Verb::group(
            "ctx",
            &[
                Verb::reading("ls", &[0, 1, 2]),
                Verb::writing("select", &[0, 1, 2]),
                Verb::reading("info", &[0, 1, 2]),
                Verb::writing("add", &[0, 1, 2]),
                Verb::writing("rm", &[0, 1, 2]),
            ],
        )
    },
    Verb::group(
        "user",
        &[
            Verb::reading("ls", ACCOUNTS),
            Verb::reading("info", ACCOUNTS),
            Verb::writing("add", ACCOUNTS),
            Verb::writing("rm", ACCOUNTS),
            Verb::writing("role", ACCOUNTS),
            Verb::writing("groups", ACCOUNTS),
            Verb::writing("disable", ACCOUNTS),
            Verb::writing("enable", ACCOUNTS),
            Verb::writing("password", ACCOUNTS),
            Verb::writing("key", ACCOUNTS),
            Verb::writing("certificate", ACCOUNTS),
        ],
    ),
    Verb::group(
        "access",
        &[
            Verb::reading("ls", ACCOUNTS),
            Verb::writing("grant", ACCOUNTS),
            Verb::writing("deny", ACCOUNTS),
            Verb::writing("rm", ACCOUNTS),
            Verb::reading("check", &[0, 1, 2, 5, 8, 130]),
            Verb::reading("roles", &[0, 2]),
        ],
    ),
    Verb::writing("serve", &[0, 1, 2, 5, 8]),
    Verb::reading("demo", &[0, 1, 2, 5]),
    Verb::reading("completion", &[0, 2]),
    Verb::reading("help", &[0, 2]),
];
