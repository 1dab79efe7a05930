//! Starts the workers and their runs, sends what runs wait for, and does the faults. It has no engine of its own: all that
//! it wants it asks of a worker, and asks again, of another one, until it is answered.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Child, ChildStdin};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use fastrand::Rng;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::faults::{Deck, Fault, Happened};
use super::figures::Figures;
use super::flows::{Flow, LETTERS};
use super::home::Home;
use super::judge::judge;
use super::plan::Plan;
use super::task::Task;
use super::worker::{Said, Setting, listen};
use super::world::monotonic;

/// How long a shutdown may take beyond what it was given, and beyond locks, on a machine that has little time for it.
const SHUTDOWN: Duration = Duration::from_secs(90);

/// For so many times of what is planned, the faults go on until each kind has happened.
const MOST: u32 = 15;

/// For so long nobody was paused or kept from writing when an operator is sure.
const SURE: Duration = Duration::from_millis(3_500);

/// How often the open runs are counted, for which no fault waits.
const LOOK: Duration = Duration::from_millis(300);

/// A worker process.
struct Worker {
    child: Child,
    input: Option<ChildStdin>,
    state: State,
    begun: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Up,
    Paused { until: Instant, fault: usize },
    Stopping { since: Instant },
    Down { until: Instant },
}

/// A fault that hits all workers, until it ends, and its number.
#[derive(Clone, Copy)]
struct Shared {
    fault: Fault,
    until: Instant,
    number: usize,
}

/// What was answered.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    /// Microseconds of the common clock.
    pub(super) at: u64,
    pub(super) order: String,
    pub(super) answer: String,
}

pub(super) struct Driver {
    pub(super) plan: Plan,
    pub(super) folder: TempDir,
    pub(super) home: Box<dyn Home>,
    rng: Rng,
    workers: Vec<Worker>,
    said: (Sender<Said>, Receiver<Said>),
    tasks: Vec<Task>,
    people: Task,
    number: u64,
    deck: Deck,
    shared: Vec<Shared>,
    /// Restarts of what all workers have in common that are yet to come.
    restarts: u32,
    quiet: Instant,
    unsure: Instant,
    /// The latest time to which a clock was set, in seconds from the system's clock.
    leaps: i64,
    /// Faults are over.
    is_calm: bool,
    runs: u32,
    open: u32,
    looked: Instant,
    pub(super) faults: Vec<Happened>,
    pub(super) answers: Vec<Answer>,
    pub(super) decided: BTreeSet<String>,
    pub(super) errors: BTreeMap<String, usize>,
    pub(super) violations: Vec<String>,
    pub(super) calm: Duration,
}

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

impl Driver {
    pub(super) fn begin(plan: Plan, folder: TempDir, home: Box<dyn Home>) -> Self {
        let now = Instant::now();
        let mut driver = Self {
            rng: Rng::with_seed(plan.seed),
            restarts: plan.restarts,
            deck: Deck::new(home.cards()),
            plan,
            folder,
            home,
            workers: Vec::new(),
            said: channel(),
            tasks: Vec::new(),
            people: Task::new(Vec::new(), Duration::ZERO),
            number: 0,
            shared: Vec::new(),
            quiet: now,
            unsure: now,
            leaps: 0,
            is_calm: false,
            runs: 0,
            open: 0,
            looked: now,
            faults: Vec::new(),
            answers: Vec::new(),
            decided: BTreeSet::new(),
            errors: BTreeMap::new(),
            violations: Vec::new(),
            calm: Duration::ZERO,
        };
        for _ in 0..driver.plan.workers {
            let worker = driver.spawn(0);
            driver.workers.push(worker);
        }
        driver
    }

    fn spawn(&mut self, leap: i64) -> Worker {
        let choose = |rng: &mut Rng, of: &[u64]| ms(of[rng.usize(..of.len())]);
        let setting = Setting {
            folder: self.folder.path().to_owned(),
            address: self.home.address(),
            lease: self.plan.lease,
            max_pages: self.home.max_pages(),
            lock_patience: choose(&mut self.rng, &[300, 2_000, 30_000]),
            patience: choose(&mut self.rng, &[0, 200, 1_500, 4_000]),
            leap,
        };
        let (mut child, output) = setting.spawn(&self.complaints());
        let (said, pid) = (self.said.0.clone(), child.id());
        std::thread::spawn(move || listen(pid, output, &said));
        Worker { input: child.stdin.take(), child, state: State::Up, begun: false }
    }

