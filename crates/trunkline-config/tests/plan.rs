//! The plan contains what the files configure.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

use std::sync::Arc;
use std::time::Duration;

use trunkline_config::{
    DeploymentPlan, HistoryConfig, IoConfig, LoadOptions, StoreChoice, parse as parse_file,
    parse_with,
};
use trunkline_types::alarm::{
    Acknowledge, AlarmDefinition, AlarmKind, BitsNeeded, LimitLevel, Operand,
};
use trunkline_types::history::{HistoryRule, HistorySettings};
use trunkline_types::{
    Access, AuditMode, Deadband, Fifo, Pattern, Properties, Scaling, Scope, Setting,
};

const IO: &str = "[[io]]\nname = \"plc1\"\ndriver = \"sim\"\n";

fn parse(text: &str) -> DeploymentPlan {
    parse_file("plant.toml", text).unwrap_or_else(|errors| panic!("{errors}"))
}

fn errors(text: &str) -> String {
    parse_file("plant.toml", text).unwrap_err().to_string()
}

/// Returns the properties of a variable configured with these lines.
fn properties(lines: &str) -> Arc<Properties> {
    let plan = parse(&format!("{IO}[[variable]]\nname = \"x\"\n{lines}"));
    Arc::clone(&plan.libraries[0].variables[0].properties)
}

fn paths(plan: &DeploymentPlan) -> Vec<&str> {
    let variables = plan.libraries.iter().flat_map(|library| &library.variables);
    variables.map(|variable| variable.path.as_str()).collect()
}

/// Behaviour: SP-05.
#[test]
fn name_type_scope_and_buffering_are_read_from_the_file() {
    let plan = parse(
        "[library]\nname = \"boiler\"\n\
         [[variable]]\nname = \"pump/speed\"\ntype = \"f64\"\nscope = \"process\"\n\
         fifo = { kind = \"multi\", capacity = 50 }\n\
         [[variable]]\nname = \"level\"\ntype = \"u16\"\n",
    );
    let library = &plan.libraries[0];
    assert_eq!(library.name, "boiler");
    assert_eq!(paths(&plan), ["pump/speed", "level"]);
    let speed = &library.variables[0].properties;
    assert_eq!(speed.data_type.to_string(), "f64");
    assert_eq!(speed.scope, Scope::Process);
    assert_eq!(
        speed.fifo,
        Fifo::Multi {
            capacity: 50,
            length: 1
        }
    );
    assert_eq!(speed.origin, "plant.toml:3");
    let level = &library.variables[1].properties;
    assert_eq!(level.data_type.to_string(), "u16");
    assert_eq!((level.scope, level.fifo), (Scope::Network, Fifo::Off));
}

/// Behaviour: SP-10.
#[test]
fn fifo_is_off_single_or_multi_with_its_length() {
    let fifo = |lines: &str| properties(lines).fifo;
    assert_eq!(fifo("type = \"f64\""), Fifo::Off);
    assert_eq!(fifo("type = \"f64\"\nfifo = \"off\""), Fifo::Off);
    assert_eq!(fifo("type = \"f64\"\nfifo = { kind = \"off\" }"), Fifo::Off);
    let single = "fifo = { kind = \"single\" }";
    assert_eq!(
        fifo(&format!("type = \"f64\"\n{single}")),
        Fifo::Single { length: 1 }
    );
    let scalar = format!("type = \"enum(A, B)\"\n{single}");
    assert_eq!(fifo(&scalar), Fifo::Single { length: 1 });
    let fixed = format!("type = \"array(f64, 6)\"\n{single}");
    assert_eq!(fifo(&fixed), Fifo::Single { length: 6 });
    let multi = "fifo = { kind = \"multi\", capacity = 8, length = 100 }";
    for data_type in ["array(i16, *)", "waveform(f32)"] {
        let text = format!("type = \"{data_type}\"\n{multi}");
        assert_eq!(
            fifo(&text),
            Fifo::Multi {
                capacity: 8,
                length: 100
            },
            "{data_type}"
        );
    }
}

