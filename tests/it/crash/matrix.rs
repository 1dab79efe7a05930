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
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use aether::definition::OnUnknown;
use aether::engine::Limits;
use aether::store::event::Event;
use aether::store::ledger::LedgerStatus;
use aether_testing::CrashPoint;
use jiff::Timestamp;

use super::bookings;
use super::judge::judge;
use super::lives::{Address, Death, End, Keeping, Lived, One, RUN, cut_off, left, recorded, runtime};
use super::program::{Block, Call, Case, Class, Ending, Moment, Node, Word};
use super::stage::Stage;
use super::steps::Kind;
use crate::postgres::way::Way;
use crate::seeds::kit::{flushed, is_full_sweep};

/// URL of the database; without it the runs are in a file of the folder.
const SERVER: &str = "AETHER_MATRIX_SERVER";
const FOLDER: &str = "AETHER_MATRIX_FOLDER";
const PROGRAM: &str = "AETHER_MATRIX_PROGRAM";
const DEATH: &str = "AETHER_MATRIX_DEATH";
const INLINE: &str = "AETHER_MATRIX_INLINE";
/// Number of the life of an encrypted program.
const LIFE: &str = "AETHER_MATRIX_LIFE";

/// What a process says before the number of its writes to the effect store.
const EFFECTS: &str = "effects ";

/// Processes at the same time.
const LANES: usize = 4;

/// As many on a server: most of them wait until a lease is over.
const LANES_ON_SERVER: usize = 8;

/// Where a process dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Boundary {
    BeforeIntent,
    AfterIntent,
    InBody,
    InBodyChanged,
    AfterBody,
    AfterEffect,
    AfterOutcome,
    BeforeRequest,
    AfterRequest,
    BeforeDecision,
    AfterDecision,
    BeforeReserve,
    AfterReserve,
}

/// Boundaries, each with the head of its column.
type Columns = &'static [(Boundary, &'static str)];

/// Around a body.
const BODY: Columns = &[
    (Boundary::BeforeIntent, "instead of the intent"),
    (Boundary::AfterIntent, "after the intent"),
    (Boundary::InBody, "in the body, nothing changed yet"),
    (Boundary::InBodyChanged, "in the body, the world changed"),
    (Boundary::AfterBody, "instead of the outcome"),
    (Boundary::AfterEffect, "after the effect store"),
    (Boundary::AfterOutcome, "after the outcome"),
];

/// Around a word from outside.
const WORD: Columns = &[
    (Boundary::BeforeRequest, "instead of the request"),
    (Boundary::AfterRequest, "after the request"),
    (Boundary::BeforeDecision, "instead of the decision"),
    (Boundary::AfterDecision, "after the decision"),
];

/// Around the reservation of a store-wide key.
const KEY: Columns = &[
    (Boundary::BeforeReserve, "instead of the reservation"),
    (Boundary::AfterReserve, "after the reservation"),
    (Boundary::BeforeIntent, "instead of the intent"),
    (Boundary::AfterIntent, "after the intent"),
];

impl Boundary {
    /// How a process dies there; `None` where this program has no such boundary.
    fn death(self, writes: &Writes, body: Option<u64>) -> Option<Death> {
        let write = |number: Option<u64>, point: fn(u64) -> CrashPoint| number.map(point).map(Death::Write);
        let body = |moment| body.map(|number| Death::Body(number, moment));
        match self {
            Self::BeforeIntent => write(writes.intent, CrashPoint::Before),
            Self::AfterIntent => write(writes.intent, CrashPoint::After),
            Self::InBody => body(Moment::Before),
            Self::InBodyChanged => body(Moment::In),
            Self::AfterBody => body(Moment::After).or_else(|| write(writes.outcome, CrashPoint::Before)),
            Self::AfterEffect => write(writes.effect, CrashPoint::AfterEffect),
            Self::AfterOutcome => write(writes.outcome, CrashPoint::After),
            Self::BeforeRequest => write(writes.request, CrashPoint::Before),
            Self::AfterRequest => write(writes.request, CrashPoint::After),
            Self::BeforeDecision => write(writes.decision, CrashPoint::Before),
            Self::AfterDecision => write(writes.decision, CrashPoint::After),
            Self::BeforeReserve => write(Some(1), CrashPoint::BeforeReserve),
            Self::AfterReserve => write(Some(1), CrashPoint::AfterReserve),
        }
    }
}

