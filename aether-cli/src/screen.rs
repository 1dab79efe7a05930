//! What is printed: tables and lines for people, JSON for programs, notes on the side.
//!
//! Promise: nothing from outside reaches a terminal unescaped; colour only where a person sees it; a reader that goes away
//! ends the program without a word.

use std::io::{self, IsTerminal as _, Write};
use std::time::Duration;

use clap::ValueEnum;
use comfy_table::{Attribute, Cell as TableCell, Color, ContentArrangement, Table as Drawn, presets};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use miette::Diagnostic;
use serde::Serialize;

use crate::error::CliError;
use crate::exit::Exit;
use crate::output::errors::ErrorReport;
use crate::text::{self, CELL, VALUE};

/// When to use colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum When {
    /// On a terminal, unless `NO_COLOR` is set.
    #[default]
    Auto,
    Always,
    Never,
}

/// How a text stands out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Tone {
    #[default]
    Plain,
    Good,
    Bad,
    Warn,
    Faint,
    Strong,
}

impl Tone {
    const fn codes(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Good => "\u{1b}[32m",
            Self::Bad => "\u{1b}[31m",
            Self::Warn => "\u{1b}[33m",
            Self::Faint => "\u{1b}[2m",
            Self::Strong => "\u{1b}[1m",
        }
    }

    fn of_cell(self, cell: TableCell) -> TableCell {
        match self {
            Self::Plain => cell,
            Self::Good => cell.fg(Color::DarkGreen),
            Self::Bad => cell.fg(Color::DarkRed),
            Self::Warn => cell.fg(Color::DarkYellow),
            Self::Faint => cell.add_attribute(Attribute::Dim),
            Self::Strong => cell.add_attribute(Attribute::Bold),
        }
    }
}

/// One cell of a table.
#[derive(Clone, Debug)]
pub(crate) struct Cell(String, Tone);

impl Cell {
    pub(crate) fn toned(text: impl Into<String>, tone: Tone) -> Self {
        Self(text.into(), tone)
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self(text.into(), Tone::Plain)
    }
}

/// How the command prints.
#[derive(Debug)]
pub(crate) struct Screen {
    /// JSON for programs.
    pub(crate) is_json: bool,
    /// Nothing is cut.
    pub(crate) is_full: bool,
    color: bool,
    error_color: bool,
    /// Width of the terminal; `None` where it is none.
    width: Option<u16>,
}

impl Screen {
    pub(crate) fn new(is_json: bool, is_full: bool, when: When) -> Self {
        let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
            || std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let color = |is_terminal: bool| match when {
            When::Auto => is_terminal && !plain,
            When::Always => true,
            When::Never => false,
        };
        let (out, err) = (io::stdout().is_terminal(), io::stderr().is_terminal());
        let width = terminal_size::terminal_size().filter(|_| out).map(|(width, _)| width.0);
        Self { is_json, is_full, color: color(out), error_color: color(err), width }
    }

    /// Writes text that is safe already.
    fn put(&self, safe: &str) -> Result<(), CliError> {
        let mut out = io::stdout().lock();
        out.write_all(safe.as_bytes())?;
        Ok(out.flush()?)
    }

    /// Prints a value as JSON.
    pub(crate) fn json(&self, value: &impl Serialize) -> Result<(), CliError> {
        let text = serde_json::to_string_pretty(value).map_err(unprintable)?;
        self.put(&(text::json(&text) + "\n"))
    }

    /// Prints a value as one line of JSON.
    pub(crate) fn json_line(&self, value: &impl Serialize) -> Result<(), CliError> {
        let text = serde_json::to_string(value).map_err(unprintable)?;
        self.put(&(text::json(&text) + "\n"))
    }

    /// Prints JSON text that was made elsewhere: byte for byte to a file or a program, escaped to a terminal.
    pub(crate) fn raw_json(&self, json: &str) -> Result<(), CliError> {
        if io::stdout().is_terminal() { self.put(&text::json(json)) } else { self.put(json) }
    }

    /// Prints text that has lines.
    pub(crate) fn block(&self, text: &str) -> Result<(), CliError> {
        self.put(&(text::block(text.trim_end_matches('\n')) + "\n"))
    }

    /// Prints a line.
    pub(crate) fn line(&self, line: &str) -> Result<(), CliError> {
        self.toned(line, Tone::Plain)
    }

    pub(crate) fn toned(&self, line: &str, tone: Tone) -> Result<(), CliError> {
        self.put(&(styled(&text::line(line), tone, self.color) + "\n"))
    }