    /// Where the workers' standard error goes.
    pub(super) fn complaints(&self) -> PathBuf {
        self.folder.path().join("errors")
    }

    /// Does everything, and judges it.
    pub(super) fn drive(mut self) -> Figures {
        let began = Instant::now();
        let (mut next_fault, mut next_run, mut next_word) = (began + ms(1_500), began, began + ms(60_000));
        while self.is_to_go_on(began.elapsed()) {
            let now = Instant::now();
            // Where every process takes longer to begin than until it is hit, nothing would be tried.
            if now >= next_fault && self.workers.iter().any(|worker| worker.begun) {
                let most = u64::try_from(self.plan.between_faults.as_millis()).unwrap();
                next_fault = now + ms(self.rng.u64(50..most));
                self.draw(began.elapsed());
            }
            if now >= next_run && self.open < self.plan.open {
                next_run = now + self.plan.between_starts;
                self.start_run();
            }
            if now >= next_word {
                next_word += ms(60_000);
                println!("{} s: {} runs, {} faults", began.elapsed().as_secs(), self.runs, self.faults.len());
            }
            self.tick();
        }
        self.calm_down();
        let figures = judge(&mut self);
        if !figures.violations.is_empty() {
            self.keep();
        }
        Figures { took: began.elapsed(), ..figures }
    }

    /// Whether there are to be more faults. A slow machine gets more time for each kind of them.
    fn is_to_go_on(&self, passed: Duration) -> bool {
        let happened = |fault: &Fault| self.faults.iter().any(|known| known.fault == *fault);
        passed < self.plan.faulty
            || self.runs < self.plan.runs
            || (passed < self.plan.faulty * MOST && !self.kinds().iter().all(happened))
    }

    /// Keeps what a violation is to be found in, where it is asked for.
    fn keep(&self) {
        let Some(folder) = std::env::var_os("AETHER_CHAOS_KEEP") else { return };
        let folder = PathBuf::from(folder).join(self.plan.seed.to_string());
        std::fs::create_dir_all(&folder).unwrap();
        for name in ["calls", "errors"] {
            std::fs::copy(self.folder.path().join(name), folder.join(name)).unwrap();
        }
        self.home.keep(&folder);
    }

    fn tick(&mut self) {
        self.hear();
        self.end_faults();
        self.look_after_workers();
        self.give_orders();
        if (self.is_calm || self.looked.elapsed() > LOOK)
            && let Some(open) = self.home.open_runs()
        {
            (self.open, self.looked) = (open, Instant::now());
        }
        std::thread::sleep(ms(10));
    }

    /// All faults end, every clock is later than all that were, and the runs have time to end.
    fn calm_down(&mut self) {
        let now = Instant::now();
        self.is_calm = true;
        self.shared.iter_mut().for_each(|shared| shared.until = now);
        for worker in &mut self.workers {
            match &mut worker.state {
                State::Paused { until, .. } | State::Down { until } => *until = now,
                State::Up | State::Stopping { .. } => {}
            }
        }
        self.leaps += 100_000;
        for worker in 0..self.workers.len() {
            self.tell(worker, &format!("leap {}", self.leaps));
        }
        // What is only now let go, or still ends, belongs to the faults and not to the calm.
        let is_up = |worker: &Worker| worker.state == State::Up && worker.begun;
        let settled = Instant::now();
        while !(self.shared.is_empty() && self.workers.iter().all(is_up)) && settled.elapsed() < SHUTDOWN {
            self.tick();
        }
        // A slow machine takes its time: nothing is stuck while runs end.
        let calm = Instant::now();
        let (mut least, mut since) = (usize::MAX, calm);
        while self.is_busy() && since.elapsed() < self.plan.calm && calm.elapsed() < self.plan.calm * MOST {
            self.tick();
            let left = self.open as usize + self.tasks.len();
            if left < least {
                (least, since) = (left, Instant::now());
            }
        }
        self.calm = calm.elapsed();
        if self.is_busy() {
            let waiting: Vec<_> = self.tasks.iter().map(|task| &task.orders[task.done]).collect();
            self.violations.push(format!(
                "after {:?} of calm {} runs have not ended, and these orders are not answered: {waiting:?}",
                self.calm, self.open
            ));
        }
        self.end_workers();
    }