/// Behaviour: SP-08, SP-09.
#[test]
fn scaling_and_fifo_are_refused_for_custom_types_that_cannot_have_them() {
    let variable = |lines: &str| errors(&format!("{IO}[[variable]]\nname = \"x\"\n{lines}"));
    let scale = "scale = { raw = [0, 1], eng = [0, 10] }\nsource = \"plc1:1\"";
    for data_type in ["struct(x: f64)", "struct(x: struct(y: f64))", "enum(A, B)"] {
        let message = variable(&format!("type = \"{data_type}\"\n{scale}"));
        assert!(
            message.contains("linear scaling needs a number type"),
            "{message}"
        );
    }
    let fifo = "fifo = { kind = \"single\" }";
    let custom = "a real-time FIFO cannot hold struct";
    for (data_type, reason) in [
        ("struct(x: f64)", custom),
        ("struct(a: array(f64, 3))", custom),
        ("struct(s: struct(a: array(f64, 3)))", custom),
        ("string", "a real-time FIFO cannot hold string"),
        ("bytes", "a real-time FIFO cannot hold bytes"),
        ("array(string, 3)", "a real-time FIFO cannot hold text"),
        ("array(f64, 2, 3)", "can hold only one-dimensional arrays"),
        ("array(f64, 2, *)", "can hold only one-dimensional arrays"),
    ] {
        let message = variable(&format!("type = \"{data_type}\"\n{fifo}"));
        assert!(message.contains(reason), "{message}");
    }
}

/// Behaviour: SP-22.
#[test]
fn fifo_of_values_without_a_declared_length_is_refused() {
    for data_type in ["array(f64, *)", "waveform(i16)"] {
        let message = errors(&format!(
            "[[variable]]\nname = \"x\"\ntype = \"{data_type}\"\nfifo = {{ kind = \"single\" }}"
        ));
        assert!(
            message.contains(&format!("a FIFO of {data_type} needs \"length\"")),
            "{message}"
        );
    }
}

/// Behaviour: SP-07.
#[test]
fn types_can_be_written_as_text_and_composed_types_as_keys() {
    for data_type in [
        "bool",
        "i8",
        "i16",
        "i32",
        "i64",
        "u8",
        "u16",
        "u32",
        "u64",
        "f32",
        "f64",
        "string",
        "bytes",
        "timestamp",
        "enum(OFF, AUTO)",
        "array(f64, 3, *)",
        "array(string, *)",
        "struct(x: f64, s: struct(e: enum(A)))",
        "waveform(i16)",
    ] {
        let found = properties(&format!("type = \"{data_type}\""))
            .data_type
            .to_string();
        assert_eq!(found, data_type);
    }
    for (lines, data_type) in [
        (
            "type = \"enum\"\nlabels = [\"OFF\", \"AUTO\"]",
            "enum(OFF, AUTO)",
        ),
        (
            "type = \"array\"\nelement = \"f32\"\nshape = [3, \"*\"]",
            "array(f32, 3, *)",
        ),
        ("type = \"array\"\nelement = \"bool\"", "array(bool, *)"),
        ("type = \"waveform\"\nelement = \"f64\"", "waveform(f64)"),
        (
            "type = \"struct\"\nfields = { x = \"f64\", e = { type = \"enum\", labels = [\"A\"] } }",
            "struct(x: f64, e: enum(A))",
        ),
        (
            "type = \"struct\"\nfields.x = \"f64\"\nfields.y = \"u8\"",
            "struct(x: f64, y: u8)",
        ),
    ] {
        assert_eq!(properties(lines).data_type.to_string(), data_type);
    }
}

/// Behaviour: H-04.
#[test]
fn scaling_needs_a_source_and_combines_with_coercion_and_units() {
    let scale = "type = \"f64\"\nscale = { raw = [4, 20], eng = [0, 100] }\n";
    let text = format!("{IO}[[variable]]\nname = \"x\"\n{scale}");
    assert_eq!(
        errors(&text),
        "plant.toml:7:9 scale needs a source that delivers raw values; add source = \
         \"SERVER:ITEM\", or alias"
    );
    let rest = "source = \"plc1:40001\"\nunits = \"m3/h\"\nrange = [0, 90]\ncoerce = true";
    let sut = properties(&format!("{scale}{rest}"));
    assert_eq!(
        sut.scaling,
        Some(Scaling::Linear {
            raw: [4.0, 20.0],
            eng: [0.0, 100.0]
        })
    );
    assert_eq!(
        (sut.units.as_str(), sut.source.as_str()),
        ("m3/h", "plc1:40001")
    );
    assert_eq!((sut.range, sut.coerce), (Some((0.0, 90.0)), true));
}

