//! The crash matrix: a process dies at every boundary of every kind of step, and another one goes on.
//!
//! Each cell is a real process (this test program started again) that comes to a stop at its boundary and is then
//! killed with `SIGKILL`, and a second one that ends the run. The table of what they did stands in `matrix.md` and in
//! `docs/guarantees.md`; `AETHER_BLESS=1` writes both. A new kind of step is a new program, a new boundary a new column.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use aether::SqliteStore;
use aether::def::OnUnknown;
use aether::event::Event;
use aether::store::Store;
use aether_testing::CrashPoint;
use jiff::Timestamp;

use super::judge::judge;
use super::lives::{Death, End, Keeping, Lived, One, RUN, cut_off, left, recorded, runtime};
use super::program::{Call, Case, Moment, Node, Word};
use super::stage::Stage;
use super::steps::Kind;

const FOLDER: &str = "AETHER_MATRIX_FOLDER";
const PROGRAM: &str = "AETHER_MATRIX_PROGRAM";
const DEATH: &str = "AETHER_MATRIX_DEATH";

/// Processes at the same time.
const LANES: usize = 4;

/// Where a process dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Boundary {
    BeforeIntent,
    AfterIntent,
    InBody,
    InBodyChanged,
    AfterBody,
    AfterOutcome,
}

impl Boundary {
    /// Each with the head of its column.
    const ALL: [(Self, &str); 6] = [
        (Self::BeforeIntent, "instead of the intent"),
        (Self::AfterIntent, "after the intent"),
        (Self::InBody, "in the body, nothing changed yet"),
        (Self::InBodyChanged, "in the body, the world changed"),
        (Self::AfterBody, "instead of the outcome"),
        (Self::AfterOutcome, "after the outcome"),
    ];

    /// How a process dies there; `None` where this program has no such boundary.
    fn death(self, writes: &Writes, has_body: bool) -> Option<Death> {
        let write = |number: Option<u64>, point: fn(u64) -> CrashPoint| number.map(point).map(Death::Write);
        let body = |moment| has_body.then_some(Death::Body(1, moment));
        match self {
            Self::BeforeIntent => write(writes.intent, CrashPoint::Before),
            Self::AfterIntent => write(writes.intent, CrashPoint::After),
            Self::InBody => body(Moment::Before),
            Self::InBodyChanged => body(Moment::In),
            Self::AfterBody => body(Moment::After).or_else(|| write(writes.outcome, CrashPoint::Before)),
            Self::AfterOutcome => write(writes.outcome, CrashPoint::After),
        }
    }
}

/// The numbers of a program's writes.
#[derive(Debug)]
struct Writes {
    intent: Option<u64>,
    outcome: Option<u64>,
}

/// The programs, one for each row, with the row's head.
fn programs() -> Vec<(String, Node)> {
    let call = |kind| Call { id: 1, salt: 0, kind, script: Vec::new(), word: Word::Truth, strict: false };
    let head = |kind: Kind| {
        let policy = match kind.on_unknown() {
            _ if !kind.changes_world() => return format!("`{}`", kind.class()),
            OnUnknown::Fail => "fail",
            OnUnknown::Ask => "ask",
            OnUnknown::Retry => "retry",
            OnUnknown::Probe => "probe",
        };
        let once = if kind.def().options.irreversible { ", `irreversible`" } else { "" };
        format!("`{}`, `{policy}`{once}", kind.class())
    };
    let mut programs: Vec<_> = Kind::ALL.iter().map(|kind| (head(*kind), Node::Call(call(*kind)))).collect();
    let others = [
        ("`cx.now()`", Node::Now),
        ("`cx.uuid()`", Node::Uuid),
        ("`cx.random()`", Node::IfRandom(Vec::new(), Vec::new())),
        ("`cx.sleep(..)`", Node::Sleep(1)),
        ("`cx.signal(..)`", Node::Signal(1)),
        ("`cx.child(..)`", Node::Child(vec![Node::Call(call(Kind::Tool))])),
    ];
    programs.extend(others.map(|(head, node)| (head.to_owned(), node)));
    programs
}

fn case(node: &Node) -> Case {
    Case { block: vec![node.clone()], points: Vec::new(), tempo: 0, seed: 1 }
}