    /// Prints a heading after an empty line.
    pub(crate) fn heading(&self, text: &str) -> Result<(), CliError> {
        self.put(&format!("\n{}\n", styled(&text::line(text), Tone::Strong, self.color)))
    }

    /// Prints a name and its value, cut where it is long.
    pub(crate) fn field(&self, name: &str, value: &str) -> Result<(), CliError> {
        let value = if self.is_full { value.to_owned() } else { text::cut(value, VALUE) };
        let name = styled(&format!("{name:<11}"), Tone::Faint, self.color);
        self.put(&format!("{name} {}\n", text::line(&value)))
    }

    /// Prints rows under a header. On a terminal, long cells are wrapped to its width.
    pub(crate) fn table(&self, header: &[&str], rows: Vec<Vec<Cell>>) -> Result<(), CliError> {
        let mut table = Drawn::new();
        table.load_preset(presets::NOTHING);
        match self.width {
            Some(width) => table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width),
            None => table.set_content_arrangement(ContentArrangement::Disabled),
        };
        if self.color {
            table.enforce_styling()
        } else {
            table.force_no_tty()
        };
        table.set_header(header.iter().map(|name| Tone::Faint.of_cell(TableCell::new(name))));
        for row in rows {
            table.add_row(row.into_iter().map(|Cell(value, tone)| {
                let value = if self.is_full { value } else { text::cut(&value, CELL) };
                tone.of_cell(TableCell::new(text::line(&value)))
            }));
        }
        // No space before the first column.
        if let Some(first) = table.column_mut(0) {
            first.set_padding((0, 1));
        }
        // Cells were made safe above; what else is in here is the table's own.
        self.put(&table.lines().map(|line| line.trim_end().to_owned() + "\n").collect::<String>())
    }

    /// Says something on the side.
    pub(crate) fn note(&self, note: &str) {
        if !self.is_json {
            let _nobody_may_read_it =
                writeln!(io::stderr(), "{}", styled(&text::line(note), Tone::Faint, self.error_color));
        }
    }

    /// Asks a question, and says whether the answer is yes. `None` where nobody is there to answer.
    pub(crate) fn ask(&self, question: &str) -> Result<Option<bool>, CliError> {
        if self.is_json || !io::stdin().is_terminal() {
            return Ok(None);
        }
        let mut err = io::stderr();
        write!(err, "{} [y/N] ", text::line(question))?;
        err.flush()?;
        let mut answer = String::new();
        io::stdin().read_line(&mut answer)?;
        Ok(Some(["y", "yes"].contains(&&*answer.trim().to_lowercase())))
    }

    /// Reports an error: what, where, how to fix it.
    pub(crate) fn error(&self, error: &CliError) {
        if error.is_silent {
            return;
        }
        let help = error.help().map(|help| help.to_string());
        if self.is_json {
            let report = ErrorReport::new(error.exit, error.to_string(), help);
            let report = serde_json::to_string(&report).unwrap_or_default();
            let _nobody_may_read_it = writeln!(io::stderr(), "{}", text::json(&report));
            return;
        }
        let mut report =
            format!("{} {}\n", styled("error:", Tone::Bad, self.error_color), text::line(&error.to_string()));
        if let Some(help) = help {
            report +=
                &format!("{} {}\n", styled(" help:", Tone::Strong, self.error_color), text::line(&help));
        }
        let _nobody_may_read_it = io::stderr().write_all(report.as_bytes());
    }

    /// Something that turns while the program waits: on stderr, and only where that is a terminal.
    pub(crate) fn progress(&self) -> Progress {
        let target = if self.is_json { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
        let bar = ProgressBar::with_draw_target(None, target);
        let template = if self.error_color { "{spinner:.green} {wide_msg}" } else { "{spinner} {wide_msg}" };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(120));
        Progress(bar)
    }
}

/// See [`Screen::progress`].
#[derive(Debug)]
pub(crate) struct Progress(ProgressBar);

impl Progress {
    pub(crate) fn say(&self, message: &str) {
        self.0.set_message(text::line(message));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

fn unprintable(error: serde_json::Error) -> CliError {
    CliError::new(Exit::Failed, format!("the answer cannot be written as JSON: {error}"))
}

/// A safe text in a tone.
fn styled(safe: &str, tone: Tone, color: bool) -> String {
    match tone {
        Tone::Plain => safe.to_owned(),
        tone if color => format!("{}{safe}\u{1b}[0m", tone.codes()),
        _ => safe.to_owned(),
    }
}
