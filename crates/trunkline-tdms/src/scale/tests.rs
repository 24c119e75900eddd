use super::*;
use crate::data_type::TdmsType;
use crate::file::TdmsFile;
use crate::writer::{Arrangement, Writer, WriterOptions};

/// Reads a channel with these properties and the raw numbers 0, 1, 2, 10.
fn scaled(at: &ObjectPath, properties: &[(&str, PropertyValue)]) -> Result<Vec<f64>, Scaling> {
    let mut writer = Writer::new(WriterOptions::default());
    let channel = writer.channel("g", "c", TdmsType::I16).unwrap();
    for (name, value) in properties {
        writer.set(at, *name, value.clone()).unwrap();
    }
    let mut bytes = Vec::new();
    let data = [(channel, (&[0_i16, 1, 2, 10]).into())];
    writer
        .write(&data, Arrangement::Contiguous, &mut bytes)
        .unwrap();
    let file = TdmsFile::open(&bytes).unwrap();
    let channel = file.channel(&ObjectPath::channel("g", "c")).unwrap();
    let scaling = channel.scaling();
    let mut out = [0.0; 5];
    assert_eq!(channel.read_scaled_into(&scaling, 0, &mut out).unwrap(), 4);
    if let Scaling::Unknown(_) = scaling {
        assert_eq!(out[..4], [0.0, 1.0, 2.0, 10.0]);
        return Err(scaling);
    }
    // Reading from the middle gives the same values.
    let mut later = [0.0; 2];
    assert_eq!(
        channel.read_scaled_into(&scaling, 2, &mut later).unwrap(),
        2
    );
    assert_eq!(later, out[2..4]);
    Ok(out[..4].to_vec())
}

fn channel() -> ObjectPath {
    ObjectPath::channel("g", "c")
}

fn linear() -> Vec<(&'static str, PropertyValue)> {
    vec![
        ("NI_Scale[0]_Scale_Type", "Linear".into()),
        ("NI_Scale[0]_Linear_Slope", 2.0.into()),
        ("NI_Scale[0]_Linear_Y_Intercept", 1.0.into()),
    ]
}

#[test]
fn linear_scale_may_belong_to_channel_group_or_file() {
    for path in [channel(), ObjectPath::group("g"), ObjectPath::File] {
        assert_eq!(scaled(&path, &linear()), Ok(vec![1.0, 3.0, 5.0, 21.0]));
    }
    assert_eq!(scaled(&channel(), &[]), Ok(vec![0.0, 1.0, 2.0, 10.0]));
}

#[test]
fn values_marked_as_scaled_are_left_unchanged() {
    let mut properties = linear();
    properties.push(("NI_Scaling_Status", "scaled".into()));
    assert_eq!(
        scaled(&channel(), &properties),
        Ok(vec![0.0, 1.0, 2.0, 10.0])
    );
}

#[test]
fn polynomials_tables_and_sums_are_chained() {
    let mut properties = linear();
    properties.extend([
        ("NI_Number_Of_Scales", 5_i32.into()),
        ("NI_Scale[1]_Scale_Type", "Polynomial".into()),
        ("NI_Scale[1]_Polynomial_Coefficients_Size", 3_u32.into()),
        ("NI_Scale[1]_Polynomial_Coefficients[0]", 1.0.into()),
        ("NI_Scale[1]_Polynomial_Coefficients[1]", 0.0.into()),
        ("NI_Scale[1]_Polynomial_Coefficients[2]", 0.5.into()),
        ("NI_Scale[1]_Polynomial_Input_Source", 0_u32.into()),
        ("NI_Scale[2]_Scale_Type", "Table".into()),
        ("NI_Scale[2]_Table_Pre_Scaled_Values_Size", 3_u32.into()),
        ("NI_Scale[2]_Table_Pre_Scaled_Values[0]", 2.0.into()),
        ("NI_Scale[2]_Table_Pre_Scaled_Values[1]", 1.0.into()),
        ("NI_Scale[2]_Table_Pre_Scaled_Values[2]", 0.5.into()),
        ("NI_Scale[2]_Table_Scaled_Values_Size", 3_u32.into()),
        ("NI_Scale[2]_Table_Scaled_Values[0]", 20.0.into()),
        ("NI_Scale[2]_Table_Scaled_Values[1]", 30.0.into()),
        ("NI_Scale[2]_Table_Scaled_Values[2]", 0.0.into()),
        ("NI_Scale[2]_Table_Input_Source", 0xffff_ffff_u32.into()),
        ("NI_Scale[3]_Scale_Type", "Subtract".into()),
        (
            "NI_Scale[3]_Subtract_Left_Operand_Input_Source",
            1_u32.into(),
        ),
        (
            "NI_Scale[3]_Subtract_Right_Operand_Input_Source",
            2_u32.into(),
        ),
        ("NI_Scale[4]_Scale_Type", "Add".into()),
        ("NI_Scale[4]_Add_Left_Operand_Input_Source", 3_u32.into()),
        ("NI_Scale[4]_Add_Right_Operand_Input_Source", 3_u32.into()),
    ]);
    let expected = [(1.0, 0.0), (3.0, 30.0), (5.0, 20.0), (21.0, 20.0)];
    let expected: Vec<f64> = expected
        .iter()
        .map(|(x, table)| 2.0 * (table - (1.0 + 0.5 * x * x)))
        .collect();
    assert_eq!(scaled(&channel(), &properties), Ok(expected));
}

