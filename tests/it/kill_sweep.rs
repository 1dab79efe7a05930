//! Kills the research example at chosen appends and at random instants, starts it again, and looks at what is left:
//! the same report, written once, and no world-changing call run twice.
//!
//! In a normal test run a handful of points is tried. `AETHER_SWEEP=full` (see `scripts/kill-sweep`) tries every append
//! in turn, and 50 random instants with `SIGKILL`; `AETHER_SEED` chooses other instants.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rusqlite::{Connection, OpenFlags};
use tempfile::TempDir;

use crate::built::built;
use crate::seeds::kit::is_full_sweep;

/// Points that are tried at the same time: each one mostly waits for a dead process's lease to run out.
const LANES: usize = 4;
const RANDOM_KILLS: usize = 50;
/// Processes that may die one after another before that counts as no progress.
const MAX_PROCESSES: usize = 40;
const QUESTION: &str = "How is a tool call with an unknown outcome resolved after a crash?";

/// Where a process dies.
#[derive(Debug, Clone, Copy)]
enum Kill {
    /// Instead of its N-th append.
    At(u64),
    /// When its N-th append is durable.
    After(u64),
    /// After this long, by `SIGKILL`.
    Instant(Duration),
    /// Every process when its N-th append is durable, until one gets through. From 4 on there is progress: taking the
    /// run up, deciding about an open call, a new intent, its outcome.
    Again(u64),
}

/// What a folder of the research example holds after a run.
#[derive(Debug, PartialEq, Eq)]
struct Remains {
    report: String,
    /// The invocation that wrote the report.
    mark: String,
    /// Lines of the side log.
    calls: Vec<String>,
    decisions: Vec<String>,
}

#[derive(Debug)]
struct Row {
    kill: Kill,
    processes: usize,
    died: bool,
    open_intents: i64,
    decisions: Vec<String>,
    repeated_reads: usize,
    violations: Vec<String>,
}

struct Place(TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn command(&self) -> Command {
        let mut command = Command::new(example());
        let tree = Path::new(env!("CARGO_MANIFEST_DIR")).join("aether-core");
        command.args(["--question", QUESTION, "--id", "sweep", "--tree"]).arg(tree);
        command.arg("--report").arg(self.path("report.md")).arg("--db").arg(self.path("run.db"));
        command.arg("--side-log").arg(self.path("calls.log"));
        command.env_remove("OPENAI_API_KEY").env_remove("OPENAI_BASE_URL").stdin(Stdio::null());
        command
    }

    fn run(&self, crash: Option<(&str, u64)>) -> Output {
        let mut command = self.command();
        if let Some((flag, number)) = crash {
            command.args([flag, &number.to_string()]);
        }
        command.output().unwrap()
    }

    fn count(&self, query: &str) -> i64 {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE;
        let Ok(db) = Connection::open_with_flags(self.path("run.db"), flags) else { return 0 };
        // A process that died early leaves a file without tables.
        db.query_row(query, (), |row| row.get(0)).unwrap_or(0)
    }

    /// Environment-changing calls that were begun and of which the journal does not know the end.
    fn open_intents(&self) -> i64 {
        let events = |kind| self.count(&format!("SELECT count(*) FROM aether_history WHERE kind = '{kind}'"));
        events("tool_invocation_started")
            - events("tool_invocation_finished")
            - self.count(
                "SELECT count(*) FROM aether_history AS resolved WHERE kind = 'invocation_resolved' \
             AND json_extract(event, '$.decision') IN ('happened', 'did_not_happen') \
             AND NOT EXISTS (SELECT 1 FROM aether_history AS later WHERE later.kind = 'tool_invocation_finished' \
             AND json_extract(later.event, '$.invocation') = json_extract(resolved.event, '$.invocation'))",
            )
    }

    fn remains(&self) -> Remains {
        let text = fs::read_to_string(self.path("report.md")).unwrap_or_default();
        let (report, mark) = text.rsplit_once("<!-- ").unwrap_or((&text, ""));
        let mark = mark.trim().trim_start_matches("written once, by ").trim_end_matches(" -->");
        let calls = fs::read_to_string(self.path("calls.log")).unwrap_or_default();
        let db = Connection::open(self.path("run.db")).unwrap();
        let query =
            "SELECT json_extract(event, '$.decision') FROM aether_history WHERE kind = 'invocation_resolved'";
        let mut query = db.prepare(query).unwrap();
        let decisions = query.query_map((), |row| row.get(0)).unwrap().map(Result::unwrap).collect();
        Remains {
            report: report.to_owned(),
            mark: mark.to_owned(),
            calls: calls.lines().map(str::to_owned).collect(),
            decisions,
        }
    }
}

