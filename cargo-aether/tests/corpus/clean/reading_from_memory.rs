//! Readers and writers whose other side is memory
//! how: clean

use std::io::{BufRead, BufReader, BufWriter, Cursor, Read, Seek, SeekFrom, Write};

use aether::prelude::*;

fn sources<'a>(extra: &'a str) -> Vec<Box<dyn Read + 'a>> {
    vec![
        Box::new(Cursor::new("first\nsecond\n")),
        Box::new(extra.as_bytes().chain(&b"\nlast"[..])),
        Box::new(std::io::repeat(b'x').take(5)),
        Box::new(std::io::empty()),
    ]
}

fn numbered(sources: Vec<Box<dyn Read + '_>>) -> std::io::Result<String> {
    let mut out = BufWriter::new(Cursor::new(Vec::new()));
    let mut number = 0;
    for source in sources {
        for line in BufReader::with_capacity(8, source).lines() {
            number += 1;
            writeln!(out, "{number:>3} {}", line?)?;
        }
    }
    out.flush()?;
    let mut written = out.into_inner().map_err(std::io::IntoInnerError::into_error)?;
    written.seek(SeekFrom::Start(4))?;
    let mut text = String::new();
    written.read_to_string(&mut text)?;
    Ok(text)
}

#[workflow]
pub async fn reading_from_memory(cx: &mut Cx, _input: u64) -> Result<String> {
    let extra = format!("{:b}", cx.random().await % 64);
    Ok(numbered(sources(&extra))?)
}
