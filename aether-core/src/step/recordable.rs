//! What can be recorded in a journal: values, errors, and the named arguments of steps and workflows.
//!
//! Promise: a type that cannot be recorded is a compile error that says what to derive.

use std::borrow::Cow;
use std::fmt::{self, Debug, Display};
use std::string::FromUtf8Error;

use serde::de::{DeserializeOwned, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use crate::vocabulary::failure::StepError;
use crate::vocabulary::payload::{Payload, PayloadError, put_shallow, start_of};
use crate::vocabulary::without_values::without_values;

/// A value that can be recorded: it serializes, deserializes, and owns its data. Implemented for every such type.
///
/// ```
/// use aether_core::step::Recordable;
/// #[derive(serde::Serialize, serde::Deserialize)]
/// struct Ticket { id: u32, title: String }
/// fn recordable<T: Recordable>() {}
/// recordable::<Vec<Ticket>>();
/// ```
///
/// A type that borrows its data is not recordable, because replay decodes it from the journal:
///
/// ```compile_fail
/// # fn recordable<T: aether_core::step::Recordable>() {}
/// recordable::<&'static str>();
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be recorded, so it cannot be the argument or result of a step or workflow",
    label = "not recordable",
    note = "derive `serde::Serialize` and `serde::Deserialize` for it and for what is in it, and let it own its data and be `Send`",
    note = "a service, such as a mailer or a client, is no argument: give it to the engine with `.provide(..)`, and take it in the step's body with `cx.dep::<T>()?`"
)]
pub trait Recordable: Serialize + DeserializeOwned + Send + 'static {}

#[diagnostic::do_not_recommend]
impl<T: Serialize + DeserializeOwned + Send + 'static> Recordable for T {}

/// An error that can be recorded: [`Failure`](crate::vocabulary::failure::Failure), or a type of your own.
///
/// ```
/// use std::fmt;
/// use aether_core::step::RecordableError;
/// #[derive(Debug, serde::Serialize, serde::Deserialize)]
/// enum OrderError { SoldOut { left: u32 } }
/// impl fmt::Display for OrderError {
///     fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
///         let Self::SoldOut { left } = self;
///         write!(f, "only {left} left")
///     }
/// }
/// fn recordable<T: RecordableError>() {}
/// recordable::<OrderError>();
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the recorded error of a step or workflow",
    label = "not a recordable error",
    note = "use `aether::Result<T>`, into whose error `?` turns any other one, also `anyhow::Error` and `eyre::Report`; or derive `serde::Serialize`, `serde::Deserialize` and `Debug` and implement `Display`",
    note = "implement `aether::error::Classify` for it as well, to say which of its values are worth another attempt"
)]
pub trait RecordableError: Recordable + Debug + Display + Sync {}

#[diagnostic::do_not_recommend]
impl<T: Recordable + Debug + Display + Sync> RecordableError for T {}

/// What a workflow gets that calls a step with this return type. It asks for nothing that [`Returns`] does, so that a type
/// that cannot be recorded is told once.
#[diagnostic::on_unimplemented(
    message = "a step or workflow returns a `Result`, not `{Self}`",
    label = "return `aether::Result<..>` or `Result<.., YourError>`"
)]
pub trait Answers: sealed::Sealed {
    /// The value, or why there is none.
    type Called;
}

mod sealed {
    /// That a type is a `Result`.
    pub trait Sealed {}

    impl<T, E> Sealed for Result<T, E> {}
}

impl<T, E> Answers for Result<T, E> {
    type Called = Result<T, StepError<E>>;
}

/// The return type of a step or workflow function: a `Result`.
#[diagnostic::on_unimplemented(
    message = "a step or workflow returns a `Result`, not `{Self}`",
    label = "return `aether::Result<..>` or `Result<.., YourError>`"
)]
pub trait Returns: Answers<Called: Send> + Send + 'static {
    /// Type of the value.
    type Ok: Recordable;
    /// Type of the error.
    type Err: RecordableError;
    /// It, from that `Result`.
    fn of(result: Result<Self::Ok, Self::Err>) -> Self;
    /// Converts it into that `Result`.
    fn into_result(self) -> Result<Self::Ok, Self::Err>;
    /// The error, if it is one.
    fn error(&self) -> Option<&Self::Err>;
    /// What the workflow gets.
    fn called(result: Result<Self::Ok, StepError<Self::Err>>) -> Self::Called;
}

