use proptest::prelude::*;

use super::{Scaling, ScalingError};
use crate::{DataType, Value};

const LINEAR: Scaling = Scaling::Linear {
    raw: [0.0, 4095.0],
    eng: [-50.0, 150.0],
};
const CURRENT: Scaling = Scaling::Linear {
    raw: [4.0, 20.0],
    eng: [0.0, 100.0],
};
const FLOW: Scaling = Scaling::SquareRoot {
    raw: [4.0, 20.0],
    eng: [10.0, 90.0],
};

fn up(scaling: Scaling, raw: f64) -> f64 {
    match scaling.to_engineering(&Value::F64(raw), &DataType::F64) {
        Ok(Value::F64(eng)) => eng,
        other => panic!("{other:?}"),
    }
}

fn down(scaling: Scaling, eng: f64) -> f64 {
    match scaling.to_raw(&Value::F64(eng), &DataType::F64) {
        Ok(Value::F64(raw)) => raw,
        other => panic!("{other:?}"),
    }
}

/// `eng = ez + (raw - rz) * (ef - ez) / (rf - rz)`, computed by hand.
///
/// Behaviour: H-01.
#[test]
fn linear_scaling_maps_raw_zero_and_full_to_engineering_zero_and_full() {
    for (scaling, raw, eng) in [
        (LINEAR, 0.0, -50.0),
        (LINEAR, 4095.0, 150.0),
        (LINEAR, 2047.5, 50.0),
        (LINEAR, 819.0, -10.0), // a fifth of the way: -50 + 200/5
        (CURRENT, 4.0, 0.0),
        (CURRENT, 12.0, 50.0),
        (CURRENT, 20.0, 100.0),
        (CURRENT, 3.6, -2.5),   // under range continues: (3.6 - 4) * 100 / 16
        (CURRENT, 22.0, 112.5), // so does over range
        (
            Scaling::Linear {
                raw: [0.0, 10.0],
                eng: [100.0, 0.0],
            },
            2.5,
            75.0,
        ),
        (
            Scaling::Linear {
                raw: [0.0, 100.0],
                eng: [0.0, 100.0],
            },
            7.0,
            7.0,
        ),
    ] {
        assert!(
            (up(scaling, raw) - eng).abs() < 1e-12,
            "{scaling:?} of {raw}"
        );
        assert!(
            (down(scaling, eng) - raw).abs() < 1e-12,
            "{scaling:?} back from {eng}"
        );
    }
    // Integers are exact.
    assert_eq!(up(LINEAR, 4095.0), 150.0);
    assert_eq!(
        up(
            Scaling::Linear {
                raw: [0.0, 3.0],
                eng: [0.0, 3.0]
            },
            1.0
        ),
        1.0
    );
}

/// Behaviour: H-01.
#[test]
fn raw_full_must_be_greater_than_raw_zero() {
    for raw in [
        [1.0, 1.0],
        [2.0, 1.0],
        [f64::NAN, 1.0],
        [0.0, f64::INFINITY],
        [f64::MIN, f64::MAX],
    ] {
        for scaling in [
            Scaling::Linear {
                raw,
                eng: [0.0, 1.0],
            },
            Scaling::SquareRoot {
                raw,
                eng: [0.0, 1.0],
            },
        ] {
            let error = scaling.check(&DataType::F64).unwrap_err();
            assert!(matches!(error, ScalingError::RawRange { .. }), "{error}");
        }
    }
    for eng in [[1.0, 1.0], [f64::NAN, 0.0], [0.0, f64::INFINITY]] {
        let error = Scaling::Linear {
            raw: [0.0, 1.0],
            eng,
        }
        .check(&DataType::F64)
        .unwrap_err();
        assert!(
            matches!(error, ScalingError::EngineeringRange { .. }),
            "{error}"
        );
    }
    assert_eq!(LINEAR.check(&DataType::I16), Ok(()));
}

/// `eng = b + m * sqrt(raw - o)` with b = 10, m = (90 - 10) / sqrt(20 - 4) = 20, o = 4.
///
/// Behaviour: H-02.
#[test]
fn square_root_scaling_follows_its_formula() {
    for (raw, eng) in [
        (4.0, 10.0),                 // 10 + 20 * 0
        (5.0, 30.0),                 // 10 + 20 * 1
        (8.0, 50.0),                 // 10 + 20 * 2
        (13.0, 70.0),                // 10 + 20 * 3
        (20.0, 90.0),                // 10 + 20 * 4
        (29.0, 110.0),               // 10 + 20 * 5, above full
        (6.0, 38.284_271_247_461_9), // 10 + 20 * 1.41421356237310
    ] {
        assert!((up(FLOW, raw) - eng).abs() < 1e-12, "{raw}");
        assert!((down(FLOW, eng) - raw).abs() < 1e-12, "back from {eng}");
    }
    let falling = Scaling::SquareRoot {
        raw: [0.0, 100.0],
        eng: [50.0, 0.0],
    };
    assert_eq!(up(falling, 25.0), 25.0); // 50 - 5 * 5
    assert_eq!(down(falling, 25.0), 25.0);
}