/// Behaviour: H-05.
#[test]
fn deadband_is_per_variable_in_percent_and_for_floats_only() {
    let deadband = |lines: &str| properties(lines).deadband;
    let both = Deadband {
        user_percent: 0.5,
        source_percent: 0.5,
    };
    assert_eq!(deadband("type = \"f64\"\ndeadband = 0.5"), both);
    let sut = deadband("type = \"f32\"\ndeadband = { user = 2 }");
    assert_eq!(
        sut,
        Deadband {
            user_percent: 2.0,
            source_percent: 0.0
        }
    );
    let sut = properties("type = \"f64\"\ndeadband = 1");
    assert_eq!(
        sut.span(),
        100.0,
        "the range that a percentage is of, when none is stated"
    );
    for data_type in [
        "i32",
        "u64",
        "bool",
        "string",
        "enum(A)",
        "array(f64, 2)",
        "waveform(f64)",
    ] {
        let text = format!("[[variable]]\nname = \"x\"\ntype = \"{data_type}\"\ndeadband = 1");
        assert!(
            errors(&text).ends_with("only f32 and f64 have a deadband"),
            "{data_type}"
        );
        let none = format!("type = \"{data_type}\"\ndeadband = 0");
        assert_eq!(deadband(&none), Deadband::default());
    }
    let text = "[[variable]]\nname = \"x\"\ntype = \"f64\"\ndeadband = { source = 100.5 }";
    assert!(errors(text).contains("must be from 0 to 100"));
}

#[test]
fn every_kind_of_scaling_can_be_configured() {
    let scaling = |data_type: &str, scale: &str| {
        let lines = format!("type = \"{data_type}\"\nscale = {scale}\nsource = \"plc1:1\"");
        properties(&lines).scaling.unwrap()
    };
    let (raw, eng) = ([4.0, 20.0], [100.0, -100.0]);
    let linear = "{ raw = [4, 20], eng = [100, -100] }";
    assert_eq!(scaling("i16", linear), Scaling::Linear { raw, eng });
    let root = "{ kind = \"square-root\", raw = [4, 20], eng = [100, -100] }";
    assert_eq!(scaling("f32", root), Scaling::SquareRoot { raw, eng });
    assert_eq!(scaling("bool", "{ invert = true }"), Scaling::Invert);
    let bits = |invert, select| Scaling::BitField { invert, select };
    assert_eq!(
        scaling("u32", "{ invert = 0xFF, select = 0x0F }"),
        bits(0xFF, 0x0F)
    );
    assert_eq!(
        scaling("u32", "{ select = 0xFFFF_FFFF }"),
        bits(0, u32::MAX)
    );
    assert_eq!(scaling("u32", "{ invert = 1 }"), bits(1, u32::MAX));
}

#[test]
fn clamp_coerces_to_the_engineering_range() {
    let scale = |eng: &str, rest: &str| {
        let lines = format!(
            "type = \"f64\"\nsource = \"plc1:1\"\n\
             scale = {{ raw = [4, 20], eng = {eng}, clamp = true }}\n{rest}"
        );
        let sut = properties(&lines);
        (sut.range, sut.coerce)
    };
    assert_eq!(scale("[0, 100]", ""), (Some((0.0, 100.0)), true));
    assert_eq!(scale("[100, 0]", ""), (Some((0.0, 100.0)), true));
    assert_eq!(
        scale("[0, 100]", "range = [10, 20]"),
        (Some((10.0, 20.0)), true)
    );
}

/// Behaviour: DP-02.
#[test]
fn variable_outside_a_library_joins_one_named_after_the_file() {
    let variable = "[[variable]]\nname = \"level\"\ntype = \"f64\"\n";
    for (file, library) in [
        ("pumps.toml", "pumps"),
        ("/etc/trunkline/50%.toml", "50%25"),
        ("", "library"),
        ("a/.toml", ".toml"),
    ] {
        let plan = parse_file(file, variable).unwrap();
        assert_eq!(plan.libraries[0].name, library, "{file}");
    }
    let named = format!("[library]\nname = \"boiler\"\n{variable}");
    assert_eq!(
        parse_file("pumps.toml", &named).unwrap().libraries[0].name,
        "boiler"
    );
    assert_eq!(parse("").libraries, []);
}

#[test]
fn several_files_add_to_one_library_in_order() {
    let file = |name: &str, rest: &str| {
        let head = "[library]\nname = \"plant\"\n";
        format!("{head}{rest}[[variable]]\nname = \"{name}\"\ntype = \"f64\"\n")
    };
    let (a, b) = (file("a", "description = \"Plant\"\n"), file("b", ""));
    let plan = parse_with(&[("a.toml", &a), ("b.toml", &b)], &LoadOptions::default()).unwrap();
    assert_eq!(plan.libraries.len(), 1);
    assert_eq!(plan.libraries[0].description, "Plant");
    assert_eq!(paths(&plan), ["a", "b"]);
}

