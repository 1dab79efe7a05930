//! The input of a workflow that takes one list, as it is recorded: an object with that list as its only member.
//!
//! Promise: elements are carried as they were written, so a process of another build drops no member that it does not
//! know.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

use crate::vocabulary::payload::{Payload, PayloadError};

/// Inputs of several starts in one.
#[derive(Clone, Debug)]
pub(super) struct Batch {
    argument: String,
    elements: Vec<Box<RawValue>>,
}

impl Batch {
    /// Reads an input; `None` where it is not one list.
    pub(super) fn read(input: &Payload) -> Option<Self> {
        let arguments: BTreeMap<String, Vec<Box<RawValue>>> = input.decode().ok()?;
        let mut arguments = arguments.into_iter();
        let (argument, elements) = arguments.next()?;
        arguments.next().is_none().then_some(Self { argument, elements })
    }

    /// How many elements there are.
    pub(super) fn len(&self) -> usize {
        self.elements.len()
    }

    /// Both lists in one; `None` where their argument has another name, as it has in a build that renamed it.
    pub(super) fn join(mut self, next: Self) -> Option<Self> {
        if self.argument != next.argument {
            return None;
        }
        self.elements.extend(next.elements);
        Some(self)
    }

    /// The first elements.
    pub(super) fn first(mut self, count: usize) -> Self {
        self.elements.truncate(count);
        self
    }

    /// The input with these elements.
    ///
    /// # Errors
    /// [`PayloadError`] when they do not serialize.
    pub(super) fn write(&self) -> Result<Payload, PayloadError> {
        Payload::encode(&BTreeMap::from([(&self.argument, &self.elements)]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn payload(text: &str) -> Payload {
        Payload::from_text(text.to_owned()).unwrap()
    }

    #[test]
    fn elements_stay_as_they_were_written() {
        let first = Batch::read(&payload(r#"{"documents":[{"id": 1, "since_then": 1e2}]}"#)).unwrap();
        let next = Batch::read(&payload(r#"{"documents":[18446744073709551616,2]}"#)).unwrap();
        let all = first.join(next).unwrap();
        assert_eq!(all.len(), 3);
        let written = all.write().unwrap();
        assert_eq!(
            written.as_str(),
            r#"{"documents":[{"id": 1, "since_then": 1e2},18446744073709551616,2]}"#
        );
        assert_eq!(all.first(1).write().unwrap().as_str(), r#"{"documents":[{"id": 1, "since_then": 1e2}]}"#);
    }

    #[test]
    fn lists_of_two_names_are_not_one() {
        let batch = |text| Batch::read(&payload(text));
        assert!(batch(r#"{"documents":[1]}"#).unwrap().join(batch(r#"{"pages":[2]}"#).unwrap()).is_none());
        assert!(batch(r#"{"documents":[1],"pages":[2]}"#).is_none());
        assert!(batch(r#"{"documents":1}"#).is_none() && batch("[1]").is_none() && batch("{}").is_none());
    }
}