impl<T: Recordable, E: RecordableError> Returns for Result<T, E> {
    type Ok = T;
    type Err = E;
    fn of(result: Self) -> Self {
        result
    }

    fn into_result(self) -> Self {
        self
    }

    fn error(&self) -> Option<&E> {
        self.as_ref().err()
    }

    fn called(result: Result<T, StepError<E>>) -> Self::Called {
        result
    }
}

/// The signature of a step or workflow function. Implemented by `#[step]` and `#[workflow]` for the type named like the
/// function.
pub trait Signature {
    /// The `Result` that the function returns.
    type Returned: Returns;
}

/// The types in the `Result` that a step or workflow function returns. Every [`Signature`] has them.
///
/// They are no part of [`Step`](crate::step::Step) and [`Workflow`](crate::workflow::Workflow): there, the compiler would
/// work out both for every function of a program and each time that one is mentioned.
pub trait Returning: Signature {
    /// Type of the value.
    type Output: Recordable;
    /// Type of the error.
    type Error: RecordableError;
    /// What the function returns, from a result of these types.
    fn returned(result: Result<Self::Output, Self::Error>) -> Self::Returned;
}

impl<F: Signature> Returning for F {
    type Output = <F::Returned as Returns>::Ok;
    type Error = <F::Returned as Returns>::Err;

    fn returned(result: Result<Self::Output, Self::Error>) -> F::Returned {
        F::Returned::of(result)
    }
}

/// An argument of a step or workflow: anything [`Recordable`], under its name.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be recorded, so it cannot be the argument of a step or workflow",
    label = "the type of this argument is not recordable",
    note = "derive `serde::Serialize` and `serde::Deserialize` for it and for what is in it, and let it own its data and be `Send`",
    note = "a service, such as a mailer or a client, is no argument: give it to the engine with `.provide(..)`, and take it in the step's body with `cx.dep::<T>()?`"
)]
pub trait Argument: Sized {
    /// Adds the argument to the record.
    fn put(&self, name: &str, record: ArgsEncoder) -> ArgsEncoder;

    /// Takes the argument out of the record.
    ///
    /// # Errors
    /// [`PayloadError::Decode`] when the recorded value is not a `Self`.
    fn take(name: &str, record: &ArgsDecoder<'_>) -> Result<Self, PayloadError>;
}

#[diagnostic::do_not_recommend]
impl<T: Recordable> Argument for T {
    fn put(&self, name: &str, record: ArgsEncoder) -> ArgsEncoder {
        record.field(name, self)
    }

    fn take(name: &str, record: &ArgsDecoder<'_>) -> Result<Self, PayloadError> {
        record.field(name)
    }
}

/// Collects named arguments into one recorded JSON object.
#[derive(Debug)]
pub struct ArgsEncoder {
    text: Vec<u8>,
    error: Option<PayloadError>,
}

impl Default for ArgsEncoder {
    fn default() -> Self {
        Self::new()
    }
}

impl ArgsEncoder {
    /// No arguments yet.
    pub fn new() -> Self {
        let mut text = Vec::with_capacity(64);
        text.push(b'{');
        Self { text, error: None }
    }

    /// Adds one argument. `name` must be a Rust identifier.
    #[must_use]
    pub fn field<T: Serialize + ?Sized>(mut self, name: &str, value: &T) -> Self {
        if self.text.len() > 1 {
            self.text.push(b',');
        }
        self.text.push(b'"');
        self.text.extend_from_slice(name.as_bytes());
        self.text.extend_from_slice(b"\":");
        match put_shallow(&mut self.text, value) {
            Ok(()) => {}
            Err(PayloadError::Encode { ty, reason }) => {
                let reason = format!("argument `{name}`: {reason}");
                self.error.get_or_insert(PayloadError::Encode { ty, reason });
            }
            Err(error) => {
                self.error.get_or_insert(error);
            }
        }
        self
    }

    /// The recorded arguments.
    ///
    /// # Errors
    /// The first argument that did not serialize.
    pub fn finish(mut self) -> Result<Payload, PayloadError> {
        if let Some(error) = self.error {
            return Err(error);
        }
        self.text.push(b'}');
        let text = String::from_utf8(self.text);
        let unreadable =
            |error: FromUtf8Error| PayloadError::Encode { ty: "arguments", reason: error.to_string() };
        Payload::from_text(text.map_err(unreadable)?)
    }
}

/// Takes named arguments out of a recorded JSON object.
#[derive(Debug)]
pub struct ArgsDecoder<'a> {
    fields: Fields<'a>,
    /// Why there are no fields, where the record is no object.
    unreadable: Option<PayloadError>,
}