/// The numbers of a program's writes.
#[derive(Debug)]
struct Writes {
    intent: Option<u64>,
    outcome: Option<u64>,
    request: Option<u64>,
    decision: Option<u64>,
    /// Of the outcome, among the writes to the effect store.
    effect: Option<u64>,
}

/// A program of which one thing is looked at.
struct Row {
    head: String,
    case: Case,
    /// Name of the command that is looked at; without it, all of them.
    about: Option<&'static str>,
    /// Number of the body's call that is looked at, where it is one.
    body: Option<u64>,
}

impl Row {
    fn call(head: String, kind: Kind) -> Self {
        let block = vec![Node::Call(call(1, kind))];
        Self { about: Some(kind.name()), body: Some(1), ..Self::of(head, block) }
    }

    fn of(head: impl Into<String>, block: Block) -> Self {
        let case = Case { block, points: Vec::new(), tempo: 0, seed: 1, inline: Limits::default().inline };
        Self { head: head.into(), case, about: None, body: None }
    }

    /// With results that go to the effect store.
    fn large(kind: Kind) -> Self {
        let row = Self::call(format!("{}, large result", head(kind)), kind);
        Self { case: Case { inline: 0, ..row.case }, ..row }
    }

    /// Whether commands of this name are looked at.
    fn is_about(&self, name: &str) -> bool {
        self.about.is_none_or(|about| about == name)
    }
}

fn call(id: u32, kind: Kind) -> Call {
    Call { id, salt: 0, kind, script: Vec::new(), again: Vec::new(), word: Word::Truth, strict: false }
}

fn head(kind: Kind) -> String {
    let policy = match kind.on_unknown() {
        _ if !kind.changes_world() => return format!("`{}`", kind.class()),
        OnUnknown::Fail => "fail",
        OnUnknown::Ask => "ask",
        OnUnknown::Retry => "retry",
        OnUnknown::Probe => "probe",
    };
    let also = match kind {
        Kind::Once => ", `irreversible`",
        Kind::OnceInStore => ", `irreversible` in the store",
        Kind::Approved => ", `approval`",
        Kind::CalledBack => ", callback",
        Kind::Confirmed => ", `changes`",
        Kind::Compensated => ", `compensate`",
        Kind::Refund => ", undoes a step",
        _ => "",
    };
    format!("`{}`, `{policy}`{also}", kind.class())
}

/// What has a body, and what is recorded without one.
fn rows() -> Vec<Row> {
    let mut rows: Vec<_> = Kind::ALL.iter().map(|kind| Row::call(head(*kind), *kind)).collect();
    let fails = Call { script: vec![Ending::Failure(Class::Permanent)], strict: true, ..call(2, Kind::Read) };
    let undone = vec![Node::Call(call(1, Kind::Compensated)), Node::Call(fails)];
    let undoes = Row::of(head(Kind::Refund), undone);
    rows.push(Row { about: Some(Kind::Refund.name()), body: Some(3), ..undoes });
    rows.extend([Kind::Read, Kind::Llm, Kind::Tool].map(Row::large));
    let others = [
        ("`cx.now()`", Node::Now),
        ("`cx.uuid()`", Node::Uuid),
        ("`cx.random()`", Node::IfRandom(Vec::new(), Vec::new())),
        ("`cx.sleep(..)`", Node::Sleep(1)),
        ("`cx.signal(..)`", Node::Signal(1)),
        ("`cx.child(..)`", Node::Child(vec![Node::Call(call(1, Kind::Tool))])),
    ];
    rows.extend(others.map(|(head, node)| Row::of(head, vec![node])));
    let plan = Row::of("`cx.plan(..)`", vec![Node::Plan(vec![Node::Call(call(1, Kind::Tool))])]);
    rows.push(Row { about: Some("plan.p"), ..plan });
    rows
}

/// What waits for a word from outside.
fn waiting_rows() -> Vec<Row> {
    let mut rows = vec![Row::of("`cx.ask(..)`", vec![Node::Ask])];
    rows.extend([Kind::Approved, Kind::CalledBack].map(|kind| Row::call(head(kind), kind)));
    rows
}