#[test]
fn defaults_apply_where_the_type_permits_and_overrides_win() {
    let plan = parse(
        "[[io]]\nname = \"plc1\"\ndriver = \"sim\"\n\
         [defaults]\ntype = \"f64\"\nrange = [0, 10]\ncoerce = true\ndeadband = 1\nprecision = 2\n\
         units = \"V\"\nscale = { raw = [0, 1], eng = [0, 10] }\naccess = \"read-only\"\n\
         max_age = \"5s\"\nretain = true\n\
         [[variable]]\nname = \"a\"\nsource = \"plc1:1\"\n\
         [[variable]]\nname = \"b\"\ntype = \"string\"\nsource = \"plc1:2\"\n\
         [[variable]]\nname = \"c\"\nrange = \"none\"\nmax_age = \"none\"\nprecision = \"none\"\n\
         [[override]]\nmatch = \"*\"\naccess = \"read-write\"\n\
         [[override]]\nmatch = \"a\"\naccess = \"write-only\"\ninitial = 5\n\
         [[override]]\nmatch = \"c\"\nretain = false\nscale = \"none\"\nfifo = \"off\"\n",
    );
    let of = |index: usize| &plan.libraries[0].variables[index].properties;
    let (a, b, c) = (of(0), of(1), of(2));
    assert_eq!(
        (a.range, a.coerce, a.precision),
        (Some((0.0, 10.0)), true, Some(2))
    );
    assert!(a.scaling.is_some() && a.deadband.user_percent == 1.0);
    assert_eq!(
        (a.access, &a.initial),
        (Access::WriteOnly, &Some(trunkline_types::Value::F64(5.0)))
    );
    assert_eq!((b.range, b.coerce, b.precision), (None, false, None));
    assert_eq!((b.scaling, b.deadband), (None, Deadband::default()));
    assert_eq!(
        (b.units.as_str(), b.max_age),
        ("V", Some(Duration::from_secs(5)))
    );
    assert_eq!(
        (c.range, c.coerce, c.precision, c.max_age),
        (None, false, None, None)
    );
    assert_eq!((b.access, c.access), (Access::ReadWrite, Access::ReadWrite));
    assert_eq!((a.retain, b.retain, c.retain), (true, true, false));
}

#[test]
fn defaults_and_overrides_are_per_file_and_templates_are_global() {
    let a = "[defaults]\nunits = \"V\"\n[[template]]\nname = \"t\"\n\
             variable = [{ name = \"x\", type = \"f64\" }]\n";
    let b = "[defaults]\nunits = \"A\"\n[[use]]\ntemplate = \"t\"\n[[use]]\ntemplate = \"t\"\n\
             at = \"again\"\n[[variable]]\nname = \"y\"\ntype = \"f64\"\n\
             [[override]]\nmatch = \"again/*\"\nunits = \"mV\"\n";
    for files in [
        [("a.toml", a), ("b.toml", b)],
        [("b.toml", b), ("a.toml", a)],
    ] {
        let plan = parse_with(&files, &LoadOptions::default()).unwrap();
        assert_eq!(plan.libraries[0].name, "b");
        let variables = &plan.libraries[0].variables;
        let found = variables
            .iter()
            .map(|v| (v.path.as_str(), v.properties.units.as_str()));
        let wanted = [("y", "A"), ("x", "V"), ("again/x", "mV")];
        assert_eq!(found.collect::<Vec<_>>(), wanted);
    }
}

#[test]
fn placeholders_work_in_every_value_of_a_variable() {
    let plan = parse(
        "[[io]]\nname = \"plc1\"\ndriver = \"sim\"\n\
         [[variable]]\nname = \"{side}/{n:02}\"\nzip = { side = [\"n\", \"s\"], top = [10, 2.5] }\n\
         each = { n = \"1..2\" }\ntype = \"f64\"\nunits = \"m{n}\"\n\
         range = [0, \"{top}\"]\nprecision = \"{n}\"\ndescription = \"{{{n}}} of {side}\"\n\
         source = \"plc1:{side}{n * 10}\"\ninitial = \"{n}\"\n",
    );
    assert_eq!(paths(&plan), ["n/01", "s/01", "n/02", "s/02"]);
    let last = &plan.libraries[0].variables[3].properties;
    assert_eq!(last.description, "{2} of s");
    assert_eq!(
        (last.units.as_str(), last.source.as_str()),
        ("m2", "plc1:s20")
    );
    assert_eq!((last.range, last.precision), (Some((0.0, 2.5)), Some(2)));
    assert_eq!(last.initial, Some(trunkline_types::Value::F64(2.0)));
}

