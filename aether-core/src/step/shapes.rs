//! Reading a value that an older build recorded: as today's type, or as one of its former types, which is then converted.
//!
//! Promise: what today's code recorded is read as today's type. A former type is used only where today's type cannot read
//! the value, or where the former type reads all that today's reads, and a member that today's ignores.

use std::collections::BTreeSet;
use std::fmt::{Display, Write as _};

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
/// What each of the types says of the value, or that none of them reads all that any of them reads.
pub fn read_shapes<'de, D: Deserializer<'de>, T: Shaped>(deserializer: D) -> Result<T, D::Error> {
    let value = Value::deserialize(deserializer)?;
    let read = |value: &Value| T::Today::deserialize(value).map(Into::into);
    let today: T = match read(&value) {
        Ok(today) => today,
        Err(error) => return as_former(&value, &error).map_err(D::Error::custom),
    };
    let Ok(written) = members(&today) else { return Ok(today) };
    let dropped = Members::dropped(&value, &written);
    // Serde reads an array as a struct, too, by the order of its members.
    if dropped.by_position {
        return Ok(as_former(&value, &"").unwrap_or(today));
    }
    if dropped.paths.is_empty() {
        return Ok(today);
    }
    match reads_more(&value, &dropped, &read) {
        Ok(former) => Ok(former.unwrap_or(today)),
        Err(name) => Err(D::Error::custom(format_args!(
            "today's type ignores members that its former type `{name}` reads, and `{name}` ignores others that today's reads: let a former type read both"
        ))),
    }
}

/// The value as the first of the former types that reads it.
fn as_former<T: Shaped>(value: &Value, today: &dyn Display) -> Result<T, String> {
    let mut refusals = today.to_string();
    for (name, read) in T::former() {
        match read(value) {
            Ok(converted) => return Ok(converted),
            Err(error) => {
                let _to_a_string = write!(refusals, "; as `{name}`: {error}");
            }
        }
    }
    Err(refusals)
}

/// The value as the first of the former types that reads all that today's reads, and a member that today's ignores. `Err`
/// names one that reads such a member, but not all.
fn reads_more<T: Shaped>(
    value: &Value,
    dropped: &Members<'_>,
    today: &dyn Fn(&Value) -> Result<T, serde_json::Error>,
) -> Result<Option<T>, &'static str> {
    // Not each member that today's type writes elsewhere is one that it ignores: it may have read it under an alias.
    let mut ignored: Vec<&Path<'_>> = dropped.paths.iter().collect();
    if !ignores(value, &ignored, today) {
        ignored.retain(|path| ignores(value, &[path], today));
    }
    let mut reads_less = None;
    for (name, read) in T::former() {
        let Ok(converted) = read(value) else { continue };
        if ignores(value, &ignored, read) {
            continue;
        }
        let others = Members::of(value).paths;
        let mut others =
            others.iter().filter(|path| !ignored.iter().any(|ignored| path.starts_with(ignored)));
        if others.all(|path| !ignores(value, &[path], read) || ignores(value, &[path], today)) {
            return Ok(Some(converted));
        }
        reads_less.get_or_insert(*name);
    }
    reads_less.map_or(Ok(None), Err)
}

/// The members that are written of a value, only to be compared: the order of a hash map does not show in them, so `cargo
/// aether check` does not enter this function.
fn members<T: Serialize>(value: &T) -> Result<Value, serde_json::Error> {
    serde_json::to_value(value)
}

/// Whether it makes no difference to what is read whether the members at `paths` are there, and what they are.
fn ignores<T: Serialize>(
    value: &Value,
    paths: &[&Path<'_>],
    read: impl Fn(&Value) -> Result<T, serde_json::Error>,
) -> bool {
    let written = |value: &Value| members(&read(value).ok()?).ok();
    let as_it_is = written(value);
    [Change::Remove, Change::Replace].into_iter().all(|change| {
        let mut changed = value.clone();
        paths.iter().for_each(|path| change.at(path, &mut changed));
        written(&changed) == as_it_is
    })
}

/// How many members an object may have to be looked at one by one. A larger one is a map: its values are one, as the items
/// of an array are.
const NAMED: usize = 100;

/// Where a member stands: the names on the way to it, `None` for all items of an array or values of a map.
type Path<'a> = Vec<Option<&'a str>>;

/// Members of a value that are not null.
#[derive(Default)]
struct Members<'a> {
    paths: BTreeSet<Path<'a>>,
    /// An array was read as a struct.
    by_position: bool,
}