/// Which writes of the undisturbed run hold the intent and the outcome.
fn writes(case: &Case) -> Writes {
    let folder = tempfile::tempdir().unwrap();
    let mut process = process(folder.path(), case, None);
    assert!(process.wait().unwrap().success());
    let store = SqliteStore::open(folder.path().join("case.db")).unwrap();
    let run = aether::id::RunId::new(RUN).unwrap();
    let frames = runtime(Keeping::Sqlite).block_on(store.load(&run, 0)).unwrap();
    let number = |wanted: fn(&Event) -> bool| {
        let at = frames.iter().position(|frame| frame.events().unwrap().iter().any(wanted));
        at.map(|at| at as u64 + 1)
    };
    Writes { intent: number(is_intent), outcome: number(is_outcome) }
}

fn is_intent(event: &Event) -> bool {
    matches!(
        event,
        Event::ToolInvocationStarted(_)
            | Event::CommandEmitted(_)
            | Event::ChildStarted(_)
            | Event::TimerScheduled(_)
            | Event::WaitStarted(_)
    )
}

fn is_outcome(event: &Event) -> bool {
    matches!(
        event,
        Event::CommandCommitted(_)
            | Event::TimeRecorded(_)
            | Event::UuidRecorded(_)
            | Event::RandomRecorded(_)
            | Event::TimerFired(_)
            | Event::WaitCompleted(_)
    )
}

/// This program once more, executing `case` in `folder` until it dies as told or the run ends.
fn process(folder: &Path, case: &Case, death: Option<Death>) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([
        "crash::matrix::a_process_started_by_the_matrix_executes_its_program",
        "--exact",
        "--nocapture",
    ]);
    command.env(FOLDER, folder).env(PROGRAM, serde_json::to_string(&case.block).unwrap());
    if let Some(death) = death {
        command.env(DEATH, written(death));
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap()
}

fn written(death: Death) -> String {
    match death {
        Death::Write(point) => format!("write {}", point.id()),
        Death::Body(_, moment) => format!("{moment:?} body"),
    }
}

fn read(death: &str) -> Death {
    match death.split_once(' ').unwrap() {
        ("write", point) => Death::Write(point.parse().unwrap()),
        ("Before", _) => Death::Body(1, Moment::Before),
        ("In", _) => Death::Body(1, Moment::In),
        ("After", _) => Death::Body(1, Moment::After),
        other => panic!("not a death: {other:?}"),
    }
}

/// Runs where the matrix started this program; without a program there is nothing to do.
#[test]
fn a_process_started_by_the_matrix_executes_its_program() {
    let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) else { return };
    let block = serde_json::from_str(&std::env::var(PROGRAM).unwrap()).unwrap();
    let case = Case { block, points: Vec::new(), tempo: 0, seed: 1 };
    let death = std::env::var(DEATH).ok().map(|death| read(&death));
    let stage = Stage::on(&folder.join("deeds")).alone();
    let store: Arc<dyn Store> = Arc::new(SqliteStore::open(folder.join("case.db")).unwrap());
    let life = One::begin(&case, &stage, &store, Keeping::Sqlite, Timestamp::UNIX_EPOCH, 1, death);
    let runtime = runtime(Keeping::Sqlite);
    let ended = runtime.block_on(life.live()).unwrap();
    if let End::Died(_) = ended {
        // What was written before the end is durable; from here on nothing more is done.
        runtime.block_on(store.delete_snapshots()).unwrap();
        println!("\nhere");
        loop {
            std::thread::park();
        }
    }
    runtime.block_on(store.close()).unwrap();
}

/// Kills a process when it has come to its boundary.
fn kill_there(process: &mut Child) {
    let mut lines = BufReader::new(process.stdout.take().unwrap()).lines().map_while(Result::ok);
    assert!(lines.any(|line| line == "here"), "the process ended before its boundary");
    process.kill().unwrap();
    let status = process.wait().unwrap();
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(9));
}

/// A process dies, another one goes on: what both did.
fn cell(case: &Case, death: Death) -> Result<String, String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    kill_there(&mut process(folder.path(), case, Some(death)));
    let file = folder.path().join("case.db");
    let open = || SqliteStore::open(&file).map(|store| Arc::new(store) as Arc<dyn Store>);
    let (runtime, store) = (runtime(Keeping::Sqlite), open().map_err(|error| error.to_string())?);
    let cut = runtime.block_on(cut_off(&*store))?;
    runtime.block_on(store.close()).map_err(|error| error.to_string())?;
    let output = process(folder.path(), case, None).wait_with_output().map_err(|error| error.to_string())?;
    if !output.status.success() {
        return Err(format!("the second process failed: {}", String::from_utf8_lossy(&output.stdout)));
    }
    let (stage, store) =
        (Stage::on(&folder.path().join("deeds")), open().map_err(|error| error.to_string())?);
    let result = runtime.block_on(recorded(&*store))?;
    let mut lived = Lived { deeds: stage.deeds(), ..runtime.block_on(left(&store, result, cut))? };
    let pure = lived.deeds.remove("pure");
    judge(RUN, &case.block, &lived)?;
    lived.deeds.extend(pure.map(|deeds| ("pure".to_owned(), deeds)));
    Ok(told(&lived))
}

