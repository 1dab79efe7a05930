//! The table of paths that are recorded nowhere, each with its code.
//!
//! Promise: an entry names one thing that is always a mistake in a workflow, or in [`SUSPICIOUS`] one that mostly is. Of modules
//! and types whose names people give to things of their own (`redis`, `Timer`, `Notify`), an entry that goes without their crate
//! names only what is hardly ever anything else; an import in sight completes the path, and what is written shorter is left to
//! `cargo aether check`, which knows what is called.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::finding::Finding;
use super::methods::is_atomic;
use crate::diagnostics::code::{self, Code};

/// Paths by code. `a::b` fits any path that ends so, `a::*` what lies in module or type `a` under its full or its last
/// name, `a::b::**` only under its full name, `=a` only the bare name, `..a` any path whose last name is `a`.
/// `{a,b}` stands for either.
const PATHS: &[(Option<&Code>, &str)] = &[
    (
        None,
        "..seed_from_u64 ..from_seed ..with_seed ..with_hasher ..with_capacity_and_hasher std::env::consts::** env::consts::** \
         std::process::ExitCode::** ExitCode::{SUCCESS,FAILURE,from} rand::seq::** rand::distr::** \
         rand::distributions::** {reqwest,hyper,surf}::{StatusCode,Method,Url,Version,Error,header,mime}::** \
         sqlx::{Error,types}::** rusqlite::{Error,types}::** redis::ErrorKind::** time::Duration::** \
         rusqlite::{params,named_params,params_from_iter,ToSql} tokio::task::JoinError::**",
    ),
    (
        Some(code::CLOCK),
        "{SystemTime,Instant,Utc,Local,Timestamp,Zoned,OffsetDateTime,UtcDateTime,PrimitiveDateTime}::now \
         OffsetDateTime::{now_utc,now_local} {SystemTime,Instant}::elapsed {Instant,Clock}::recent \
         {Utc,Local}::today libc::{clock_gettime,gettimeofday,time}",
    ),
    (
        Some(code::UUID),
        "Uuid::{new_v4,now_v7,now_v6,now_v1,new_v7,new_v6,new_v1} Ulid::{new,generate,with_source,from_datetime} \
         ulid::Generator::** Ksuid::new ObjectId::new nanoid::* cuid::* cuid2::* xid::new scru128::*",
    ),
    (
        Some(code::RANDOM),
        "rand::* fastrand::* getrandom::* nanorand::* =thread_rng =OsRng OsRng::* ThreadRng::* SysRng::* \
         ..from_os_rng ..from_entropy ..try_from_os_rng ring::rand::** SystemRandom::* openssl::rand::** \
         libc::{getrandom,rand,random,arc4random} std::random::**",
    ),
    (
        Some(code::ENVIRONMENT),
        "std::env::** env::{var,vars,var_os,vars_os,args,args_os,current_dir,current_exe,temp_dir,home_dir,set_var} \
         env::{remove_var,set_current_dir} dotenvy::* dotenv::* envy::* num_cpus::* hostname::get \
         dirs::{home_dir,config_dir,config_local_dir,cache_dir,data_dir,data_local_dir,executable_dir,runtime_dir} \
         dirs::{state_dir,preference_dir,audio_dir,desktop_dir,document_dir,download_dir,font_dir,picture_dir} \
         gethostname::* whoami::* sysinfo::* thread::available_parallelism TimeZone::{system,try_system} \
         iana_time_zone::* libc::{getenv,getcwd,gethostname}",
    ),
    (
        Some(code::FILES),
        "std::fs::** fs::{read,read_to_string,read_dir,read_link,write,copy,rename,metadata,symlink_metadata,exists} \
         fs::{canonicalize,hard_link,create_dir,create_dir_all,remove_dir,remove_dir_all,remove_file,set_permissions} \
         tokio::fs::** async_std::fs::** smol::fs::** async_fs::* fs_err::* cap_std::* \
         File::{open,create,create_new,options,open_buffered,create_buffered} OpenOptions::* DirBuilder::* \
         {Path,PathBuf}::{exists,try_exists,is_file,is_dir,canonicalize,read_dir,metadata,read_link} \
         tempfile::* NamedTempFile::* TempDir::* rusqlite::* sled::* redb::* walkdir::* WalkDir::* glob::glob \
         memmap2::* {Reader,Writer}::from_path io::stdin =stdin async_std::io::** tokio::io::stdin",
    ),
    (
        Some(code::NETWORK),
        "{TcpStream,TcpListener,UdpSocket,UnixStream,UnixListener,UnixDatagram,TcpSocket}::* net::lookup_host \
         ToSocketAddrs::to_socket_addrs reqwest::* ureq::* isahc::* surf::* attohttpc::* minreq::* curl::* awc::* \
         hyper::client::** hyper_util::client::** tonic::transport::** tungstenite::* tokio_tungstenite::* \
         sqlx::* tokio_postgres::* postgres::{Client,Config}::** redis::{Client,aio,cluster,sentinel}::** \
         redis::{cmd,pipe,transaction} mongodb::{Client,Database,Collection}::** PgConnection::establish Database::connect \
         lapin::* rdkafka::* aws_config::* {SmtpTransport,AsyncSmtpTransport}::*",
    ),
    (
        Some(code::PROCESS),
        "std::process::** process::{exit,abort,id,Command} Command::new tokio::process::** async_process::* \
         duct::* xshell::* subprocess::* libc::* nix::*",
    ),
    (
        Some(code::SPAWN),
        "tokio::{spawn,task_local} tokio::task::** task::{spawn,spawn_blocking,spawn_local,block_in_place,yield_now} \
         {smol,async_std,tokio,runtime}::{spawn,spawn_blocking,spawn_local} async_std::task::** tokio::runtime::** \
         Runtime::new Handle::{current,try_current} JoinSet::* LocalSet::* tokio_util::task::** \
         =spawn_blocking =spawn_local =block_in_place async_global_executor::*",
    ),
    (
        Some(code::THREAD),
        "std::thread::** thread::{spawn,sleep,sleep_ms,sleep_until,park,park_timeout,yield_now,current,scope} \
         thread::Builder::new rayon::* crossbeam::scope crossbeam::thread::** threadpool::* ThreadPool::* \
         ThreadPoolBuilder::*",
    ),
    (
        Some(code::TIMER),
        "time::{sleep,sleep_until,timeout,timeout_at,interval,interval_at,pause,advance} futures_timer::* \
         {async_io,smol}::Timer::{after,interval,at,interval_at,never} gloo_timers::* async_std::task::sleep \
         async_std::future::timeout",
    ),
    (
        Some(code::HASH_ORDER),
        "{HashMap,HashSet,RandomState,DefaultHasher,DashMap,DashSet}::* ahash::RandomState::**",
    ),
    (Some(code::OUTPUT), "io::{stdout,stderr} =stdout =stderr"),
    (
        Some(code::FOREIGN_CONCURRENCY),
        "future::{join,join3,join4,join5,join_all,select,select_all,select_ok,try_join,try_join3,try_join_all} \
         future::{try_select,poll_fn,poll_immediate,maybe_done} =join_all =try_join_all =select_all =select_ok \
         =poll_fn {FuturesUnordered,FuturesOrdered,SelectAll,StreamMap}::* futures_concurrency::* \
         stream::{select,select_all,select_with_strategy} Waker::noop task::{noop_waker,noop_waker_ref} \
         Context::from_waker",
    ),
    (Some(code::STATIC), "{LazyLock,Lazy,LazyCell}::force ArcSwap::load"),
    (Some(code::THREAD_LOCAL), "LocalKey::{with,with_borrow,with_borrow_mut}"),
    (
        Some(code::ADDRESS),
        "Backtrace::{capture,force_capture} ptr::{hash,addr_of,from_ref,from_mut} {Box,Rc,Arc}::{into_raw,as_ptr} \
         NonNull::{from,from_ref,from_mut}",
    ),
    (
        Some(code::BLOCKING),
        "Condvar::* {Barrier,Semaphore,Notify}::new std::sync::mpsc::** {mpsc,oneshot,broadcast,watch}::channel \
         mpsc::{sync_channel,unbounded_channel,unbounded} tokio::sync::** futures::channel::** \
         crossbeam_channel::* crossbeam::channel::** flume::* async_channel::* kanal::* executor::block_on \
         {tokio,smol,futures,pollster,async_std,task}::block_on =block_on hint::spin_loop futures::executor::**",
    ),
];