#[test]
fn a_polynomial_without_coefficients_is_zero() {
    let properties = [
        ("NI_Scale[0]_Scale_Type", "Polynomial".into()),
        ("NI_Scale[0]_Polynomial_Coefficients_Size", 0_u32.into()),
    ];
    assert_eq!(scaled(&channel(), &properties), Ok(vec![0.0; 4]));
}

#[test]
fn unsupported_scales_return_raw_numbers_and_are_reported() {
    let of = |properties: &[(&str, PropertyValue)]| match scaled(&channel(), properties) {
        Err(Scaling::Unknown(error)) => error,
        other => panic!("{other:?}"),
    };
    let kind = Text::from("Acceleration");
    assert_eq!(
        of(&[("NI_Scale[0]_Scale_Type", "Acceleration".into())]),
        ScaleError::UnknownKind { scale: 0, kind }
    );
    assert_eq!(
        of(&linear()[..2]),
        ScaleError::MissingProperty {
            name: "NI_Scale[0]_Linear_Y_Intercept".into()
        }
    );
    let mut own = linear();
    own.push(("NI_Scale[0]_Linear_Input_Source", 0_u32.into()));
    assert_eq!(of(&own), ScaleError::Cycle { scale: 0 });
    let table = [
        ("NI_Scale[0]_Scale_Type", "Table".into()),
        ("NI_Scale[0]_Table_Pre_Scaled_Values_Size", u32::MAX.into()),
    ];
    assert_eq!(
        of(&table),
        ScaleError::MissingProperty {
            name: "NI_Scale[0]_Table_Pre_Scaled_Values[0]".into()
        }
    );
    let both = [
        ("NI_Scale[1]_Scale_Type", "AdvancedAPI".into()),
        ("NI_Scale[1]_AdvancedAPI_Input_Source", 0_u32.into()),
        ("NI_Scale[0]_Scale_Type", "AdvancedAPI".into()),
        ("NI_Scale[0]_AdvancedAPI_Input_Source", 1_u32.into()),
    ];
    assert!(matches!(of(&both), ScaleError::Cycle { .. }));
}

#[test]
fn thousands_of_scales_take_no_stack() {
    let mut properties: Vec<(String, PropertyValue)> = Vec::new();
    for scale in 0..20_000 {
        properties.push((
            format!("NI_Scale[{scale}]_Scale_Type"),
            "AdvancedAPI".into(),
        ));
        if scale > 0 {
            let name = format!("NI_Scale[{scale}]_AdvancedAPI_Input_Source");
            properties.push((name, (scale - 1_u32).into()));
        }
    }
    let properties = properties.into_iter().map(|(n, v)| (Text::from(n), v));
    let chain = ScaleChain::of(&properties.collect()).unwrap().unwrap();
    assert_eq!(chain.steps.len(), 20_001);
}

#[test]
fn sensors_give_the_values_of_the_tables() {
    let of = |kind: &str, numbers: &[(&str, f64)], codes: &[(&str, u32)]| {
        let mut properties = vec![(
            "NI_Scale[0]_Scale_Type".to_owned(),
            PropertyValue::from(kind),
        )];
        for (name, value) in numbers {
            properties.push((format!("NI_Scale[0]_{kind}_{name}"), (*value).into()));
        }
        for (name, value) in codes {
            properties.push((format!("NI_Scale[0]_{kind}_{name}"), (*value).into()));
        }
        let properties: Vec<_> = properties.iter().map(|(n, v)| (&**n, v.clone())).collect();
        scaled(&channel(), &properties).unwrap()
    };
    let near = |found: f64, expected: f64, most: f64| {
        assert!(
            (found - expected).abs() <= most,
            "{found}, and not {expected}"
        );
    };
    // NIST ITS-90: type K, 10 degrees are 0.397 mV; type J, 10 degrees are 0.507 mV.
    let to_microvolts = [("Thermocouple_Type", 10_073), ("Scaling_Direction", 1)];
    near(of("Thermocouple", &[], &to_microvolts)[3], 397.0, 0.5);
    near(
        of("Thermocouple", &[], &[("Scaling_Direction", 1)])[3],
        507.0,
        0.5,
    );
    near(
        of("Thermocouple", &[], &[("Thermocouple_Type", 10_073)])[3],
        0.25,
        0.05,
    );
    // IEC 60751: a Pt100 has 60.26 ohms at -100 degrees, and 103.90 ohms at 10.
    let pt100 = |r0: f64| {
        let numbers = [
            ("Current_Excitation", 1.0),
            ("R0_Nominal_Resistance", r0),
            ("A", 3.9083e-3),
            ("B", -5.775e-7),
            ("C", -4.183e-12),
        ];
        of("RTD", &numbers, &[("Resistance_Configuration", 4)])[3]
    };
    near(pt100(10.0 / 0.602_558), -100.0, 0.01);
    near(pt100(10.0 / 1.039_025), 10.0, 0.01);
    near(pt100(10.0), 0.0, 1e-9);
}
