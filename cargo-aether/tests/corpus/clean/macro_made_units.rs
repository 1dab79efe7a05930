//! Types of units that a macro makes
//! how: clean

use aether::prelude::*;

macro_rules! units {
    ($($name:ident($per_base:expr, $sign:literal)),* $(,)?) => {
        $(
            #[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
            struct $name(f64);

            impl $name {
                fn base(self) -> f64 {
                    self.0 * $per_base
                }

                fn of_base(base: f64) -> Self {
                    Self(base / $per_base)
                }
            }

            impl std::fmt::Display for $name {
                fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                    write!(f, "{:.3} {}", self.0, $sign)
                }
            }
        )*

        fn all(base: f64) -> Vec<String> {
            vec![$($name::of_base(base).to_string()),*]
        }
    };
}

units!(Metre(1.0, "m"), Foot(0.3048, "ft"), Mile(1609.344, "mi"));

fn converted(feet: f64) -> String {
    let length = Foot(feet);
    let longer = length.base() > Mile(1.0).base();
    format!("{length} = {} {longer}", all(length.base()).join(" = "))
}

#[workflow]
pub async fn macro_made_units(cx: &mut Cx, _input: u64) -> Result<String> {
    let feet = cx.random().await % 10_000;
    Ok(converted(feet as f64))
}