#[test]
fn engine_section_is_read() {
    let plan = parse(
        "[engine]\nname = \"plant\"\nlisten = [\"0.0.0.0:6000\", \"[::1]\", \"127.0.0.2\", \
         \"unix:/run/plant.sock\"]\nlocal_socket = false\nshared_memory = false\nspin = \"0s\"\n\
         insecure = true\nkeep_alive = 0.5\ndeadline = \"1m\"\n[engine.limits]\nsessions_max = 5\n\
         queue_bytes_per_session_max = \"1 GiB\"\nqueue_bytes_max = \"4 GiB\"\nwrite_bytes_per_session_max = 2048\n",
    );
    let engine = plan.engine;
    let listen: Vec<String> = engine
        .listen
        .iter()
        .map(|address| address.to_string())
        .collect();
    let expected = [
        "0.0.0.0:6000",
        "[::1]:5850",
        "127.0.0.2:5850",
        "unix:/run/plant.sock",
    ];
    assert_eq!(listen, expected);
    assert!(!engine.local_socket && !engine.shared_memory);
    assert_eq!(engine.spin, Duration::ZERO);
    assert_eq!(engine.name.as_deref(), Some("plant"));
    assert_eq!(engine.keep_alive, Duration::from_millis(500));
    assert_eq!(engine.deadline, Duration::from_secs(60));
    assert_eq!(engine.limits.sessions_max, 5);
    assert_eq!(engine.limits.queue_bytes_per_session_max, 1 << 30);
    assert_eq!(engine.limits.queue_bytes_max, Some(4 << 30));
    assert_eq!(engine.limits.write_bytes_per_session_max, 2048);
    assert_eq!(engine.limits.items_per_session_max, 2_000_000);
}

#[test]
fn io_sections_keep_settings_and_their_positions() {
    let plan = parse(
        "[[io]]\nname = \"plc1\"\ndriver = \"modbus-tcp\"\nperiod = \"100ms\"\npublish = false\n\
         endpoint = \"10.0.0.5:502\"\nunit = 3\nfactor = 1.5\nswap = true\nlist = [1, [\"a\"]]\n\
         [[io]]\nname = \"host\"\ndriver = \"host\"\n",
    );
    let text = |text: &str| Setting::String(text.to_owned());
    let sut = &plan.io[0];
    assert_eq!(
        (sut.period, sut.publish),
        (Some(Duration::from_millis(100)), false)
    );
    assert_eq!(sut.settings["endpoint"], text("10.0.0.5:502"));
    assert_eq!(sut.settings["unit"], Setting::Integer(3));
    assert_eq!(sut.settings["factor"], Setting::Float(1.5));
    assert_eq!(sut.settings["swap"], Setting::Bool(true));
    let inner = Setting::List(vec![text("a")]);
    assert_eq!(
        sut.settings["list"],
        Setting::List(vec![Setting::Integer(1), inner])
    );
    assert_eq!(sut.setting_places["unit"], "plant.toml:7:1");
    assert_eq!(sut.origin, "plant.toml:1");
    let host = IoConfig {
        origin: "plant.toml:11".to_owned(),
        ..IoConfig::new("host", "host")
    };
    assert_eq!(plan.io[1], host);
}

#[test]
fn io_server_of_the_program_can_be_a_source() {
    let text = "[[variable]]\nname = \"x\"\ntype = \"f64\"\nsource = \"plant:level\"\n";
    assert!(parse_file("a.toml", text).is_err());
    let options = LoadOptions {
        accepts_unknown_io_servers: false,
        io_servers: vec!["plant".to_owned()],
    };
    assert!(parse_with(&[("a.toml", text)], &options).is_ok());
}

#[test]
fn configured_variables_max_is_enforced() {
    let text = |max: u32| {
        format!(
            "[engine.limits]\nvariables_max = {max}\n\
             [[variable]]\nname = \"a{{n}}\"\neach = {{ n = \"1..100\" }}\ntype = \"f64\"\n"
        )
    };
    assert_eq!(parse(&text(100)).variable_count(), 100);
    assert!(errors(&text(99)).contains("100 variables, more than the limit of 99"));
}

