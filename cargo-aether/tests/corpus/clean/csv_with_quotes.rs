//! Records with quoted fields
//! how: clean

use aether::prelude::*;

#[derive(Clone, Copy, PartialEq)]
enum State {
    Start,
    Plain,
    Quoted,
    AfterQuote,
}

fn records(text: &str) -> std::result::Result<Vec<Vec<String>>, (usize, char)> {
    let (mut rows, mut row, mut field) = (Vec::new(), Vec::new(), String::new());
    let mut state = State::Start;
    for (at, c) in text.char_indices() {
        state = match (state, c) {
            (State::Start, '"') => State::Quoted,
            (State::Quoted, '"') => State::AfterQuote,
            (State::AfterQuote, '"') => {
                field.push('"');
                State::Quoted
            }
            (State::Quoted, c) => {
                field.push(c);
                State::Quoted
            }
            (_, ',') => {
                row.push(std::mem::take(&mut field));
                State::Start
            }
            (_, '\n') => {
                row.push(std::mem::take(&mut field));
                rows.push(std::mem::take(&mut row));
                State::Start
            }
            (State::AfterQuote, c) => return Err((at, c)),
            (_, c) => {
                field.push(c);
                State::Plain
            }
        };
    }
    Ok(rows)
}

#[workflow]
pub async fn csv_with_quotes(cx: &mut Cx, _input: u64) -> Result<String> {
    let n = cx.random().await % 1000;
    let rows = records(&format!("id,note\n{n},\"a, \"\"b\"\"\nand c\"\n,\n"));
    Ok(format!("{rows:?} {:?}", records("\"a\"b\n")))
}