impl<'a> ArgsDecoder<'a> {
    /// Reads the object.
    ///
    /// # Errors
    /// [`PayloadError::Decode`] when the record is not an object.
    pub fn new(args: &'a Payload) -> Result<Self, PayloadError> {
        serde_json::from_str(args.as_str()).map(|fields| Self { fields, unreadable: None }).map_err(|e| {
            PayloadError::Decode {
                ty: "an object of arguments",
                reason: without_values(&e.to_string()),
                start: start_of(args.as_str()),
            }
        })
    }

    /// Reads the object. That it is none is told by [`taken`].
    pub fn of(args: &'a Payload) -> Self {
        Self::new(args).unwrap_or_else(|error| Self { fields: Fields(Vec::new()), unreadable: Some(error) })
    }

    /// One argument. An absent one is read as `null`, so that optional arguments may be left out.
    ///
    /// # Errors
    /// [`PayloadError::Decode`] when it is not a `T`.
    pub fn field<T: DeserializeOwned>(&self, name: &str) -> Result<T, PayloadError> {
        let found = self.fields.get(name);
        let text = found.map_or("null", RawValue::get);
        serde_json::from_str(text).map_err(|e| PayloadError::Decode {
            ty: std::any::type_name::<T>(),
            reason: match found.is_some() {
                true => format!("argument `{name}`: {}", without_values(&e.to_string())),
                false => format!("argument `{name}` is missing"),
            },
            start: start_of(text),
        })
    }
}

/// The arguments of which each was taken from `record`, or the first error.
///
/// # Errors
/// [`PayloadError::Decode`] when the record is not an object, or when an argument was not what it should be.
pub fn taken<T: Taken>(each: T, record: ArgsDecoder<'_>) -> Result<T::Args, PayloadError> {
    match record.unreadable {
        Some(error) => Err(error),
        None => each.all(),
    }
}

/// Arguments as they were taken from a record: `()`, the one result, or a tuple of results.
pub trait Taken {
    /// The arguments themselves.
    type Args;

    /// All of them, or the first error.
    ///
    /// # Errors
    /// That of the first argument that has one.
    fn all(self) -> Result<Self::Args, PayloadError>;
}

impl<T> Taken for Result<T, PayloadError> {
    type Args = T;
    fn all(self) -> Self {
        self
    }
}

/// Implements [`Taken`] for the tuple of these types and for every shorter one.
macro_rules! taken_tuples {
    ($($ty:ident)*) => {
        impl<$($ty),*> Taken for ($(Result<$ty, PayloadError>,)*) {
            type Args = ($($ty,)*);
            fn all(self) -> Result<Self::Args, PayloadError> {
                #[allow(non_snake_case, reason = "a value is named like its type")]
                let ($($ty,)*) = self;
                Ok(($($ty?,)*))
            }
        }
        taken_tuples!(@shorter $($ty)*);
    };
    (@shorter) => {};
    (@shorter $first:ident $($ty:ident)*) => { taken_tuples!($($ty)*); };
}

taken_tuples!(A B C D E F G H I J K L);

/// The members of an object, in order: few enough to be looked through one by one.
#[derive(Debug)]
struct Fields<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'a> Fields<'a> {
    /// The member of this name; the last one, should there be several.
    fn get(&self, name: &str) -> Option<&'a RawValue> {
        self.0.iter().rev().find(|(known, _)| known == name).map(|(_, value)| *value)
    }
}

impl<'a> Deserialize<'a> for Fields<'a> {
    fn deserialize<D: Deserializer<'a>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(FieldsVisitor)
    }
}

struct FieldsVisitor;

impl<'a> Visitor<'a> for FieldsVisitor {
    type Value = Fields<'a>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map")
    }

    fn visit_map<A: MapAccess<'a>>(self, mut members: A) -> Result<Fields<'a>, A::Error> {
        let mut fields = Vec::with_capacity(4);
        while let Some((Name(name), value)) = members.next_entry()? {
            fields.push((name, value));
        }
        Ok(Fields(fields))
    }
}

/// The name of a member: borrowed, unless it holds escapes.
#[derive(Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);