impl<'a> Members<'a> {
    /// The members of `recorded` that are not in what was written of it again.
    fn dropped(recorded: &'a Value, written: &Value) -> Self {
        let mut members = Self::default();
        members.compare(recorded, Some(written), &mut Vec::new());
        members
    }

    /// The innermost members of `value`.
    fn of(value: &'a Value) -> Self {
        let mut members = Self::default();
        members.add(value, &mut Vec::new());
        members
    }

    fn compare(&mut self, recorded: &'a Value, written: Option<&Value>, path: &mut Path<'a>) {
        match (recorded, written) {
            (Value::Null, _) => {}
            (Value::Object(recorded), Some(Value::Object(written))) => {
                let named = recorded.len() <= NAMED;
                for (name, value) in recorded {
                    path.push(Some(name.as_str()).filter(|_| named));
                    self.compare(value, written.get(name), path);
                    path.pop();
                }
            }
            (Value::Array(recorded), Some(Value::Array(written))) if recorded.len() == written.len() => {
                path.push(None);
                for (recorded, written) in recorded.iter().zip(written) {
                    self.compare(recorded, Some(written), path);
                }
                path.pop();
            }
            (Value::Array(recorded), Some(Value::Object(_))) if !recorded.is_empty() => {
                self.by_position = true
            }
            (Value::Object(recorded), Some(_)) if recorded.is_empty() => {}
            (Value::Array(recorded), Some(_)) if recorded.is_empty() => {}
            (Value::Object(_) | Value::Array(_), Some(_)) | (_, None) => {
                self.paths.insert(path.clone());
            }
            (_, Some(_)) => {}
        }
    }

    fn add(&mut self, value: &'a Value, path: &mut Path<'a>) {
        match value {
            Value::Null => {}
            Value::Object(members) if !members.is_empty() => {
                let named = members.len() <= NAMED;
                for (name, value) in members {
                    path.push(Some(name.as_str()).filter(|_| named));
                    self.add(value, path);
                    path.pop();
                }
            }
            Value::Array(items) if items.iter().any(Value::is_object) => {
                path.push(None);
                items.iter().for_each(|item| self.add(item, path));
                path.pop();
            }
            _ => {
                self.paths.insert(path.clone());
            }
        }
    }
}

/// What is done to a member to see whether a type reads it.
#[derive(Clone, Copy)]
enum Change {
    Remove,
    /// By a value of another kind.
    Replace,
}

impl Change {
    fn at(self, path: &[Option<&str>], value: &mut Value) {
        match (path, value) {
            ([Some(name)], Value::Object(members)) if matches!(self, Self::Remove) => {
                members.remove(*name);
            }
            ([Some(name), rest @ ..], Value::Object(members)) => {
                if let Some(member) = members.get_mut(*name) {
                    self.at(rest, member);
                }
            }
            ([None, rest @ ..], Value::Object(members)) => {
                members.values_mut().for_each(|member| self.at(rest, member));
            }
            ([None, rest @ ..], Value::Array(items)) => items.iter_mut().for_each(|item| self.at(rest, item)),
            ([], value) if matches!(self, Self::Replace) => {
                let object = value.is_object();
                *value = if object { Value::Bool(true) } else { serde_json::json!({ "": null }) };
            }
            _ => {}
        }
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

    /// Today: `note` was removed, and `amount` was once given in euros, without a currency.
    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Price {
        amount: u32,
        #[serde(default, alias = "unit")]
        currency: String,
    }

    #[derive(Deserialize)]
    struct InEuros {
        amount: u32,
    }

    #[derive(Deserialize)]
    struct Noted {
        amount: u32,
        note: Option<String>,
    }

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Any<const NOTED: bool>(Price);

    impl<const NOTED: bool> From<InEuros> for Any<NOTED> {
        fn from(old: InEuros) -> Self {
            Self(Price { amount: old.amount * 100, currency: "EUR".into() })
        }
    }

    impl<const NOTED: bool> From<Noted> for Any<NOTED> {
        fn from(old: Noted) -> Self {
            Self(Price { amount: old.amount, currency: old.note.unwrap_or_default() })
        }
    }

    impl<const NOTED: bool> Shaped for Any<NOTED> {
        type Today = Self;
        fn former() -> &'static [Former<Self>] {
            const {
                if NOTED {
                    &[("Noted", former::<Noted, Self>)]
                } else {
                    &[("InEuros", former::<InEuros, Self>)]
                }
            }
        }
    }