/// Which writes of the undisturbed run hold the intent, the outcome, and what is said to and by people.
fn writes(row: &Row, keeping: Keeping) -> Writes {
    let folder = tempfile::tempdir().unwrap();
    let (address, _database) = Address::make(keeping, folder.path());
    let output = process(folder.path(), &address, &row.case, keeping, None).wait_with_output().unwrap();
    assert!(output.status.success());
    let run = aether::id::RunId::new(RUN).unwrap();
    let frames = runtime(keeping).block_on(async {
        let store = address.open().await.unwrap();
        keeping.reading(&store).load(&run, 0).await.unwrap()
    });
    let number = |wanted: fn(&Event) -> bool| {
        let about = |event: &Event| event.command().is_some_and(|command| row.is_about(command.name()));
        let holds = |event: &Event| wanted(event) && about(event);
        let at = frames.iter().position(|frame| frame.events().unwrap().iter().any(holds));
        at.map(|at| at as u64 + 1)
    };
    Writes {
        intent: number(is_intent),
        outcome: number(is_outcome),
        request: number(|event| matches!(event, Event::ApprovalRequested(_) | Event::CallbackAwaited(_))),
        decision: number(|event| matches!(event, Event::ApprovalDecided(_) | Event::CallbackReceived(_))),
        // The last one is the run's result.
        effect: (row.case.inline == 0).then(|| effects(&output.stdout) - 1),
    }
}

/// How many writes to the effect store a process says that it made.
fn effects(output: &[u8]) -> u64 {
    let output = String::from_utf8_lossy(output);
    output.lines().find_map(|line| line.strip_prefix(EFFECTS)).unwrap().parse().unwrap()
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
            | Event::TransactionFinished(_)
            | Event::PlanGenerated(_)
            | Event::TimeRecorded(_)
            | Event::UuidRecorded(_)
            | Event::RandomRecorded(_)
            | Event::TimerFired(_)
            | Event::WaitCompleted(_)
    )
}

/// This program once more, executing `case` in `folder` until it dies as told or the run ends.
fn process(folder: &Path, address: &Address, case: &Case, keeping: Keeping, death: Option<Death>) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([
        "crash::matrix::a_process_started_by_the_matrix_executes_its_program",
        "--exact",
        "--nocapture",
    ]);
    command.env(INLINE, case.inline.to_string());
    if let Address::Server(way, url) = address {
        command.env(SERVER, url).env("AETHER_STORE", way.name());
    }
    if let Keeping::Encrypted(life) = keeping {
        command.env(LIFE, life.to_string());
    }
    command.env(FOLDER, folder).env(PROGRAM, serde_json::to_string(&case.block).unwrap());
    if let Some(death) = death {
        command.env(DEATH, written(death));
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap()
}

fn written(death: Death) -> String {
    match death {
        Death::Write(point) => format!("write {}", point.id()),
        Death::Body(number, moment) => format!("{moment:?} {number}"),
    }
}

fn read(death: &str) -> Death {
    match death.split_once(' ').unwrap() {
        ("write", point) => Death::Write(point.parse().unwrap()),
        ("Before", number) => Death::Body(number.parse().unwrap(), Moment::Before),
        ("In", number) => Death::Body(number.parse().unwrap(), Moment::In),
        ("After", number) => Death::Body(number.parse().unwrap(), Moment::After),
        other => panic!("not a death: {other:?}"),
    }
}

