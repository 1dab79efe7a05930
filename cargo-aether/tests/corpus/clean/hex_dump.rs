//! Bytes that are shown for people and read back
//! how: clean

use std::fmt::Write as _;

use aether::prelude::*;

fn dump(bytes: &[u8]) -> String {
    let mut out = String::new();
    for (line, chunk) in bytes.chunks(8).enumerate() {
        let _ = write!(out, "{:04x}:", line * 8);
        for byte in chunk {
            let _ = write!(out, " {byte:02x}");
        }
        let shown =
            chunk.iter().map(|b| if b.is_ascii_graphic() { char::from(*b) } else { '.' }).collect::<String>();
        let _ = writeln!(out, "{:1$}{shown}", "", 2 + 3 * (8 - chunk.len()));
    }
    out
}

fn undump(text: &str) -> std::result::Result<Vec<u8>, hex::FromHexError> {
    let digits: String = text
        .lines()
        .filter_map(|line| line.get(5..29.min(line.len())))
        .flat_map(str::chars)
        .filter(char::is_ascii_hexdigit)
        .collect();
    hex::decode(digits)
}

#[workflow]
pub async fn hex_dump(cx: &mut Cx, _input: u64) -> Result<String> {
    let random = cx.random().await;
    let mut bytes = [random.to_be_bytes(), (!random).to_le_bytes()].concat();
    bytes.rotate_left(3);
    let text = dump(&bytes);
    let back = undump(&text)?;
    Ok(format!("{text}{}", back == bytes))
}