fn example() -> PathBuf {
    built().example("research")
}

/// Dies as told, then runs undisturbed.
fn try_point(kill: Kill, expected: &Remains) -> Row {
    let place = Place::new();
    let mut row = Row {
        kill,
        processes: 2,
        died: false,
        open_intents: 0,
        decisions: Vec::new(),
        repeated_reads: 0,
        violations: Vec::new(),
    };
    let first = match kill {
        Kill::At(n) => place.run(Some(("--crash-at", n))).status,
        Kill::After(n) => place.run(Some(("--crash-after", n))).status,
        Kill::Instant(after) => {
            let mut child = place.command().stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
            std::thread::sleep(after);
            child.kill().unwrap();
            child.wait().unwrap()
        }
        Kill::Again(n) => {
            row.processes = 1;
            loop {
                row.processes += 1;
                row.open_intents += place.open_intents();
                let output = place.run(Some(("--crash-after", n)));
                if output.status.success() {
                    break output.status;
                }
                if row.processes > MAX_PROCESSES {
                    row.violations.push("no process got through".to_owned());
                    break output.status;
                }
            }
        }
    };
    row.died = !first.success();
    row.open_intents += place.open_intents();
    let last = place.run(None);
    if !last.status.success() {
        row.violations.push(format!("the restart failed: {}", String::from_utf8_lossy(&last.stderr).trim()));
    }
    judge(&mut row, &place.remains(), expected);
    row
}

/// Holds what is left against an undisturbed run.
fn judge(row: &mut Row, found: &Remains, expected: &Remains) {
    let mut violations = Vec::new();
    if found.report != expected.report {
        violations.push("another report".to_owned());
    }
    let writes: Vec<&String> = found.calls.iter().filter(|call| call.contains(":write_report:")).collect();
    let distinct: BTreeSet<&String> = found.calls.iter().collect();
    let undone = found.decisions.iter().filter(|decision| *decision == "did_not_happen").count();
    if writes.iter().collect::<BTreeSet<_>>().len() != writes.len() {
        violations.push(format!("one invocation ran twice: {writes:?}"));
    }
    // A body that was cut off before it changed anything may be followed by one more, under a new key.
    if writes.is_empty() || writes.len() > 1 + undone {
        violations.push(format!("{} write calls with {undone} known not to have happened", writes.len()));
    }
    if !writes.iter().any(|call| **call == found.mark) {
        violations.push(format!("the report was written by {:?}, the calls were {writes:?}", found.mark));
    }
    if i64::try_from(found.decisions.len()) != Ok(row.open_intents) {
        violations.push(format!("{} calls were in doubt, decided: {:?}", row.open_intents, found.decisions));
    }
    let expected_calls: BTreeSet<&String> =
        expected.calls.iter().filter(|c| !c.contains(":write_report:")).collect();
    let reads: BTreeSet<&String> =
        distinct.iter().filter(|c| !c.contains(":write_report:")).copied().collect();
    if reads != expected_calls {
        violations.push("other tool calls than in the undisturbed run".to_owned());
    }
    row.repeated_reads = found.calls.len() - distinct.len();
    row.decisions.clone_from(&found.decisions);
    row.violations.extend(violations);
}

fn try_all(kills: &[Kill], expected: &Remains) -> Vec<Row> {
    let next = AtomicUsize::new(0);
    let rows = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..LANES {
            scope.spawn(|| {
                while let Some((number, kill)) = Some(next.fetch_add(1, Ordering::Relaxed))
                    .and_then(|number| Some((number, *kills.get(number)?)))
                {
                    let row = try_point(kill, expected);
                    rows.lock().unwrap().push((number, row));
                }
            });
        }
    });
    let mut rows = rows.into_inner().unwrap();
    rows.sort_by_key(|(number, _)| *number);
    rows.into_iter().map(|(_, row)| row).collect()
}

fn table(rows: &[Row]) -> String {
    let mut table = format!(
        "{:<24} {:>9} {:>5} {:>8} {:<16} {:>14}  verdict\n",
        "killed", "processes", "died", "in doubt", "decided", "repeated reads"
    );
    for row in rows {
        let kill = match row.kill {
            Kill::At(n) => format!("instead of append {n}"),
            Kill::After(n) => format!("after append {n}"),
            Kill::Instant(after) => format!("kill -9 at {} ms", after.as_millis()),
            Kill::Again(n) => format!("each after append {n}"),
        };
        let verdict = if row.violations.is_empty() { "ok".to_owned() } else { row.violations.join("; ") };
        let _infallible = writeln!(
            table,
            "{kill:<24} {:>9} {:>5} {:>8} {:<16} {:>14}  {verdict}",
            row.processes,
            if row.died { "yes" } else { "no" },
            row.open_intents,
            row.decisions.join(","),
            row.repeated_reads,
        );
    }
    table
}

