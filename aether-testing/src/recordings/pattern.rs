//! Which files a pattern means.

use std::path::{Path, PathBuf};

/// The files that fit `pattern`, in the order of their names; the error says why there is none.
pub(super) fn files(pattern: &Path) -> Result<Vec<PathBuf>, String> {
    let Some(name) = pattern.file_name().and_then(|name| name.to_str()) else {
        return Err("the pattern does not end in the name of a file".into());
    };
    let folder = pattern.parent().unwrap_or(Path::new("."));
    if folder.to_string_lossy().contains(['*', '?']) {
        return Err("only the last part of the pattern may hold `*` and `?`".into());
    }
    let entries = std::fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut found = Vec::new();
    for entry in entries {
        let path = entry.map_err(|error| format!("{}: {error}", folder.display()))?.path();
        let fits = path.file_name().and_then(|found| found.to_str()).is_some_and(|found| fits(name, found));
        if fits && path.is_file() {
            found.push(path);
        }
    }
    found.sort();
    if found.is_empty() { Err("no file fits the pattern".into()) } else { Ok(found) }
}

/// Whether `name` fits `pattern`: `*` stands for any text, `?` for one character.
fn fits(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) = (pattern.chars().collect(), name.chars().collect());
    let (mut p, mut n, mut star) = (0, 0, None);
    while n < name.len() {
        if p < pattern.len() && pattern[p] == '*' {
            star = Some((p, n));
            p += 1;
        } else if p < pattern.len() && (pattern[p] == '?' || pattern[p] == name[n]) {
            (p, n) = (p + 1, n + 1);
        } else if let Some((at, eaten)) = star {
            star = Some((at, eaten + 1));
            (p, n) = (at + 1, eaten + 1);
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_and_question_marks() {
        for (pattern, name, expected) in [
            ("*.json", "a.json", true),
            ("*.json", "a.json.tmp", false),
            ("a*b*c", "aXbYbZc", true),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("*", "", true),
            ("abc", "abc", true),
        ] {
            assert_eq!(fits(pattern, name), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn no_file_is_an_error() {
        assert_eq!(files(Path::new("src/*.nothing")), Err("no file fits the pattern".into()));
        assert!(files(Path::new("no/such/*.json")).unwrap_err().contains("no/such"));
        assert!(files(Path::new("*/x.json")).unwrap_err().contains("last part"));
    }
}
