//! Values that are taken and swapped in place
//! how: clean

use std::mem;

use aether::prelude::*;

#[derive(Debug, Default)]
enum Session {
    #[default]
    Closed,
    Open {
        lines: Vec<String>,
    },
    Ended(String),
}

impl Session {
    fn step(&mut self, word: &str) {
        *self = match (mem::take(self), word) {
            (Self::Closed, "open") => Self::Open { lines: Vec::new() },
            (Self::Open { mut lines }, "end") => Self::Ended(mem::take(&mut lines).join("/")),
            (Self::Open { mut lines }, word) => {
                lines.push(word.to_owned());
                Self::Open { lines }
            }
            (other, _) => other,
        };
    }
}

fn play(words: &[&str]) -> String {
    let (mut one, mut two) = (Session::default(), Session::default());
    for word in words {
        one.step(word);
        mem::swap(&mut one, &mut two);
    }
    let old = mem::replace(&mut one, Session::Closed);
    format!("{old:?} {two:?} {one:?}")
}

#[workflow]
pub async fn take_and_swap(cx: &mut Cx, _input: u64) -> Result<String> {
    let extra = cx.random().await.to_string();
    Ok(play(&["open", "open", "a", &extra, "b", "end", "end", "late"]))
}