/// Instants spread over a run's duration, a little beyond its end too (xorshift).
fn instants(count: usize, duration: Duration, seed: u64) -> Vec<Kill> {
    let mut state = seed.max(1);
    let mut draw = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        duration.mul_f64((state % 1000) as f64 / 950.0)
    };
    (0..count).map(|_| Kill::Instant(draw())).collect()
}

#[test]
fn a_killed_agent_goes_on_and_writes_its_report_once() {
    let full = is_full_sweep();
    let seed = std::env::var("AETHER_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(42);
    let undisturbed = Place::new();
    example();
    let started = Instant::now();
    let output = undisturbed.run(None);
    let duration = started.elapsed();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let expected = undisturbed.remains();
    assert!(!expected.report.is_empty() && expected.decisions.is_empty(), "{expected:?}");

    let again = undisturbed.run(None);
    assert!(again.status.success() && String::from_utf8_lossy(&again.stdout).contains("finished"));
    assert_eq!(undisturbed.remains(), expected, "a finished run does nothing");

    let appends = u64::try_from(undisturbed.count("SELECT count(*) FROM aether_journal")).unwrap();
    let intent = "SELECT count(*) FROM aether_journal WHERE position <= \
        (SELECT min(position) FROM aether_history WHERE kind = 'tool_invocation_started')";
    let intent = u64::try_from(undisturbed.count(intent)).unwrap();
    assert!(intent > 1 && intent < appends);
    let kills = if full {
        let every = (1..=appends).flat_map(|n| [Kill::At(n), Kill::After(n)]);
        every.chain(instants(RANDOM_KILLS, duration, seed)).chain([Kill::Again(4), Kill::Again(5)]).collect()
    } else {
        let mut kills = vec![Kill::At(2), Kill::After(intent), Kill::At(intent + 1), Kill::After(intent + 1)];
        kills.extend([Kill::At(appends), Kill::Again(6)]);
        kills.extend(instants(2, duration, seed));
        kills
    };
    let rows = try_all(&kills, &expected);
    let violated = rows.iter().filter(|row| !row.violations.is_empty()).count();
    println!("{}", table(&rows));
    println!(
        "{} kills of a run with {appends} appends ({} calls, {} ms; seed {seed}) in {:.0} s: {} in doubt and resolved, \
         {} reads repeated, {violated} violations",
        rows.len(),
        expected.calls.len(),
        duration.as_millis(),
        started.elapsed().as_secs_f64(),
        rows.iter().map(|row| row.decisions.len()).sum::<usize>(),
        rows.iter().map(|row| row.repeated_reads).sum::<usize>(),
    );
    assert_eq!(violated, 0, "\n{}", table(&rows));
}

#[test]
fn an_outcome_that_nobody_can_tell_is_an_error_each_time_and_writes_nothing() {
    let open = (1..60).find_map(|n| {
        let place = Place::new();
        let _died = place.run(Some(("--crash-after", n)));
        (place.open_intents() == 1).then_some(place)
    });
    let place = open.expect("a process that dies with an open intent");
    fs::write(place.path("report.md"), "somebody else's").unwrap();
    for _ in 0..2 {
        let output = place.run(None);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("in doubt") && said.contains("write_report"), "{said}");
    }
    assert_eq!(fs::read_to_string(place.path("report.md")).unwrap(), "somebody else's");
}

#[test]
fn bad_input_is_refused_with_a_message_and_code_2() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file.txt");
    fs::write(&file, "not ours").unwrap();
    let (file, missing) = (file.to_str().unwrap(), folder.path().join("missing"));
    let db = folder.path().join("run.db");
    let cases: [(&[&str], &str); 7] = [
        (&["--tree", missing.to_str().unwrap()], "No such file"),
        (&["--tree", file], "not a folder"),
        (&["--question", "  "], "the question is empty"),
        (&["--report", file], "not a report of ours"),
        (&["--db", file], "file.txt"),
        (&["--crash-at", "0"], "not a number from 1"),
        (&["--frsh"], "unknown argument"),
    ];
    for (args, message) in cases {
        let mut command = Command::new(example());
        command.current_dir(folder.path()).arg("--db").arg(&db).args(args);
        let output = command.env_remove("OPENAI_API_KEY").env_remove("OPENAI_BASE_URL").output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
        assert!(said.contains(message), "{args:?}: {said}");
    }
    assert_eq!(fs::read_to_string(file).unwrap(), "not ours");
}