/// Behaviour: H-02.
#[test]
fn square_root_scaling_has_no_values_below_its_zero() {
    let below = FLOW
        .to_engineering(&Value::F64(3.9), &DataType::F64)
        .unwrap_err();
    assert_eq!(
        below,
        ScalingError::BelowZero {
            value: 3.9,
            zero: 4.0
        }
    );
    let back = FLOW.to_raw(&Value::F64(9.0), &DataType::F64).unwrap_err();
    assert_eq!(
        back.to_string(),
        "9 is outside the range of square root scaling, which begins at 10"
    );
    let falling = Scaling::SquareRoot {
        raw: [0.0, 100.0],
        eng: [50.0, 0.0],
    };
    assert!(falling.to_raw(&Value::F64(51.0), &DataType::F64).is_err());
}

/// Behaviour: H-03.
#[test]
fn booleans_are_inverted() {
    for on in [false, true] {
        let raw = Value::Bool(on);
        let eng = Scaling::Invert
            .to_engineering(&raw, &DataType::Bool)
            .unwrap();
        assert_eq!(eng, Value::Bool(!on));
        assert_eq!(Scaling::Invert.to_raw(&eng, &DataType::Bool), Ok(raw));
    }
    assert_eq!(Scaling::Invert.check(&DataType::Bool), Ok(()));
    assert!(Scaling::Invert.check(&DataType::U32).is_err());
}

/// First XOR with the invert mask, then AND with the select mask.
///
/// Behaviour: H-03.
#[test]
fn bit_fields_are_inverted_then_selected() {
    let scaling = Scaling::BitField {
        invert: 0b0000_1111,
        select: 0b0011_1100,
    };
    for (raw, eng) in [
        (0b0000_0000, 0b0000_1100), // 0000_1111 & 0011_1100
        (0b1010_1010, 0b0010_0100), // 1010_0101 & 0011_1100
        (0xffff_ffff, 0b0011_0000), // ...1111_0000 & 0011_1100
    ] {
        let scaled = scaling.to_engineering(&Value::U32(raw), &DataType::U32);
        assert_eq!(scaled, Ok(Value::U32(eng)));
        // The inverse preserves the selected bits and clears the others.
        let back = scaling.to_raw(&Value::U32(eng), &DataType::U32);
        assert_eq!(back, Ok(Value::U32(raw & 0b0011_1100)));
    }
    assert_eq!(scaling.check(&DataType::U32), Ok(()));
    let error = scaling.check(&DataType::I32).unwrap_err();
    assert_eq!(error.to_string(), "bit field scaling needs u32, not i32");
}

#[test]
fn results_are_rounded_to_integers_and_must_fit() {
    let thirds = Scaling::Linear {
        raw: [0.0, 3.0],
        eng: [0.0, 2.0],
    };
    let scaled = |raw, ty: &DataType| thirds.to_engineering(&Value::I16(raw), ty);
    assert_eq!(scaled(1, &DataType::U8), Ok(Value::U8(1))); // 0.67
    assert_eq!(scaled(2, &DataType::U8), Ok(Value::U8(1))); // 1.33
    assert_eq!(scaled(-1, &DataType::I8), Ok(Value::I8(-1)));
    assert_eq!(scaled(3, &DataType::F32), Ok(Value::F32(2.0)));
    let error = scaled(-3, &DataType::U8).unwrap_err();
    assert_eq!(error.to_string(), "-3 scales to -2, which u8 cannot hold");
    assert!(scaled(300, &DataType::I8).is_err());
}

