//! The command line: what was asked for, checked before anything is started.

use std::path::{Path, PathBuf};

use crate::agent::Brief;
use crate::crash::CrashPoint;
use crate::report;
use crate::tree::Tree;

/// What `--help` prints.
pub(crate) const HELP: &str = "\
Answer a question about a source tree with a report. Kill it at any moment and start it again: it resumes.

  --question TEXT   what to find out   (default: a question about this project)
  --tree FOLDER     where to look      (default: the current folder)
  --report FILE     the report         (default: target/research/<run>.md)
  --db FILE         the journal        (default: target/research/research.db)
  --id NAME         name of the run    (default: derived from question, folder and report)
  --fresh           begin again, even if this run exists or is finished
  --crash-at N      abort the process instead of its N-th append to the journal
  --crash-after N   abort the process when its N-th append is durable
  --side-log FILE   one line for every tool call that really runs

With OPENAI_API_KEY or OPENAI_BASE_URL set it asks that endpoint (model: OPENAI_MODEL), else a bundled offline model.
";

const QUESTION: &str = "How does this project make sure that a tool call is not repeated after a crash?";
const FOLDER: &str = "target/research";

/// The options of a run.
#[derive(Debug)]
pub(crate) struct Options {
    pub(crate) question: String,
    pub(crate) tree: PathBuf,
    pub(crate) report: Option<PathBuf>,
    pub(crate) db: PathBuf,
    pub(crate) id: String,
    pub(crate) fresh: bool,
    pub(crate) crash: Option<CrashPoint>,
    pub(crate) side_log: Option<PathBuf>,
}

/// Result of reading the command line.
#[derive(Debug)]
pub(crate) enum Command {
    /// Print the help.
    Help,
    /// Work.
    Research(Options),
}

/// Reads the arguments, the program's name not among them. An error is a message for the user.
pub(crate) fn parse(args: impl IntoIterator<Item = String>) -> Result<Command, String> {
    let mut args = args.into_iter();
    let (mut question, mut tree) = (QUESTION.to_owned(), PathBuf::from("."));
    let (mut report, mut db, mut id) = (None, Path::new(FOLDER).join("research.db"), None);
    let (mut fresh, mut crash, mut side_log) = (false, None, None);
    while let Some(flag) = args.next() {
        let mut value = || args.next().ok_or_else(|| format!("{flag} needs a value"));
        match flag.as_str() {
            "--help" | "-h" => return Ok(Command::Help),
            "--question" => question = value()?,
            "--tree" => tree = value()?.into(),
            "--report" => report = Some(absolute(Path::new(&value()?))?),
            "--db" => db = value()?.into(),
            "--id" => id = Some(value()?),
            "--fresh" => fresh = true,
            "--crash-at" => crash = Some(CrashPoint::At(number(&flag, &value()?)?)),
            "--crash-after" => crash = Some(CrashPoint::After(number(&flag, &value()?)?)),
            "--side-log" => side_log = Some(value()?.into()),
            other => return Err(format!("unknown argument {other:?}; --help lists what there is")),
        }
    }
    let question = question.trim().to_owned();
    if question.is_empty() {
        return Err("the question is empty: say what to find out with --question TEXT".into());
    }
    let tree = Tree::open(&tree).map_err(|error| format!("--tree {error}"))?.root().to_owned();
    let id = id.unwrap_or_else(|| derived_id(&question, &tree, report.as_deref()));
    Ok(Command::Research(Options { question, tree, report, db, id, fresh, crash, side_log }))
}

fn number(flag: &str, value: &str) -> Result<u64, String> {
    value.parse().ok().filter(|n| *n > 0).ok_or_else(|| format!("{flag} {value:?}: not a number from 1"))
}

fn absolute(path: &Path) -> Result<PathBuf, String> {
    std::path::absolute(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// The same request has the same name, so that starting it again finds the run (FNV-1a).
fn derived_id(question: &str, tree: &Path, report: Option<&Path>) -> String {
    let text = format!("{question}\0{}\0{}", tree.display(), report.unwrap_or(Path::new("")).display());
    let hash =
        text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3));
    format!("research-{hash:016x}")
}

impl Options {
    /// The input of the run named `id`.
    pub(crate) fn brief(&self, id: &str) -> Result<Brief, String> {
        let report = match &self.report {
            Some(report) => report.clone(),
            None => absolute(&Path::new(FOLDER).join(format!("{id}.md")))?,
        };
        Ok(Brief { question: self.question.clone(), tree: self.tree.clone(), report })
    }

    /// Makes the folder of the journal.
    pub(crate) fn prepare(&self) -> Result<(), String> {
        let Some(folder) = self.db.parent().filter(|folder| !folder.as_os_str().is_empty()) else {
            return Ok(());
        };
        std::fs::create_dir_all(folder).map_err(|error| format!("--db {}: {error}", self.db.display()))
    }

    /// Makes room for a new run's report: with `--fresh`, an older report of this program goes.
    pub(crate) fn make_room(&self, report: &Path) -> Result<(), String> {
        let refused = |what: &dyn std::fmt::Display| format!("--report {}: {what}", report.display());
        match report::writer(report).map_err(|error| refused(&error))? {
            None => Ok(()),
            Some(writer) if self.fresh && !writer.is_empty() => {
                std::fs::remove_file(report).map_err(|error| refused(&error))
            }
            Some(writer) if writer.is_empty() => {
                Err(refused(&"there is a file already, and it is not a report of ours"))
            }
            Some(_) => {
                Err(refused(&"there is a report of another run already; name another file, or add --fresh"))
            }
        }
    }
}