/// Paths that mostly are a mistake.
const SUSPICIOUS: &[(&Code, &str)] =
    &[(code::BLOCKING, "{Mutex,RwLock,ReentrantLock,FairMutex}::new parking_lot::*")];

/// Crates that send HTTP requests of their own.
const HTTP_CLIENTS: &[&str] =
    &["reqwest", "ureq", "isahc", "surf", "attohttpc", "minreq", "curl", "awc", "hyper", "hyper_util"];

/// Crates of which functions are judged and types are not.
const FUNCTIONS_ONLY: &[&str] =
    &["rand", "libc", "nix", "redis", "sqlx", "rusqlite", "fastrand", "getrandom", "redb"];

enum Fit {
    /// The last names of the path.
    DurableWatermark,
    /// What lies in a module, under its full name or its last.
    Under,
    /// What lies in a module, under its full name.
    Inside,
    /// The whole path.
    Whole,
}

struct PathRule {
    finding: Option<Finding>,
    names: Vec<String>,
    fit: Fit,
}

/// The rules by the name that a path must have somewhere.
static INDEX: LazyLock<HashMap<String, Vec<PathRule>>> = LazyLock::new(|| {
    let mut index: HashMap<String, Vec<PathRule>> = HashMap::new();
    let wrong = PATHS.iter().map(|(code, patterns)| (code.map(Finding::Wrong), *patterns));
    let suspicious = SUSPICIOUS.iter().map(|(code, patterns)| (Some(Finding::Suspicious(code)), *patterns));
    for (finding, patterns) in wrong.chain(suspicious) {
        for pattern in patterns.split_whitespace().flat_map(alternatives) {
            let rule = rule(&pattern, finding);
            if let Some(last) = rule.names.last() {
                index.entry(last.clone()).or_default().push(rule);
            }
        }
    }
    index
});

