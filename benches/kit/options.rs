//! Options of the command line.
//!
//! Promise: an option that a bench does not know is an error, as is a value that it cannot read.

use std::fmt::Display;
use std::str::FromStr;

use super::Result;

/// What was given on the command line and was not asked for yet.
pub(crate) struct Options {
    left: Vec<String>,
}

impl Options {
    /// All that was given to this program. `--bench` comes from cargo.
    pub(crate) fn read() -> Self {
        Self { left: std::env::args().skip(1).filter(|arg| arg != "--bench").collect() }
    }

    /// Whether this option, which has no value, was given.
    pub(crate) fn flag(&mut self, name: &str) -> bool {
        let place = self.left.iter().position(|arg| arg == name);
        place.map(|at| self.left.remove(at)).is_some()
    }

    /// The value of an option, as it was given.
    pub(crate) fn text(&mut self, name: &str) -> Result<Option<String>> {
        let Some(at) = self.left.iter().position(|arg| arg == name) else { return Ok(None) };
        if at + 1 == self.left.len() {
            return Err(format!("{name} needs a value").into());
        }
        self.left.remove(at);
        Ok(Some(self.left.remove(at)))
    }

    /// The value of an option, or its default.
    pub(crate) fn value<T: FromStr<Err: Display>>(&mut self, name: &str, default: T) -> Result<T> {
        self.text(name)?.map_or(Ok(default), |text| parse(name, &text))
    }

    /// The values of an option, which stand between commas.
    pub(crate) fn list<T: FromStr<Err: Display>>(&mut self, name: &str, default: Vec<T>) -> Result<Vec<T>> {
        let Some(text) = self.text(name)? else { return Ok(default) };
        text.split(',').map(|text| parse(name, text)).collect()
    }

    /// To be called when all options were asked for.
    pub(crate) fn end(self) -> Result<()> {
        match self.left.first() {
            Some(unknown) => Err(format!("unknown option {unknown}").into()),
            None => Ok(()),
        }
    }
}

fn parse<T: FromStr<Err: Display>>(name: &str, text: &str) -> Result<T> {
    text.parse().map_err(|error| format!("{name} {text}: {error}").into())
}