    fn is_busy(&self) -> bool {
        self.open > 0 || !self.tasks.is_empty()
    }

    fn end_workers(&mut self) {
        for worker in 0..self.workers.len() {
            self.shut(worker);
        }
        let since = Instant::now();
        while self.workers.iter().any(|worker| matches!(worker.state, State::Stopping { .. }))
            && since.elapsed() < SHUTDOWN
        {
            self.hear();
            self.reap();
            std::thread::sleep(ms(10));
        }
        for worker in &mut self.workers {
            let _it_has_ended = worker.child.kill();
            worker.child.wait().unwrap();
        }
        // The threads that listen are done when every process is.
        std::thread::sleep(ms(100));
        self.hear();
    }

    /// Takes in what workers said.
    fn hear(&mut self) {
        while let Ok(said) = self.said.1.try_recv() {
            match said {
                Said::Line(pid, line) => self.heard(pid, &line),
                // What it had not answered is asked of another one.
                Said::Ended(pid) => {
                    let lost = |task: &&mut Task| task.given.is_some_and(|(_, of)| of == pid);
                    let tasks = self.tasks.iter_mut().chain([&mut self.people]);
                    tasks.filter(lost).for_each(|task| task.given = None);
                }
            }
        }
        self.tasks.retain(|task| task.done < task.orders.len());
    }

    fn heard(&mut self, pid: u32, line: &str) {
        if line == "begun" {
            self.workers.iter_mut().filter(|worker| worker.child.id() == pid).for_each(|w| w.begun = true);
            return;
        }
        if let Some(decided) = line.strip_prefix("decided ") {
            self.decided.insert(decided.to_owned());
            return;
        }
        if let Some(how) = line.strip_prefix("shut ") {
            return self.count(&format!("shutdown: {how}"));
        }
        let Some((number, answer)) = line.split_once(' ') else { return };
        let Ok(number) = number.parse::<u64>() else { return };
        if self.people.given == Some((number, pid)) {
            self.people.given = None;
            self.people.not_before = Instant::now() + ms(200);
        }
        let Some(task) = self.tasks.iter_mut().find(|task| task.given == Some((number, pid))) else {
            return if let Some(error) = answer.strip_prefix("err ") {
                self.count(error)
            };
        };
        task.given = None;
        if let Some(error) = answer.strip_prefix("err ") {
            task.not_before = Instant::now() + ms(50);
            return self.count(error);
        }
        let order = task.orders[task.done].clone();
        task.done += 1;
        task.not_before = Instant::now() + ms(self.rng.u64(0..400));
        let is_start = order.starts_with("start ");
        self.answers.push(Answer { at: monotonic(), order: order.clone(), answer: answer.to_owned() });
        if is_start {
            self.send_to(&order);
        }
    }

    /// Counts an error by what it says beside names.
    fn count(&mut self, error: &str) {
        let folder = self.folder.path().to_string_lossy();
        let unnamed: String = error.split('`').step_by(2).collect::<Vec<_>>().join("_");
        let kind: String = unnamed.replace(&*folder, "").chars().take(100).collect();
        *self.errors.entry(kind).or_default() += 1;
    }

    fn give_orders(&mut self) {
        let now = Instant::now();
        let due: Vec<_> = (0..self.tasks.len()).filter(|task| self.tasks[*task].is_due(now)).collect();
        for task in due {
            let order = self.tasks[task].orders[self.tasks[task].done].clone();
            let given = self.ask(&order);
            self.tasks[task].given = given;
        }
        let unsure = !self.shared.is_empty()
            || self.workers.iter().any(|worker| matches!(worker.state, State::Paused { .. }));
        if unsure {
            self.unsure = now;
        }
        if self.people.given.is_none() && self.people.not_before <= now {
            // Until then nobody is paused.
            let quiet = if self.is_calm { ms(1_000) } else { self.quiet.saturating_duration_since(now) };
            let sure = self.unsure.elapsed() > SURE;
            let until = if sure { monotonic() + u64::try_from(quiet.as_micros()).unwrap() } else { 0 };
            self.people.given = self.ask(&format!("people {until}"));
        }
    }