/// Replaces each `{a,b}`.
fn alternatives(pattern: &str) -> Vec<String> {
    let Some((before, rest)) = pattern.split_once('{') else { return vec![pattern.to_owned()] };
    let Some((choices, after)) = rest.split_once('}') else { return vec![pattern.to_owned()] };
    let each = |choice: &str| alternatives(&format!("{before}{choice}{after}"));
    choices.split(',').flat_map(each).collect()
}

fn rule(pattern: &str, finding: Option<Finding>) -> PathRule {
    let (names, fit) = if let Some(module) = pattern.strip_suffix("::**") {
        (module, Fit::Inside)
    } else if let Some(module) = pattern.strip_suffix("::*") {
        (module, Fit::Under)
    } else if let Some(name) = pattern.strip_prefix('=') {
        (name, Fit::Whole)
    } else {
        (pattern.strip_prefix("..").unwrap_or(pattern), Fit::DurableWatermark)
    };
    PathRule { finding, names: names.split("::").map(str::to_owned).collect(), fit }
}

impl PathRule {
    /// Of several rules that fit, the most precise one is told.
    fn precision(&self) -> usize {
        2 * self.names.len() + usize::from(matches!(self.fit, Fit::DurableWatermark | Fit::Whole))
    }

    /// `at` is where the path has the rule's last name.
    fn fits(&self, path: &[String], at: usize) -> bool {
        let names = &self.names;
        match self.fit {
            Fit::DurableWatermark => at + 1 == path.len() && path.ends_with(names),
            Fit::Whole => path == names.as_slice(),
            Fit::Inside => at + 1 < path.len() && path.starts_with(names),
            Fit::Under if names.len() == 1 && is_type(&names[0]) => at + 2 == path.len(),
            Fit::Under => at + 1 < path.len() && (path.starts_with(names) || at == 0),
        }
    }
}

fn is_type(name: &str) -> bool {
    name.starts_with(char::is_uppercase)
}

/// What naming a value by this path is.
pub(crate) fn judge_path(path: &[String]) -> Option<Finding> {
    let first = path.first()?.as_str();
    let last = path.last()?;
    let mut found: Option<(usize, Finding)> = None;
    for (at, name) in path.iter().enumerate() {
        for rule in INDEX.get(name).into_iter().flatten().filter(|rule| rule.fits(path, at)) {
            let finding = rule.finding?;
            if found.is_none_or(|(precision, _)| precision < rule.precision()) {
                found = Some((rule.precision(), finding));
            }
        }
    }
    let found = found.map(|(_, finding)| finding);
    let owner = path.len().checked_sub(2).map_or("", |at| path[at].as_str());
    if found.is_none() && owner.starts_with("Atomic") && is_atomic(last) {
        return Some(Finding::Wrong(code::STATIC));
    }
    let constant = is_type(last) && path.len() > 1;
    let generator = last.ends_with("Rng");
    found.filter(|_| !(constant && FUNCTIONS_ONLY.contains(&first)) || generator)
}

/// Whether the path is one of a raw HTTP client.
pub(crate) fn is_http_client(path: &[String]) -> bool {
    path.first().is_some_and(|first| HTTP_CLIENTS.contains(&first.as_str()))
}

/// Whether a path is a time of the system's clock that is not read from it.
pub(crate) fn is_time(path: &[String]) -> bool {
    let owner = path.len().checked_sub(2).map_or("", |at| path[at].as_str());
    let last = path.last().map_or("", String::as_str);
    last == "UNIX_EPOCH" || (matches!(owner, "SystemTime" | "Instant") && last != "now")
}
