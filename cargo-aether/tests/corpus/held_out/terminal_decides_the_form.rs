//! A text in bold if the output is a terminal
//! how: env

use std::io::IsTerminal as _;

use aether::prelude::*;

enum Style {
    Bold,
    Plain,
}

impl Style {
    fn detect() -> Style {
        if std::io::stdout().is_terminal() { Style::Bold } else { Style::Plain }
    }

    fn apply(&self, text: &str) -> String {
        match self {
            Style::Bold => format!("\x1b[1m{text}\x1b[0m"),
            Style::Plain => text.to_owned(),
        }
    }
}

#[workflow]
pub async fn terminal_decides_the_form(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(Style::detect().apply("done"))
}