#[test]
fn byte_order_mark_and_crlf_are_accepted() {
    let text = "[library]\nname = \"a\"\n[[variable]]\nname = \"x\"\ntype = \"f64\"\n";
    let other = format!("\u{feff}{}", text.replace('\n', "\r\n"));
    assert_eq!(parse(text), parse(&other));
    let wrong = format!("\u{feff}{}", "[library]\r\nnam = \"a\"\r\n");
    let errors = errors(&wrong);
    assert!(errors.starts_with("plant.toml:1:1 [library] needs \"name\"\nplant.toml:2:1 "));
}

#[test]
fn equal_properties_are_shared() {
    let text = "[[io]]\nname = \"plc1\"\ndriver = \"sim\"\n[[variable]]\nname = \"a{n}\"\n\
                each = { n = \"1..100_000\" }\ntype = \"f64\"\nunits = \"V\"\n";
    let plan = parse(text);
    let variables = &plan.libraries[0].variables;
    assert_eq!(variables.len(), 100_000);
    assert!(
        variables
            .iter()
            .all(|v| Arc::ptr_eq(&v.properties, &variables[0].properties))
    );
    let plan = parse(&format!("{text}source = \"plc1:{{n % 4}}\"\n"));
    let mut distinct: Vec<_> = plan.libraries[0]
        .variables
        .iter()
        .map(|v| Arc::as_ptr(&v.properties))
        .collect();
    distinct.sort_unstable();
    distinct.dedup();
    assert_eq!(distinct.len(), 4);
}

/// Behaviour: B-24.
#[test]
fn audit_has_a_default_per_file_and_a_bound_per_engine() {
    let plan = parse(
        "[engine]\naudit_entries = 500\n[defaults]\naudit = true\n\
         [[variable]]\nname = \"a\"\ntype = \"f64\"\n\
         [[variable]]\nname = \"b\"\ntype = \"f64\"\naudit = false\n",
    );
    assert_eq!(plan.engine.audit_entries, 500);
    let variables = &plan.libraries[0].variables;
    let audited = variables.iter().map(|variable| variable.properties.audit);
    assert!(audited.eq([AuditMode::Complete, AuditMode::Off]));
    assert_eq!(parse("[engine]\n").engine.audit_entries, 100_000);
    for (written, mode) in [
        ("", AuditMode::Off),
        ("audit = \"complete\"", AuditMode::Complete),
        ("audit = \"best-effort\"", AuditMode::BestEffort),
    ] {
        assert_eq!(
            properties(&format!("type = \"f64\"\n{written}\n")).audit,
            mode
        );
    }
    let wrong = errors("[[variable]]\nname = \"a\"\ntype = \"f64\"\naudit = \"best\"\n");
    assert!(wrong.contains("best-effort"), "{wrong}");
    let none = errors("[engine]\naudit_entries = 0\n");
    assert!(none.contains("audit_entries"), "{none}");
}

/// Behaviour: H-06, H-08, H-10.
#[test]
fn alarm_has_the_properties_of_its_table() {
    let lines = "type = \"f64\"\nrange = [0, 200]\n\
        alarm.hi = { limit = 80, deadband = 2, on_delay = \"5s\", off_delay = 2, priority = 900, \
        area = \"drum\", acknowledge = \"auto\", latched = true, description = \"high\", \
        help = \"close it\", suppressed_by = \"plant/stopped\", enabled = false }\n";
    let expected = AlarmDefinition {
        name: "hi".to_owned(),
        kind: AlarmKind::Limit {
            level: LimitLevel::Hi,
            limit: Operand::Constant(80.0),
            deadband: 4.0,
        },
        enabled: false,
        on_delay: Duration::from_secs(5),
        off_delay: Duration::from_secs(2),
        priority: 900,
        area: "drum".to_owned(),
        acknowledge: Acknowledge::Auto,
        latched: true,
        description: "high".to_owned(),
        help: "close it".to_owned(),
        suppressed_by: "plant/stopped".to_owned(),
    };
    assert_eq!(properties(lines).alarms, [expected]);
}