    /// Asks a worker; paused ones are asked, too. Returns number and process.
    fn ask(&mut self, order: &str) -> Option<(u64, u32)> {
        let able = |worker: &Worker| matches!(worker.state, State::Up | State::Paused { .. }) && worker.begun;
        let able: Vec<_> = (0..self.workers.len()).filter(|worker| able(&self.workers[*worker])).collect();
        let worker = *self.rng.choice(&able)?;
        self.number += 1;
        self.tell(worker, &format!("{} {order}", self.number));
        Some((self.number, self.workers[worker].child.id()))
    }

    fn tell(&mut self, worker: usize, line: &str) {
        if let Some(input) = &mut self.workers[worker].input {
            let _the_process_is_gone = input.write_all(format!("{line}\n").as_bytes());
        }
    }

    fn start_run(&mut self) {
        let (flow, n) = (Flow::ALL[self.rng.usize(..Flow::ALL.len())], self.rng.u32(..1_000_000));
        let run = format!("run-{}", self.runs);
        self.runs += 1;
        self.tasks.push(Task::new(vec![format!("start {} {run} {n}", flow.name())], Duration::ZERO));
    }

    /// What is sent to a run that was started.
    fn send_to(&mut self, start: &str) {
        let words: Vec<_> = start.split(' ').collect();
        let (flow, run) = (Flow::named(words[1]).unwrap(), words[2]);
        let topics = match flow {
            Flow::Listen => &LETTERS[..],
            Flow::Endless => &LETTERS[..1],
            _ => &[],
        };
        for (topic, letters) in topics {
            let mut orders = Vec::new();
            for (id, _) in *letters {
                orders.push(format!("signal {run} {topic} {id}"));
                // Some are sent twice.
                if self.rng.u32(0..4) == 0 {
                    orders.push(format!("signal {run} {topic} {id}"));
                }
            }
            let wait = ms(self.rng.u64(0..1_000));
            self.tasks.push(Task::new(orders, wait));
        }
        if flow == Flow::Endless || self.rng.u32(0..12) == 0 {
            let wait = ms(self.rng.u64(0..3_000));
            self.tasks.push(Task::new(vec![format!("cancel {run}")], wait));
        }
    }

    /// One more fault. Restarts come in the middle of equal parts of the time.
    fn draw(&mut self, passed: Duration) {
        let restarts = self.plan.restarts;
        let is_due = |left: u32| passed * restarts * 2 >= self.plan.faulty * (2 * (restarts - left) + 1);
        let restart = Some(Fault::Restart).filter(|_| self.restarts > 0 && is_due(self.restarts));
        self.restarts -= u32::from(restart.is_some());
        let (fault, now) = (restart.unwrap_or_else(|| self.deck.draw(&mut self.rng)), Instant::now());
        let until = now + fault.lasts(&mut self.rng, self.plan.lease, self.plan.long);
        let Some(worker) = self.victim(fault) else { return self.deck.put_back(fault) };
        match fault {
            Fault::Quiet => {
                self.quiet = until;
                self.note(fault, 0);
            }
            fault
                if (fault == Fault::Pause || fault.is_shared()) && now < self.quiet && restart.is_none() =>
            {
                self.deck.put_back(fault)
            }
            fault if fault.is_shared() => {
                let happens =
                    self.shared.iter().all(|shared| shared.fault != fault) && self.home.begin(fault);
                match happens {
                    true => {
                        let number = self.note(fault, 0);
                        self.shared.push(Shared { fault, until, number });
                    }
                    false => self.deck.put_back(fault),
                }
            }
            Fault::Leap => self.leap(worker),
            Fault::Kill => self.kill(worker, until),
            Fault::Pause => {
                let fault = self.note(fault, self.workers[worker].child.id());
                self.signal(worker, Signal::STOP);
                self.workers[worker].state = State::Paused { until, fault };
            }
            _ => self.shut(worker),
        }
    }

