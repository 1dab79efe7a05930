//! A small template with values from a hash map
//! how: clean

use std::collections::HashMap;

use aether::prelude::*;

#[derive(Debug, PartialEq)]
enum Piece<'a> {
    Text(&'a str),
    Slot(&'a str),
    Repeat(&'a str, Vec<Piece<'a>>),
}

fn parse<'a>(rest: &mut &'a str, until: Option<&str>) -> std::result::Result<Vec<Piece<'a>>, String> {
    let mut pieces = Vec::new();
    while let Some(open) = rest.find("{{") {
        let close = rest[open..].find("}}").ok_or_else(|| "a slot is not closed".to_owned())? + open;
        if open > 0 {
            pieces.push(Piece::Text(&rest[..open]));
        }
        let tag = rest[open + 2..close].trim();
        *rest = &rest[close + 2..];
        match tag.split_at_checked(1) {
            Some(("#", name)) => pieces.push(Piece::Repeat(name, parse(rest, Some(name))?)),
            Some(("/", name)) if Some(name) == until => return Ok(pieces),
            _ => pieces.push(Piece::Slot(tag)),
        }
    }
    pieces.push(Piece::Text(std::mem::take(rest)));
    Ok(pieces)
}

fn render(pieces: &[Piece<'_>], values: &HashMap<&str, Vec<String>>, item: &str, out: &mut String) {
    for piece in pieces {
        match piece {
            Piece::Text(text) => out.push_str(text),
            Piece::Slot("item") => out.push_str(item),
            Piece::Slot(name) => out.push_str(&values.get(name).map_or_else(String::new, |all| all.concat())),
            Piece::Repeat(name, inner) => {
                for item in values.get(name).into_iter().flatten() {
                    render(inner, values, item, out);
                }
            }
        }
    }
}

fn letter(count: u64) -> std::result::Result<String, String> {
    let values = HashMap::from([
        ("name", vec!["Ida".to_owned()]),
        ("goods", (0..count).map(|n| format!("item {n}")).collect()),
    ]);
    let mut source = "Dear {{ name }}: {{#goods}}<{{ item }}>{{/goods}} {{ missing }}.";
    let pieces = parse(&mut source, None)?;
    let mut out = String::new();
    render(&pieces, &values, "", &mut out);
    Ok(out)
}

#[workflow]
pub async fn template_rendering(cx: &mut Cx, _input: u64) -> Result<String> {
    let count = cx.random().await % 4;
    Ok(letter(count)?)
}