/// What stands in a cell.
fn told(lived: &Lived) -> String {
    let calls: u32 = lived.deeds.values().map(|deeds| deeds.calls).sum();
    let keys = lived.deeds.len();
    let changes: u32 = lived.deeds.values().map(|deeds| deeds.changes).sum();
    let seen = match &lived.result {
        Ok(seen) => seen.join(" "),
        Err(error) => error.clone(),
    };
    let ending = if seen.ends_with("in doubt") { "in doubt" } else { "done" };
    let mut cell = match calls {
        0 if lived.deeds.is_empty() && ending == "done" => String::new(),
        1 => "1 call".to_owned(),
        calls => format!("{calls} calls"),
    };
    if calls > 1 && changes > 0 {
        let _infallible = write!(cell, ", {keys} {}", if keys == 1 { "key" } else { "keys" });
    }
    let separator = if cell.is_empty() { "" } else { ", " };
    format!("{cell}{separator}{ending}")
}

/// All cells, worked on side by side.
fn cells(programs: &[(String, Node)]) -> BTreeMap<(usize, usize), Result<String, String>> {
    let (next, cells) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
    std::thread::scope(|scope| {
        for _ in 0..LANES {
            scope.spawn(|| {
                while let Some((row, (_, node))) =
                    Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|row| Some((row, programs.get(row)?)))
                {
                    let case = case(node);
                    let writes = writes(&case);
                    for (column, (boundary, _)) in Boundary::ALL.iter().enumerate() {
                        let death = boundary.death(&writes, matches!(node, Node::Call(_)));
                        let cell = death.map_or(Ok("–".to_owned()), |death| cell(&case, death));
                        cells.lock().unwrap().insert((row, column), cell);
                    }
                }
            });
        }
    });
    cells.into_inner().unwrap()
}

fn table(programs: &[(String, Node)], cells: &BTreeMap<(usize, usize), Result<String, String>>) -> String {
    let mut table = String::from("| the process dies |");
    Boundary::ALL.iter().for_each(|(_, head)| write!(table, " {head} |").unwrap());
    writeln!(table, "\n|---|{}", "---|".repeat(Boundary::ALL.len())).unwrap();
    for (row, (head, _)) in programs.iter().enumerate() {
        write!(table, "| {head} |").unwrap();
        for column in 0..Boundary::ALL.len() {
            let cell = cells[&(row, column)].as_deref().unwrap_or_else(|broken| broken);
            write!(table, " {cell} |").unwrap();
        }
        table.push('\n');
    }
    table
}

#[test]
fn a_process_that_dies_at_any_boundary_of_any_step_repeats_nothing() {
    let programs = programs();
    let cells = cells(&programs);
    let broken: BTreeSet<String> = cells
        .iter()
        .filter_map(|((row, column), cell)| {
            let broken = cell.as_ref().err()?;
            Some(format!("{} killed {}: {broken}", programs[*row].0, Boundary::ALL[*column].1))
        })
        .collect();
    assert!(broken.is_empty(), "{broken:#?}");
    let table = table(&programs, &cells);
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (golden, docs) = (here.join("tests/it/crash/matrix.md"), here.join("docs/guarantees.md"));
    let text = std::fs::read_to_string(&docs).unwrap();
    if std::env::var_os("AETHER_BLESS").is_some() {
        let (before, rest) = text.split_once("<!-- crash matrix -->\n").unwrap();
        let (_, after) = rest.split_once("<!-- end -->\n").unwrap();
        let text = format!("{before}<!-- crash matrix -->\n{table}<!-- end -->\n{after}");
        std::fs::write(&docs, text).unwrap();
        std::fs::write(&golden, table).unwrap();
        return;
    }
    let expected = std::fs::read_to_string(golden).unwrap();
    assert!(table == expected, "the matrix is now:\n{table}\nand was:\n{expected}");
    assert!(
        text.contains(&expected),
        "docs/guarantees.md shows another matrix; write it with AETHER_BLESS=1"
    );
}