    /// One of the workers to which a fault can happen now.
    fn victim(&mut self, fault: Fault) -> Option<usize> {
        let able = |worker: &Worker| match fault {
            Fault::Kill => !matches!(worker.state, State::Down { .. }),
            Fault::Pause => worker.state == State::Up,
            Fault::Shutdown => worker.state == State::Up && worker.begun,
            _ => true,
        };
        let able: Vec<_> = (0..self.workers.len()).filter(|worker| able(&self.workers[*worker])).collect();
        self.rng.choice(able)
    }

    /// Notes that a fault begins; its number.
    fn note(&mut self, fault: Fault, pid: u32) -> usize {
        let from = monotonic();
        self.faults.push(Happened { fault, pid, from, until: from });
        self.faults.len() - 1
    }

    fn kill(&mut self, worker: usize, until: Instant) {
        if let State::Paused { fault, .. } = self.workers[worker].state {
            self.faults[fault].until = monotonic();
        }
        let pid = self.workers[worker].child.id();
        self.workers[worker].child.kill().unwrap();
        self.workers[worker].child.wait().unwrap();
        self.note(Fault::Kill, pid);
        self.workers[worker].state = State::Down { until };
    }

    fn leap(&mut self, worker: usize) {
        const DAY: i64 = 24 * 60 * 60;
        let seconds = self.rng.i64(-2 * DAY..2 * DAY);
        self.leaps = self.leaps.max(seconds);
        self.tell(worker, &format!("leap {seconds}"));
        self.note(Fault::Leap, self.workers[worker].child.id());
    }

    fn shut(&mut self, worker: usize) {
        self.note(Fault::Shutdown, self.workers[worker].child.id());
        self.signal(worker, Signal::TERM);
        self.workers[worker].state = State::Stopping { since: Instant::now() };
    }

    fn signal(&mut self, worker: usize, signal: Signal) {
        kill_process(Pid::from_child(&self.workers[worker].child), signal).unwrap();
    }

    /// Ends the faults whose time is over.
    fn end_faults(&mut self) {
        let now = Instant::now();
        let mut shared = std::mem::take(&mut self.shared);
        shared.retain(|shared| {
            let ends = shared.until <= now && self.home.end(shared.fault);
            if ends {
                self.faults[shared.number].until = monotonic();
            }
            !ends
        });
        self.shared = shared;
        for worker in 0..self.workers.len() {
            if let State::Paused { until, fault } = self.workers[worker].state
                && until <= now
            {
                self.signal(worker, Signal::CONT);
                self.faults[fault].until = monotonic();
                self.workers[worker].state = State::Up;
            }
        }
    }

    fn look_after_workers(&mut self) {
        self.reap();
        let now = Instant::now();
        for worker in 0..self.workers.len() {
            match self.workers[worker].state {
                State::Down { until } if until <= now => {
                    let leap = if self.is_calm || self.rng.bool() { self.leaps } else { 0 };
                    self.workers[worker] = self.spawn(leap);
                }
                _ => {}
            }
        }
    }

    /// Notices processes that ended.
    fn reap(&mut self) {
        let now = Instant::now();
        for worker in &mut self.workers {
            let ended = match worker.state {
                State::Down { .. } => continue,
                _ => worker.child.try_wait().unwrap(),
            };
            match (worker.state, ended) {
                (State::Stopping { .. }, Some(status)) if status.success() => {
                    worker.state = State::Down { until: now };
                }
                (state, Some(status)) => {
                    self.violations.push(format!("a worker that was {state:?} ended by itself: {status}"));
                    worker.state = State::Down { until: now };
                }
                (State::Stopping { since }, None) if self.shared.is_empty() && since.elapsed() > SHUTDOWN => {
                    let pid = worker.child.id();
                    self.violations
                        .push(format!("process {pid} is not shut down after {:?}", since.elapsed()));
                    worker.child.kill().unwrap();
                }
                _ => {}
            }
        }
    }

    /// The kinds of faults that must happen.
    pub(super) fn kinds(&self) -> Vec<Fault> {
        let cards = self.home.cards().iter().map(|(fault, _)| *fault);
        cards.chain((self.plan.restarts > 0).then_some(Fault::Restart)).collect()
    }

    /// Runs that were started.
    pub(super) fn runs(&self) -> usize {
        self.runs as usize
    }
}