/// Behaviour: H-06, H-09.
#[test]
fn short_forms_and_every_kind_of_alarm_are_read() {
    let kinds = |lines: &str| {
        let alarms = properties(lines).alarms.clone();
        let kinds = alarms.into_iter().map(|alarm| (alarm.name, alarm.kind));
        kinds.collect::<Vec<_>>()
    };
    let limit = |level, limit| AlarmKind::Limit {
        level,
        limit,
        deadband: 0.0,
    };
    let numbers = kinds(
        "type = \"f64\"\nalarm = { hi_hi = 90, lo_lo = \"plant/min\", bad_quality = true, \
         deviation = { setpoint = \"plant/sp\", limit = 3 }, \
         fast = { kind = \"rate\", change = 2, time = \"1s\" } }\n",
    );
    let named = |name: &str, kind| (name.to_owned(), kind);
    let expected = [
        named("hi_hi", limit(LimitLevel::HiHi, Operand::Constant(90.0))),
        named(
            "lo_lo",
            limit(LimitLevel::LoLo, Operand::Variable("plant/min".to_owned())),
        ),
        named("bad_quality", AlarmKind::BadQuality),
        named(
            "deviation",
            AlarmKind::Deviation {
                setpoint: Operand::Variable("plant/sp".to_owned()),
                limit: 3.0,
                deadband: 0.0,
            },
        ),
        named(
            "fast",
            AlarmKind::RateOfChange {
                change: 2.0,
                time: Duration::from_secs(1),
            },
        ),
    ];
    assert_eq!(numbers, expected);
    let labels = kinds(
        "type = \"enum\"\nlabels = [\"off\", \"on\", \"fault\"]\n\
         alarm.discrete = { values = [\"fault\", 0] }\n",
    );
    let values = vec![0, 2];
    assert_eq!(labels, [named("discrete", AlarmKind::Discrete { values })]);
    let bits = kinds("type = \"u32\"\nalarm.bits = { needed = \"all\", select = 6 }\n");
    let kind = AlarmKind::Bits {
        needed: BitsNeeded::All,
        invert: 0,
        select: 6,
    };
    assert_eq!(bits, [named("bits", kind)]);
}

fn history(text: &str) -> HistoryConfig {
    parse(text).history.unwrap()
}

fn rule(pattern: &str, settings: Option<HistorySettings>) -> HistoryRule {
    let pattern = Pattern::parse(pattern).unwrap();
    HistoryRule { pattern, settings }
}

#[test]
fn nothing_is_recorded_without_a_section() {
    assert_eq!(parse("[engine]\n").history, None);
    assert_eq!(DeploymentPlan::default().history, None);
}

#[test]
fn two_lines_record_every_update_exactly_and_for_ever() {
    let expected = HistoryConfig {
        folder: "history".into(),
        spool: None,
        rules: vec![rule("**", Some(HistorySettings::default()))],
    };
    assert_eq!(history("[[history]]\nvariables = \"**\"\n"), expected);
}

/// Behaviour: H-13.
#[test]
fn history_section_has_its_settings_for_each_of_its_patterns() {
    let found = history(
        "[[history]]\nvariables = [\"boiler/**\", \"tank/level\"]\ndeadband = 0.5\n\
         resolution = 0.01\nevery = \"1s\"\nkeep = \"365d\"\narray_bytes_max = \"1 MiB\"\nrecord = true\n",
    );
    let settings = HistorySettings {
        deadband_percent: 0.5,
        resolution: 0.01,
        every: Some(Duration::from_secs(1)),
        keep: Some(Duration::from_secs(365 * 86_400)),
        array_bytes_max: 1 << 20,
    };
    let expected = ["boiler/**", "tank/level"].map(|pattern| rule(pattern, Some(settings)));
    assert_eq!(found.rules, expected);
}

#[test]
fn limits_of_history_settings_are_included() {
    let settings = |lines: &str| {
        let found = history(&format!("[[history]]\nvariables = \"**\"\n{lines}"));
        found.rules[0].settings.unwrap()
    };
    let least = settings(
        "deadband = 0\nresolution = 0\nevery = \"1ms\"\nkeep = \"1h\"\narray_bytes_max = 0\n",
    );
    let expected = HistorySettings {
        deadband_percent: 0.0,
        resolution: 0.0,
        every: Some(Duration::from_millis(1)),
        keep: Some(Duration::from_secs(3_600)),
        array_bytes_max: 0,
    };
    assert_eq!(least, expected);
    let most = settings(
        "deadband = 100\nresolution = 1e300\nevery = \"1d\"\nkeep = \"36500d\"\n\
         array_bytes_max = \"16 MiB\"\n",
    );
    let expected = HistorySettings {
        deadband_percent: 100.0,
        resolution: 1e300,
        every: Some(Duration::from_secs(86_400)),
        keep: Some(Duration::from_secs(36_500 * 86_400)),
        array_bytes_max: 16 << 20,
    };
    assert_eq!(most, expected);
    let none = settings("every = \"none\"\nkeep = \"none\"\n");
    assert_eq!(none, HistorySettings::default());
}

