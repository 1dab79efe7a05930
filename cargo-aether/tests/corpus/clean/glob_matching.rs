//! Names that are matched against patterns, with answers kept
//! how: clean

use std::cell::RefCell;
use std::collections::HashMap;

use aether::prelude::*;

struct Matcher<'a> {
    patterns: &'a [&'a str],
    kept: RefCell<HashMap<String, bool>>,
}

fn fits(pattern: &[u8], name: &[u8]) -> bool {
    match (pattern, name) {
        ([], []) => true,
        ([b'*', b'*', rest @ ..], _) => (0..=name.len()).any(|at| fits(rest, &name[at..])),
        ([b'*', rest @ ..], _) => {
            let end = name.iter().position(|c| *c == b'/').unwrap_or(name.len());
            (0..=end).any(|at| fits(rest, &name[at..]))
        }
        ([b'?', pattern @ ..], [c, name @ ..]) if *c != b'/' => fits(pattern, name),
        ([p, pattern @ ..], [c, name @ ..]) if p == c => fits(pattern, name),
        _ => false,
    }
}

impl Matcher<'_> {
    fn ignores(&self, name: &str) -> bool {
        if let Some(answer) = self.kept.borrow().get(name) {
            return *answer;
        }
        let answer = self.patterns.iter().fold(false, |ignored, pattern| match pattern.strip_prefix('!') {
            Some(pattern) => ignored && !fits(pattern.as_bytes(), name.as_bytes()),
            None => ignored || fits(pattern.as_bytes(), name.as_bytes()),
        });
        self.kept.borrow_mut().insert(name.to_owned(), answer);
        answer
    }
}

#[workflow]
pub async fn glob_matching(cx: &mut Cx, _input: u64) -> Result<String> {
    let name = format!("build/{}.log", cx.random().await % 20);
    let names = ["src/main.rs", &name, "build/keep.txt", "a.tmp", &name, "a/b/c.tmp"];
    let answers = {
        let matcher = Matcher {
            patterns: &["build/**", "!build/*.txt", "**.tmp", "src/?.rs"],
            kept: RefCell::default(),
        };
        let answers = names.map(|name| matcher.ignores(name));
        (answers, matcher.kept.borrow().len())
    };
    Ok(format!("{answers:?}"))
}
