//! A document that visitors walk through
//! how: clean

use aether::prelude::*;

trait Visitor {
    fn heading(&mut self, level: u8, text: &str);
    fn paragraph(&mut self, text: &str) {
        let _ = text;
    }
}

#[derive(Default)]
struct Contents {
    lines: Vec<String>,
    numbers: [u32; 6],
}

impl Visitor for Contents {
    fn heading(&mut self, level: u8, text: &str) {
        let at = usize::from(level.clamp(1, 6)) - 1;
        self.numbers[at] += 1;
        self.numbers[at + 1..].fill(0);
        let number = self.numbers[..=at].iter().map(u32::to_string).collect::<Vec<_>>().join(".");
        self.lines.push(format!("{number} {text}"));
    }
}

#[derive(Default)]
struct Words(usize);

impl Visitor for Words {
    fn heading(&mut self, _level: u8, text: &str) {
        self.paragraph(text);
    }

    fn paragraph(&mut self, text: &str) {
        self.0 += text.split_whitespace().count();
    }
}

fn visit(text: &str, visitors: &mut [&mut dyn Visitor]) {
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let level = line.bytes().take_while(|byte| *byte == b'#').count() as u8;
        for visitor in visitors.iter_mut() {
            match level {
                0 => visitor.paragraph(line),
                level => visitor.heading(level, line.trim_start_matches('#').trim_start()),
            }
        }
    }
}

#[workflow]
pub async fn visitor_with_depth(cx: &mut Cx, _input: u64) -> Result<String> {
    let hashes = "#".repeat((cx.random().await % 3) as usize + 1);
    let text = format!("# One\nsome text\n## Two\n{hashes} Three\nmore text here\n## Four\n");
    let (mut contents, mut words) = (Contents::default(), Words::default());
    visit(&text, &mut [&mut contents, &mut words]);
    Ok(format!("{} ({} words)", contents.lines.join("; "), words.0))
}
