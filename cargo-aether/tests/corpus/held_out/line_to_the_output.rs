//! Whether a line could be written to the output
//! how: print

use std::io::Write;

use aether::prelude::*;

struct Progress<W> {
    to: W,
    failed: u32,
}

impl<W: Write> Progress<W> {
    fn line(&mut self, text: &str) {
        if writeln!(self.to, "{text}").and_then(|()| self.to.flush()).is_err() {
            self.failed += 1;
        }
    }
}

fn look() -> String {
    let mut progress = Progress { to: std::io::stdout(), failed: 0 };
    progress.line("half way");
    progress.failed.to_string()
}

#[workflow]
pub async fn line_to_the_output(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(look())
}