#[test]
fn the_limits_of_every_integer_type_are_exact() {
    let same = Scaling::Linear {
        raw: [0.0, 1.0],
        eng: [0.0, 1.0],
    };
    let scaled = |raw: f64, ty: &DataType| same.to_engineering(&Value::F64(raw), ty);
    for (ty, low, high, past) in [
        (DataType::I8, -128.0, 127.0, 128.0),
        (DataType::I16, -32768.0, 32767.0, 32768.0),
        (
            DataType::I32,
            -2_147_483_648.0,
            2_147_483_647.0,
            2_147_483_648.0,
        ),
        (
            DataType::I64,
            -9_223_372_036_854_775_808.0,
            9_223_372_036_854_774_784.0,
            9_223_372_036_854_775_808.0,
        ),
        (DataType::U8, 0.0, 255.0, 256.0),
        (DataType::U16, 0.0, 65535.0, 65536.0),
        (DataType::U32, 0.0, 4_294_967_295.0, 4_294_967_296.0),
        (
            DataType::U64,
            0.0,
            18_446_744_073_709_549_568.0,
            18_446_744_073_709_551_616.0,
        ),
    ] {
        assert_eq!(scaled(low, &ty).unwrap().as_f64(), Some(low), "{ty}");
        assert_eq!(scaled(high, &ty).unwrap().as_f64(), Some(high), "{ty}");
        assert!(scaled(past, &ty).is_err(), "{ty}");
        assert!(scaled(f64::NAN, &ty).is_err(), "{ty}");
        assert!(scaled(f64::INFINITY, &ty).is_err(), "{ty}");
    }
}

#[test]
fn special_numbers_pass_through_to_floats_and_none_are_created() {
    assert!(up(LINEAR, f64::NAN).is_nan());
    assert_eq!(up(LINEAR, f64::INFINITY), f64::INFINITY);
    let steep = Scaling::Linear {
        raw: [0.0, 1.0],
        eng: [0.0, 1e308],
    };
    assert!(
        steep
            .to_engineering(&Value::F64(10.0), &DataType::F64)
            .is_err()
    );
    let wide = Scaling::Linear {
        raw: [0.0, 1e200],
        eng: [0.0, 1e200],
    };
    assert_eq!(up(wide, 1e150), 1e150);
    assert!(
        steep
            .to_engineering(&Value::F64(1.0), &DataType::F32)
            .is_err()
    );
}

#[test]
fn value_of_the_wrong_kind_is_refused() {
    for (scaling, value) in [
        (LINEAR, Value::Bool(true)),
        (LINEAR, Value::String("1".into())),
        (FLOW, Value::Enum(1)),
        (Scaling::Invert, Value::U32(1)),
        (
            Scaling::BitField {
                invert: 0,
                select: 0,
            },
            Value::I32(1),
        ),
    ] {
        assert!(scaling.to_engineering(&value, &DataType::F64).is_err());
        assert!(scaling.to_raw(&value, &DataType::F64).is_err());
    }
    for ty in [DataType::Bool, DataType::String, DataType::Timestamp] {
        assert!(LINEAR.check(&ty).is_err());
        assert!(LINEAR.to_engineering(&Value::F64(1.0), &ty).is_err());
    }
}

proptest! {
    #[test]
    fn value_scaled_to_engineering_and_back_is_unchanged(
        zero in -1e6..1e6_f64,
        span in 1e-3..1e6_f64,
        eng in [-1e6..1e6_f64, -1e6..1e6_f64],
        part in 0.0..1.0_f64,
    ) {
        prop_assume!((eng[0] - eng[1]).abs() > 1e-3);
        let raw = [zero, zero + span];
        let value = zero + span * part;
        for scaling in [Scaling::Linear { raw, eng }, Scaling::SquareRoot { raw, eng }] {
            prop_assert_eq!(scaling.check(&DataType::F64), Ok(()));
            let there = up(scaling, value);
            let slack = 1e-6 * (1.0 + (eng[1] - eng[0]).abs());
            let (low, high) = (eng[0].min(eng[1]) - slack, eng[0].max(eng[1]) + slack);
            prop_assert!(there >= low && there <= high);
            let back = match scaling.to_raw(&Value::F64(there), &DataType::F64) {
                Ok(Value::F64(back)) => back,
                // Rounding may move a value at the start of the range below its zero.
                _ => { prop_assert!(part < 1e-6); continue }
            };
            prop_assert!((back - value).abs() <= 1e-3 * span, "{} became {}", value, back);
        }
    }

    #[test]
    fn no_numbers_make_scaling_panic(
        raw in [any::<f64>(), any::<f64>()],
        eng in [any::<f64>(), any::<f64>()],
        value in prop::num::f64::ANY,
    ) {
        for scaling in [Scaling::Linear { raw, eng }, Scaling::SquareRoot { raw, eng }] {
            for ty in [DataType::I8, DataType::U64, DataType::F32, DataType::F64] {
                let _ = scaling.check(&ty);
                let _ = scaling.to_engineering(&Value::F64(value), &ty);
                let _ = scaling.to_raw(&Value::F64(value), &ty);
            }
        }
    }
}