/// Runs where the matrix started this program; without a program there is nothing to do.
#[test]
fn a_process_started_by_the_matrix_executes_its_program() {
    let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) else { return };
    let block = serde_json::from_str(&std::env::var(PROGRAM).unwrap()).unwrap();
    let inline = std::env::var(INLINE).unwrap().parse().unwrap();
    let case = Case { block, points: Vec::new(), tempo: 0, seed: 1, inline };
    let death = std::env::var(DEATH).ok().map(|death| read(&death));
    let stage = Stage::on(&folder.join("deeds")).alone();
    let (address, keeping) = match std::env::var(SERVER) {
        Ok(url) => (Address::Server(Way::chosen(), url), Keeping::Postgres(Way::chosen())),
        Err(_) => {
            let encrypted = std::env::var(LIFE).ok().map(|life| Keeping::Encrypted(life.parse().unwrap()));
            (Address::File(folder.join("case.db")), encrypted.unwrap_or(Keeping::Sqlite))
        }
    };
    let runtime = runtime(keeping);
    let store = runtime.block_on(address.open()).unwrap();
    let life = One::begin(&case, &stage, &store, keeping, Timestamp::UNIX_EPOCH, 1, death);
    let ended = runtime.block_on(life.live()).unwrap();
    if let End::Died(_) = ended {
        // What was written before the end is durable; from here on nothing more is done.
        runtime.block_on(flushed(&store));
        println!("\nhere");
        loop {
            std::thread::park();
        }
    }
    println!("\n{EFFECTS}{}", life.effects());
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
fn cell(row: &Row, death: Death, keeping: Keeping) -> Result<String, String> {
    let (case, folder) = (&row.case, tempfile::tempdir().map_err(|error| error.to_string())?);
    let (address, _database) = Address::make(keeping, folder.path());
    kill_there(&mut process(folder.path(), &address, case, keeping, Some(death)));
    keeping.shown(folder.path())?;
    let runtime = runtime(keeping);
    let store = runtime.block_on(address.open())?;
    let cut = runtime.block_on(cut_off(&*keeping.reading(&store)))?;
    runtime.block_on(store.close()).map_err(|error| error.to_string())?;
    let keeping = keeping.in_life(1);
    let output = process(folder.path(), &address, case, keeping, None).wait_with_output();
    let output = output.map_err(|error| error.to_string())?;
    if !output.status.success() {
        return Err(format!("the second process failed: {}", String::from_utf8_lossy(&output.stdout)));
    }
    keeping.shown(folder.path())?;
    let stage = Stage::on(&folder.path().join("deeds"));
    let store = keeping.reading(&runtime.block_on(address.open())?);
    let result = runtime.block_on(recorded(&*store))?;
    let mut lived = Lived { deeds: stage.deeds(), ..runtime.block_on(left(&store, result, cut))? };
    bookings::add(&address, &mut lived.deeds)?;
    let pure = lived.deeds.remove("pure");
    judge(RUN, &case.block, &lived)?;
    lived.deeds.extend(pure.map(|deeds| ("pure".to_owned(), deeds)));
    let about = |key: &str| key.rsplit(':').nth(1).is_none_or(|name| row.is_about(name));
    lived.deeds.retain(|key, _| row.body.is_none() || about(key));
    Ok(told(&lived))
}

/// What stands in a cell.
fn told(lived: &Lived) -> String {
    let calls: u32 = lived.deeds.values().map(|deeds| deeds.calls).sum();
    let keys = lived.deeds.len();
    let changes: u32 = lived.deeds.values().map(|deeds| deeds.changes).sum();
    let ending = ending(lived);
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

fn ending(lived: &Lived) -> &'static str {
    let seen = match &lived.result {
        Ok(seen) => seen.join(" "),
        Err(error) => error.clone(),
    };
    let undone = |event: &Event| matches!(event, Event::StepCompensated(_));
    if seen.ends_with("in doubt") {
        "in doubt"
    } else if lived.journals.values().flatten().any(undone) {
        "undone"
    } else if lived.ledger.iter().any(|row| row.status == LedgerStatus::Confirmed) {
        "confirmed"
    } else {
        "done"
    }
}

type Cells = BTreeMap<(usize, usize), Result<String, String>>;

/// The cells, by row and column, that are `wanted`, worked on side by side.
fn cells(rows: &[Row], columns: Columns, keeping: Keeping, wanted: fn(usize, usize) -> bool) -> Cells {
    let (next, cells) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
    let lanes = if let Keeping::Postgres(_) = keeping { LANES_ON_SERVER } else { LANES };
    std::thread::scope(|scope| {
        for _ in 0..lanes {
            scope.spawn(|| {
                while let Some((number, row)) = Some(next.fetch_add(1, Ordering::Relaxed))
                    .and_then(|number| Some((number, rows.get(number)?)))
                {
                    let columns: Vec<_> =
                        columns.iter().enumerate().filter(|(column, _)| wanted(number, *column)).collect();
                    if columns.is_empty() {
                        continue;
                    }
                    let writes = writes(row, keeping);
                    for (column, (boundary, _)) in columns {
                        let death = boundary.death(&writes, row.body);
                        let cell = death.map_or(Ok("–".to_owned()), |death| cell(row, death, keeping));
                        cells.lock().unwrap().insert((number, column), cell);
                    }
                }
            });
        }
    });
    cells.into_inner().unwrap()
}

