//! Reading a value that an older build recorded: as today's type, or as one of its former types, which is then converted.
//!
//! Promise: what today's code recorded is read as today's type. A former type is asked only where today's type cannot read
//! the value, or would drop members of it.

use std::fmt::Write as _;

use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

/// A former type of `T`: what was recorded as one is read as a `T`. Implemented where `T` is `From` it.
#[diagnostic::on_unimplemented(
    message = "`{T}` cannot accept what was recorded as `{Self}`",
    label = "no former type of `{T}`",
    note = "implement `From<{Self}> for {T}`, and derive `serde::Deserialize` for `{Self}`"
)]
pub trait FormerOf<T> {
    /// Reads a recorded value, and converts it.
    ///
    /// # Errors
    /// What the deserializer said.
    fn read(value: &Value) -> Result<T, serde_json::Error>;
}

#[diagnostic::do_not_recommend]
impl<T: From<O>, O: DeserializeOwned> FormerOf<T> for O {
    fn read(value: &Value) -> Result<T, serde_json::Error> {
        O::deserialize(value).map(T::from)
    }
}

/// Name of a former type, and how it is read.
pub type Former<T> = (&'static str, fn(&Value) -> Result<T, serde_json::Error>);

/// How `O`, a former type of `T`, is read. Generated code.
///
/// # Errors
/// What the deserializer said.
pub fn former<O: FormerOf<T>, T>(value: &Value) -> Result<T, serde_json::Error> {
    O::read(value)
}

/// A type with former types. Implemented by `#[accepts(..)]`.
pub trait Shaped: Serialize + Sized + 'static {
    /// The type as it is declared today.
    type Today: DeserializeOwned + Into<Self>;
    /// Its former types, in the order in which they are tried.
    fn former() -> &'static [Former<Self>];
}

/// Reads a `T` or one of its former types. Generated code.
///
/// # Errors
/// What each of the types says of the value.
pub fn read_shapes<'de, D: Deserializer<'de>, T: Shaped>(deserializer: D) -> Result<T, D::Error> {
    let value = Value::deserialize(deserializer)?;
    let today: Result<T, _> = T::Today::deserialize(&value).map(Into::into);
    let keeps_all = |today: &T| serde_json::to_value(today).is_ok_and(|written| keeps(&value, &written));
    let today = match today {
        Ok(today) if keeps_all(&today) => return Ok(today),
        today => today,
    };
    let mut refusals = String::new();
    for (name, read) in T::former() {
        match read(&value) {
            Ok(converted) => return Ok(converted),
            Err(error) => {
                let _to_a_string = write!(refusals, "; as `{name}`: {error}");
            }
        }
    }
    today.map_err(|error| D::Error::custom(format_args!("{error}{refusals}")))
}

/// Whether all members of the recorded value are in what was written of it again.
fn keeps(recorded: &Value, written: &Value) -> bool {
    match (recorded, written) {
        (Value::Object(recorded), Value::Object(written)) => recorded.iter().all(|(name, value)| {
            value.is_null() || written.get(name).is_some_and(|written| keeps(value, written))
        }),
        (Value::Array(recorded), Value::Array(written)) => {
            recorded.len() == written.len()
                && recorded.iter().zip(written).all(|(recorded, written)| keeps(recorded, written))
        }
        // Serde reads an array as a struct, too.
        (Value::Object(recorded), _) => recorded.is_empty(),
        (Value::Array(recorded), _) => recorded.is_empty(),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Today: a member has another name.
    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Receipt {
        #[serde(default)]
        cents: u32,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        note: Option<String>,
    }

    #[derive(Deserialize)]
    struct OldReceipt {
        euros: u32,
    }

    impl From<OldReceipt> for Receipt {
        fn from(old: OldReceipt) -> Self {
            Self { cents: old.euros * 100, note: None }
        }
    }

    impl Shaped for Receipt {
        type Today = Self;
        fn former() -> &'static [Former<Self>] {
            &[("OldReceipt", former::<OldReceipt, Self>)]
        }
    }

    fn read(text: &str) -> Result<Receipt, serde_json::Error> {
        read_shapes(&mut serde_json::Deserializer::from_str(text))
    }

    #[test]
    fn a_former_type_is_asked_where_todays_would_drop_a_member() {
        let receipt = |cents| Receipt { cents, note: None };
        assert_eq!(read(r#"{"cents":7,"note":null}"#).unwrap(), receipt(7));
        assert_eq!(read(r#"{"euros":7}"#).unwrap(), receipt(700));
        // No type has a place for it: today's reads what it can, as serde does.
        assert_eq!(read(r#"{"cents":7,"more":1}"#).unwrap(), receipt(7));
    }

    #[test]
    fn what_no_type_reads_is_told_for_each() {
        let error = read("true").unwrap_err().to_string();
        assert!(error.contains("as `OldReceipt`") && error.starts_with("invalid type"), "{error}");
        let error = read(r#"{"cents":"7"}"#).unwrap_err().to_string();
        assert!(error.contains("missing field `euros`"), "{error}");
    }
}