#[test]
fn history_sections_keep_the_order_of_the_files() {
    let a = "[[history]]\nvariables = \"boiler/debug/**\"\nrecord = false\n\
             [[history]]\nvariables = \"boiler/**\"\nkeep = \"2h\"\n";
    let b = "[[history]]\nvariables = \"**\"\n";
    let plan = parse_with(&[("a.toml", a), ("b.toml", b)], &LoadOptions::default()).unwrap();
    let two_hours = HistorySettings {
        keep: Some(Duration::from_secs(7_200)),
        ..HistorySettings::default()
    };
    let expected = [
        rule("boiler/debug/**", None),
        rule("boiler/**", Some(two_hours)),
        rule("**", Some(HistorySettings::default())),
    ];
    assert_eq!(plan.history.unwrap().rules, expected);
}

#[test]
fn history_section_after_one_that_matches_first_is_refused() {
    let section = |pattern: &str| format!("[[history]]\nvariables = \"{pattern}\"\n");
    let both = |first: &str, second: &str| {
        let (a, b) = (section(first), section(second));
        parse_with(&[("a.toml", &a), ("b.toml", &b)], &LoadOptions::default())
    };
    for (first, second) in [
        ("**", "boiler/level"),
        ("boiler/**", "boiler/debug/**"),
        ("boiler/**", "boiler"),
        ("boiler/*/**", "boiler/*/level"),
        ("boiler/level", "boiler/level"),
    ] {
        let expected = format!(
            "b.toml:2:13 \"{second}\" has no effect, because \"{first}\" at a.toml:2:13 matches the \
             same variables first; put this section before that one, or remove it"
        );
        assert_eq!(both(first, second).unwrap_err().to_string(), expected);
    }
    for (first, second) in [
        ("boiler/level", "**"),
        ("boiler/debug/**", "boiler/**"),
        ("boiler/**", "boiler2/level"),
        ("boiler/*", "boiler/**"),
    ] {
        assert!(both(first, second).is_ok(), "{first} before {second}");
    }
}

#[test]
fn patterns_of_one_history_section_may_overlap() {
    let found = history("[[history]]\nvariables = [\"**\", \"boiler/level\"]\n");
    assert_eq!(found.rules.len(), 2);
}

#[test]
fn history_is_beside_the_store_unless_the_files_name_a_folder() {
    let folder = |engine: &str| {
        let text = format!("[engine]\n{engine}\n[[history]]\nvariables = \"**\"\n");
        history(&text).folder
    };
    for (engine, expected) in [
        ("", "history"),
        ("store = \"none\"", "history"),
        ("store = \"/data/plant.db\"", "/data/plant.history"),
        ("store = \"/data/line.1\"", "/data/line.1.history"),
        ("store = \"/data/plant\"", "/data/plant.history"),
        (
            "store = \"/data/plant.history\"",
            "/data/plant.history.history",
        ),
        ("history = \"rows\"\nstore = \"/data/plant.db\"", "rows"),
        ("history = \"/rows\"", "/rows"),
    ] {
        assert_eq!(folder(engine).to_str(), Some(expected), "{engine}");
    }
}

#[test]
fn history_moves_with_the_store_unless_the_files_name_a_folder() {
    let file = |path: &str| StoreChoice::File(path.into());
    let sections = "[[history]]\nvariables = \"**\"\n";
    let folder = |sut: &DeploymentPlan| sut.history.as_ref().unwrap().folder.clone();
    let mut sut = parse(&format!("[engine]\nstore = \"/a/b.db\"\n{sections}"));
    sut.set_store(file("/state/engine-5850.db"));
    assert_eq!(sut.engine.store, file("/state/engine-5850.db"));
    assert_eq!(folder(&sut).to_str(), Some("/state/engine-5850.history"));
    sut.set_store(StoreChoice::Off);
    assert_eq!(folder(&sut).to_str(), Some("history"));
    let mut sut = parse(&format!("[engine]\nhistory = \"/rows\"\n{sections}"));
    sut.set_store(file("/state/engine-5850.db"));
    assert_eq!(folder(&sut).to_str(), Some("/rows"));
    let mut sut = parse("");
    sut.set_store(file("/state/engine-5850.db"));
    assert_eq!(sut.history, None);
}