fn table(rows: &[Row], columns: Columns, cells: &Cells) -> String {
    let mut table = String::from("| the process dies |");
    columns.iter().for_each(|(_, head)| write!(table, " {head} |").unwrap());
    writeln!(table, "\n|---|{}", "---|".repeat(columns.len())).unwrap();
    for (number, row) in rows.iter().enumerate() {
        write!(table, "| {} |", row.head).unwrap();
        for column in 0..columns.len() {
            let cell = cells[&(number, column)].as_deref().unwrap_or_else(|broken| broken);
            write!(table, " {cell} |").unwrap();
        }
        table.push('\n');
    }
    table
}

/// The table of these rows, every cell of which is as it must be.
fn proven(rows: &[Row], columns: Columns, keeping: Keeping) -> String {
    let cells = cells(rows, columns, keeping, |_, _| true);
    none_broken(rows, columns, &cells);
    table(rows, columns, &cells)
}

fn none_broken(rows: &[Row], columns: Columns, cells: &Cells) {
    let broken: BTreeSet<String> = cells
        .iter()
        .filter_map(|((row, column), cell)| {
            let broken = cell.as_ref().err()?;
            Some(format!("{} killed {}: {broken}", rows[*row].head, columns[*column].1))
        })
        .collect();
    assert!(broken.is_empty(), "{broken:#?}");
}

#[test]
fn a_process_that_dies_at_any_boundary_of_any_step_repeats_nothing() {
    let file = Keeping::Sqlite;
    let in_store = [Row::call(head(Kind::OnceInStore), Kind::OnceInStore)];
    let tables =
        [proven(&rows(), BODY, file), proven(&waiting_rows(), WORD, file), proven(&in_store, KEY, file)];
    let table = tables.join(
        "
",
    );
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

/// Cells on every eighth diagonal.
fn is_on_diagonal(row: usize, column: usize) -> bool {
    (row + column).is_multiple_of(8)
}

/// Cells on every other diagonal.
fn is_on_some_diagonal(row: usize, column: usize) -> bool {
    (row + column).is_multiple_of(2)
}

/// On Postgres every cell is what it is on a file. In the way of reaching it that is chosen, half of them are tried, and all
/// with `AETHER_SWEEP=full`; of the others those on every eighth diagonal.
fn is_on_postgres_as_on_a_file(way: Way) {
    let wanted: fn(usize, usize) -> bool = match way == Way::chosen() {
        true if is_full_sweep() => |_, _| true,
        true => is_on_some_diagonal,
        false => is_on_diagonal,
    };
    is_as_on_a_file(Keeping::Postgres(way), wanted);
}

/// Every cell that is wanted is what it is on a file.
fn is_as_on_a_file(keeping: Keeping, wanted: fn(usize, usize) -> bool) {
    let file =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/crash/matrix.md"));
    let file = file.unwrap();
    let mut expected = file.split("\n\n");
    let in_store = vec![Row::call(head(Kind::OnceInStore), Kind::OnceInStore)];
    let mut tried = 0;
    for (rows, columns) in [(rows(), BODY), (waiting_rows(), WORD), (in_store, KEY)] {
        let cells = cells(&rows, columns, keeping, wanted);
        none_broken(&rows, columns, &cells);
        let table = expected.next().unwrap();
        for ((row, column), cell) in &cells {
            let head = format!("| {} |", rows[*row].head);
            let line = table.lines().find_map(|line| line.strip_prefix(&head)).unwrap();
            let on_a_file = line.split('|').nth(*column).unwrap().trim();
            let boundary = columns[*column].1;
            assert_eq!(cell.as_deref(), Ok(on_a_file), "{head} killed {boundary}, {keeping:?}");
        }
        tried += cells.len();
    }
    println!("{keeping:?}: {tried} cells");
}

#[test]
fn a_process_that_dies_at_any_boundary_repeats_nothing_and_shows_nothing_behind_a_codec() {
    is_as_on_a_file(Keeping::Encrypted(0), is_on_diagonal);
}

#[test]
fn a_process_that_dies_at_any_boundary_repeats_nothing_on_postgres() {
    is_on_postgres_as_on_a_file(Way::Plain);
}

#[test]
fn a_process_that_dies_at_any_boundary_repeats_nothing_on_postgres_in_portable_mode() {
    is_on_postgres_as_on_a_file(Way::Portable);
}

#[test]
fn a_process_that_dies_at_any_boundary_repeats_nothing_on_postgres_through_pgbouncer() {
    is_on_postgres_as_on_a_file(Way::Pooler);
}