    fn price<const NOTED: bool>(text: &str) -> Result<(u32, String), String> {
        let read = read_shapes::<_, Any<NOTED>>(&mut serde_json::Deserializer::from_str(text));
        read.map(|read| (read.0.amount, read.0.currency)).map_err(|error| error.to_string())
    }

    #[test]
    fn a_former_type_with_fewer_members_does_not_take_what_todays_type_reads() {
        // Removed from today's type, or sent by someone else: no type reads it.
        for text in [
            r#"{"amount":700,"currency":"USD"}"#,
            r#"{"amount":700,"currency":"USD","note":"x"}"#,
            r#"{"amount":700,"unit":"USD","more":[{"a":1},{}]}"#,
        ] {
            assert_eq!(price::<false>(text), Ok((700, "USD".into())), "{text}");
        }
    }

    #[test]
    fn a_former_type_is_used_where_it_reads_all_that_todays_type_reads_and_more() {
        assert_eq!(price::<true>(r#"{"amount":7,"note":"x"}"#), Ok((7, "x".into())));
        assert_eq!(price::<true>(r#"{"amount":7,"note":null}"#), Ok((7, String::new())));
        // Each ignores what the other reads.
        let error = price::<true>(r#"{"amount":7,"currency":"USD","note":"x"}"#).unwrap_err();
        assert!(error.contains("former type `Noted`"), "{error}");
    }

    /// Today: `pin` was removed from the cards, and `Cash` was a number.
    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    enum Means {
        Card { number: String },
        Cash { cents: u32 },
        Wire,
    }

    #[derive(Deserialize)]
    enum OldMeans {
        Card { number: String, pin: Option<u32> },
        Cash(u32),
        Wire,
    }

    impl From<OldMeans> for Means {
        fn from(old: OldMeans) -> Self {
            match old {
                OldMeans::Card { number, pin } => {
                    Self::Card { number: pin.map_or(number, |_| "with pin".into()) }
                }
                OldMeans::Cash(euros) => Self::Cash { cents: euros * 100 },
                OldMeans::Wire => Self::Wire,
            }
        }
    }

    impl Shaped for Means {
        type Today = Self;
        fn former() -> &'static [Former<Self>] {
            &[("OldMeans", former::<OldMeans, Self>)]
        }
    }

    #[test]
    fn variants_of_an_enum_are_read_each_as_the_type_that_reads_most_of_them() {
        let means =
            |text: &str| read_shapes::<_, Means>(&mut serde_json::Deserializer::from_str(text)).unwrap();
        assert_eq!(means(r#"{"Cash":{"cents":7}}"#), Means::Cash { cents: 7 });
        assert_eq!(means(r#"{"Cash":7}"#), Means::Cash { cents: 700 });
        assert_eq!(means(r#"{"Cash":{"cents":7,"note":1}}"#), Means::Cash { cents: 7 });
        assert_eq!(means(r#"{"Card":{"number":"1","name":"x"}}"#), Means::Card { number: "1".into() });
        assert_eq!(means(r#"{"Card":{"number":"1","pin":2}}"#), Means::Card { number: "with pin".into() });
        assert_eq!(means(r#""Wire""#), Means::Wire);
    }

    #[test]
    fn what_no_type_reads_is_told_for_each() {
        let error = read("true").unwrap_err().to_string();
        assert!(error.contains("as `OldReceipt`") && error.starts_with("invalid type"), "{error}");
        let error = read(r#"{"cents":"7"}"#).unwrap_err().to_string();
        assert!(error.contains("missing field `euros`"), "{error}");
    }
}
