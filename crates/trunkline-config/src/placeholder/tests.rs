use super::*;

fn env() -> Env {
    let mut env = Env::default();
    env.add("rack", Param::Integer(2));
    env.add("ch", Param::Integer(7));
    env.add("tag", Param::Text("FV101".into()));
    env.add("max", Param::Float(2.5));
    env
}

fn expand(text: &str) -> Result<String, String> {
    let template = TextTemplate::parse(text).map_err(|error| error.to_string())?;
    template.expand(&env()).map_err(|error| error.to_string())
}

#[test]
fn placeholders_are_filled_in() {
    assert_eq!(expand("rack{rack}/ch{ch:03}").unwrap(), "rack2/ch007");
    assert_eq!(expand("{tag} at {max}").unwrap(), "FV101 at 2.5");
    assert_eq!(expand("{{{ch}}}").unwrap(), "{7}");
    assert_eq!(expand("plain").unwrap(), "plain");
    assert_eq!(expand("").unwrap(), "");
}

#[test]
fn arithmetic_has_the_usual_precedence() {
    assert_eq!(expand("{(ch - 1) * 2}").unwrap(), "12");
    assert_eq!(expand("{1 + 2 * 3 - 4 / 2 % 3}").unwrap(), "5");
    assert_eq!(expand("{10 - 3 - 2}").unwrap(), "5");
    assert_eq!(expand("{--ch}{ -ch:03}").unwrap(), "7-07");
    assert_eq!(expand("{7 / 2}{ -7 / 2 }").unwrap(), "3-3");
    assert_eq!(expand("{ rack*100+ch }").unwrap(), "207");
}

#[test]
fn invalid_placeholders_are_reported() {
    let deep = format!("{{{}1{}}}", "(".repeat(40), ")".repeat(40));
    let minus = format!("{{{}1}}", "-".repeat(200));
    let long = format!("{{{}}}", "1+".repeat(200));
    for (text, reason) in [
        (
            "{ch",
            "\"{\" has no matching brace; for a literal brace, write {{",
        ),
        (
            "ch}",
            "\"}\" has no matching brace; for a literal brace, write }}",
        ),
        (
            "{}",
            "a placeholder is empty; for a literal brace, write {{",
        ),
        ("{ch:3}", "\":3\" is not a width from :01 to :020"),
        ("{ch:021}", "\":021\" is not a width from :01 to :020"),
        ("{ch:0+1}", "\":0+1\" is not a width from :01 to :020"),
        (
            "{ch +}",
            "a placeholder ends where a number or parameter is expected",
        ),
        (
            "{(ch}",
            "a placeholder ends where a number or parameter is expected",
        ),
        (
            "{(ch 1)}",
            "'1' is not expected in a placeholder; for a literal brace, write {{",
        ),
        (
            "{ch ! 2}",
            "'!' is not expected in a placeholder; for a literal brace, write {{",
        ),
        (
            "{* 2}",
            "'*' is not expected in a placeholder; for a literal brace, write {{",
        ),
        (
            "{2ch}",
            "'c' is not expected in a placeholder; for a literal brace, write {{",
        ),
        (
            "{rak}",
            "there is no parameter \"rak\"; did you mean \"rack\"?",
        ),
        (
            "{zoom + 1}",
            "there is no parameter \"zoom\"; for a literal brace, write {{",
        ),
        (
            "{tag + 1}",
            "\"tag\" is not a whole number; use it without arithmetic and without a width",
        ),
        (
            "{tag:03}",
            "\"FV101\" is not a whole number; use it without arithmetic and without a width",
        ),
        ("{ch / 0}", "division by zero"),
        ("{ch % (1 - 1)}", "division by zero"),
        ("{9223372036854775807 + 1}", "the number is too large"),
        ("{99999999999999999999}", "the number is too large"),
        (
            "{(-9223372036854775807 - 1) / -1}",
            "the number is too large",
        ),
        (deep.as_str(), "a placeholder is nested too deeply"),
        (minus.as_str(), "a placeholder is nested too deeply"),
        (long.as_str(), "a placeholder is longer than 256 bytes"),
    ] {
        assert_eq!(expand(text).unwrap_err(), reason, "{text}");
    }
}

#[test]
fn single_placeholder_keeps_the_type_of_its_value() {
    let value = |text: &str| TextTemplate::parse(text).unwrap().value(&env());
    assert_eq!(value("{max}"), Some(Ok(Param::Float(2.5))));
    assert_eq!(value("{ch * 2}"), Some(Ok(Param::Integer(14))));
    assert_eq!(value("{ch:03}"), None);
    assert_eq!(value("{ch} "), None);
}

#[test]
fn rows_are_the_product_of_the_axes_with_the_last_axis_fastest() {
    let range = |name: &str, first, last| (name.into(), Values::Range { first, last });
    let texts = ["a", "b"].map(|text| Param::Text(text.into())).to_vec();
    let rows = Rows::new(vec![
        Axis {
            columns: vec![range("x", 1, 2)],
        },
        Axis {
            columns: vec![("t".into(), Values::List(texts)), range("n", 5, 6)],
        },
    ]);
    assert_eq!(rows.len(), 4);
    let template = TextTemplate::parse("{rack}{x}{t}{n}").unwrap();
    let mut all = Vec::new();
    rows.for_each(&env(), |env| {
        all.push(template.expand(env).unwrap());
        true
    });
    assert_eq!(all, ["21a5", "21b6", "22a5", "22b6"]);
    let mut visited = 0;
    rows.for_each(&env(), |_| {
        visited += 1;
        false
    });
    assert_eq!(visited, 1);
}

#[test]
fn range_length_is_computed_without_expanding_it() {
    let all = Values::Range {
        first: i64::MIN,
        last: i64::MAX,
    };
    assert_eq!(all.len(), u64::MAX);
    let rows = Rows::new(vec![
        Axis {
            columns: vec![("a".into(), all.clone())],
        },
        Axis {
            columns: vec![("b".into(), all)],
        },
    ]);
    assert!(rows.len() > 1 << 100);
    assert_eq!(Values::parse_range("1..4"), Some((1, 4)));
    assert_eq!(Values::parse_range(" -3 .. -1 "), Some((-3, -1)));
    assert_eq!(Values::parse_range("1-4"), None);
    assert_eq!(Values::parse_range("1.5..4"), None);
}
