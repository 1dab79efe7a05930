//! The catalogue of rules: what each stops, and what it leaves alone.

use super::finding::Finding;
use super::paths::judge_path;

fn found(path: &str) -> Option<Finding> {
    judge_path(&path.split("::").map(str::to_owned).collect::<Vec<_>>())
}

#[test]
fn paths_are_judged() {
    let cases = [
        ("std::time::SystemTime::now", "AE0101"),
        ("Utc::now", "AE0101"),
        ("jiff::Zoned::now", "AE0101"),
        ("tokio::time::Instant::now", "AE0101"),
        ("time::OffsetDateTime::now_utc", "AE0101"),
        ("rand::random", "AE0102"),
        ("rand::rng", "AE0102"),
        ("rand::rngs::OsRng", "AE0102"),
        ("thread_rng", "AE0102"),
        ("fastrand::u32", "AE0102"),
        ("StdRng::from_os_rng", "AE0102"),
        ("getrandom::fill", "AE0102"),
        ("uuid::Uuid::new_v4", "AE0103"),
        ("Ulid::new", "AE0103"),
        ("std::env::var", "AE0104"),
        ("env::args", "AE0104"),
        ("std::thread::available_parallelism", "AE0104"),
        ("std::fs::read_to_string", "AE0105"),
        ("fs::write", "AE0105"),
        ("tokio::fs::read", "AE0105"),
        ("File::open", "AE0105"),
        ("rusqlite::Connection::open", "AE0105"),
        ("reqwest::get", "AE0106"),
        ("reqwest::Client::new", "AE0106"),
        ("reqwest::blocking::Client::new", "AE0106"),
        ("TcpStream::connect", "AE0106"),
        ("sqlx::query", "AE0106"),
        ("std::process::Command::new", "AE0107"),
        ("tokio::process::Command::new", "AE0107"),
        ("process::Command::new", "AE0107"),
        ("Command::new", "AE0107"),
        ("process::id", "AE0107"),
        ("process::exit", "AE0107"),
        ("libc::getpid", "AE0107"),
        ("std::thread::sleep", "AE0108"),
        ("thread::spawn", "AE0108"),
        ("rayon::join", "AE0108"),
        ("tokio::spawn", "AE0109"),
        ("tokio::task::spawn_blocking", "AE0109"),
        ("JoinSet::new", "AE0109"),
        ("tokio::time::sleep", "AE0110"),
        ("tokio::time::timeout", "AE0110"),
        ("time::timeout", "AE0110"),
        ("smol::Timer::after", "AE0110"),
        ("redis::Client::open", "AE0106"),
        ("redis::cmd", "AE0106"),
        ("dirs::home_dir", "AE0104"),
        ("std::fs::File::create", "AE0105"),
        ("tokio::sync::Notify::new", "AE0118"),
        ("std::sync::Barrier::new", "AE0118"),
        ("Notify::new", "AE0118"),
        ("HashMap::new", "AE0111"),
        ("std::hash::RandomState::new", "AE0111"),
        ("DefaultHasher::new", "AE0111"),
        ("std::io::stdout", "AE0112"),
        ("futures::future::join_all", "AE0114"),
        ("FuturesUnordered::new", "AE0114"),
        ("AtomicU32::fetch_add", "AE0115"),
        ("LazyLock::force", "AE0115"),
        ("Backtrace::capture", "AE0117"),
        ("std::sync::mpsc::channel", "AE0118"),
        ("futures::executor::block_on", "AE0118"),
        ("Condvar::new", "AE0118"),
    ];
    for (path, id) in cases {
        assert!(
            matches!(found(path), Some(Finding::Wrong(code)) if code.id == id),
            "{path}: {:?}",
            found(path)
        );
    }
    assert!(matches!(found("Mutex::new"), Some(Finding::Suspicious(_))));
}

#[test]
fn harmless_paths_pass() {
    let paths = [
        "Duration::from_secs",
        "tokio::time::Duration::from_secs",
        "std::time::Duration::from_millis",
        "SystemTime::UNIX_EPOCH",
        "Uuid::parse_str",
        "Uuid::new_v5",
        "reqwest::StatusCode::OK",
        "reqwest::header::CONTENT_TYPE",
        "now",
        "search",
        "random",
        "spawn",
        "sleep",
        "join",
        "select",
        "BTreeMap::new",
        "HashMap::with_hasher",
        "StdRng::seed_from_u64",
        "rand::rngs::StdRng::seed_from_u64",
        "fastrand::Rng::with_seed",
        "env",
        "std::env::consts::OS",
        "std::net::Ipv4Addr::LOCALHOST",
        "std::process::ExitCode::SUCCESS",
        "process::order",
        "thread::summarise",
        "network::Plan::new",
        "rules::Fs::new",
        "AtomicU32::new",
        "jiff::Timestamp::UNIX_EPOCH",
        "Timestamp::from_second",
        "redis::ErrorKind::IoError",
        "task::Task::new",
        "time::Date::MIN",
        "std::io::Error::other",
        "Command::Start",
        "Notify::Email",
        "Barrier::Toll",
        "Semaphore::Green",
        "Timer::after",
        "Delay::new",
        "Local::new",
        "TaskTracker::open",
        "time::format",
        "task::next",
        "redis::prices",
        "dirs::of",
        "glob::matches",
        "fs::normalize",
        "postgres::dsn",
        "hostname::parse",
    ];
    for path in paths {
        assert_eq!(found(path), None, "{path}");
    }
}
