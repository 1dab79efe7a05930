//! A repository to work on: a function with a TODO, and a test that fails because of it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::options::Options;

const CALC: &str =
    "def mean(numbers):\n    # TODO: the mean of no numbers is 0\n    return sum(numbers) / len(numbers)\n";

const TESTS: &str = "import unittest\n\nfrom calc import mean\n\n\nclass Mean(unittest.TestCase):\n    def test_some(self):\n        self.assertEqual(mean([1, 2, 3]), 2)\n\n    def test_none(self):\n        self.assertEqual(mean([]), 0)\n\n\nif __name__ == \"__main__\":\n    unittest.main()\n";

/// The repository of the options; without one, the scratch repository, made where it is not there yet.
pub(crate) fn prepare(options: &Options) -> io::Result<PathBuf> {
    let repo = options.repo.clone().unwrap_or_else(|| "target/coding-scratch".into());
    if !repo.join(".git").is_dir() {
        make(&repo)?;
    }
    repo.canonicalize()
}

fn make(repo: &Path) -> io::Result<()> {
    fs::create_dir_all(repo)?;
    fs::write(repo.join("calc.py"), CALC)?;
    fs::write(repo.join("test_calc.py"), TESTS)?;
    fs::write(repo.join("run-tests"), "exec python3 -B -m unittest -q test_calc\n")?;
    git(repo, &["init", "-q"])?;
    git(repo, &["config", "user.name", "The agent"])?;
    git(repo, &["config", "user.email", "agent@example.com"])?;
    git(repo, &["add", "."])?;
    git(repo, &["commit", "-q", "-m", "A mean, and a test that fails"])?;
    Ok(())
}

/// What git says in the repository.
pub(crate) fn git(repo: &Path, args: &[&str]) -> io::Result<String> {
    let done = Command::new("git").arg("-C").arg(repo).args(args).stdin(Stdio::null()).output()?;
    if !done.status.success() {
        let said = String::from_utf8_lossy(&done.stderr).trim().to_owned();
        return Err(io::Error::other(format!("git {}: {said}", args.join(" "))));
    }
    Ok(String::from_utf8_lossy(&done.stdout).trim().to_owned())
}
