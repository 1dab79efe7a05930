//! What the check must find with the toolchain of a project: doors of the standard library and of libc, each named by a
//! function of its own, in a module that says of which kind it is. It is compiled with that toolchain, and never run.

#![allow(warnings)]

use std::collections::{HashMap, HashSet};
use std::hint::black_box;
use std::io::Read as _;
use std::net::ToSocketAddrs as _;
use std::path::Path;
use std::sync::{Barrier, Condvar, LazyLock, Mutex, OnceLock, RwLock, mpsc};
use std::time::{Duration, Instant, SystemTime};

unsafe extern "C" {
    fn arc4random() -> u32;
    fn clock_gettime(clock: i32, into: *mut u8) -> i32;
    fn connect(socket: i32, address: *const u8, length: u32) -> i32;
    fn fork() -> i32;
    fn getaddrinfo(node: *const u8, service: *const u8, hints: *const u8, into: *mut u8) -> i32;
    fn getentropy(into: *mut u8, length: usize) -> i32;
    fn getenv(name: *const u8) -> *const u8;
    fn gethostname(into: *mut u8, length: usize) -> i32;
    fn getpid() -> i32;
    fn getrandom(into: *mut u8, length: usize, flags: u32) -> isize;
    fn gettimeofday(into: *mut u8, zone: *mut u8) -> i32;
    fn localtime_r(time: *const i64, into: *mut u8) -> *mut u8;
    fn nanosleep(time: *const u8, left: *mut u8) -> i32;
    fn open64(path: *const u8, flags: i32) -> i32;
    fn openat(folder: i32, path: *const u8, flags: i32) -> i32;
    fn posix_spawn(id: *mut i32, path: *const u8) -> i32;
    fn pthread_create(thread: *mut u64, attributes: *const u8, start: *const u8, argument: *mut u8) -> i32;
    fn readdir64(folder: *mut u8) -> *mut u8;
    fn sched_getaffinity(process: i32, size: usize, mask: *mut u64) -> i32;
    fn socket(domain: i32, kind: i32, protocol: i32) -> i32;
    fn sysconf(name: i32) -> i64;
    fn uname(into: *mut u8) -> i32;
    fn unknown_to_everybody() -> i32;
}

macro_rules! doors {
    ($kind:ident: $($name:ident = $body:expr;)+) => {
        pub mod $kind {
            use super::*;
            $(
                pub fn $name() {
                    // SAFETY: nothing here is ever run.
                    unsafe { black_box($body) };
                }
            )+
        }
    };
}

const NONE: *const u8 = std::ptr::null();

fn nothing() -> *mut u8 {
    std::ptr::null_mut()
}

fn map() -> HashMap<String, u64> {
    HashMap::new()
}

fn set() -> HashSet<u64> {
    HashSet::new()
}

fn text() -> String {
    String::new()
}

doors! { in_clock:
    a_instant = Instant::now();
    b_instant_elapsed = (|since| since.elapsed()) as fn(&Instant) -> Duration;
    c_system = SystemTime::now();
    d_system_elapsed = (|since| since.elapsed().unwrap_or_default()) as fn(&SystemTime) -> Duration;
    k_clock_gettime = clock_gettime(0, nothing());
    l_gettimeofday = gettimeofday(nothing(), nothing());
    m_localtime = localtime_r(std::ptr::null(), nothing());
}

doors! { in_random:
    a_random_state = std::hash::RandomState::new();
    h_getrandom = getrandom(nothing(), 0, 0);
    i_getentropy = getentropy(nothing(), 0);
    j_arc4random = arc4random();
}

doors! { in_env:
    a_var = std::env::var("A");
    b_var_os = std::env::var_os("A");
    c_vars = std::env::vars();
    d_args = std::env::args();
    e_current_dir = std::env::current_dir();
    f_current_exe = std::env::current_exe();
    g_temp_dir = std::env::temp_dir();
    h_home_dir = std::env::home_dir();
    i_parallelism = std::thread::available_parallelism();
    k_absolute = std::path::absolute("a");
    l_getenv = getenv(NONE);
    m_sysconf = sysconf(0);
    n_uname = uname(nothing());
    o_gethostname = gethostname(nothing(), 0);
    p_affinity = sched_getaffinity(0, 0, std::ptr::null_mut());
    q_vars_os = std::env::vars_os();
    r_args_os = std::env::args_os();
}

doors! { in_fs:
    a_read = std::fs::read("a");
    b_read_to_string = std::fs::read_to_string("a");
    c_write = std::fs::write("a", "b");
    d_metadata = std::fs::metadata("a");
    e_read_dir = std::fs::read_dir("a");
    f_open = std::fs::File::open("a");
    g_create = std::fs::File::create("a");
    h_options = std::fs::OpenOptions::new().open("a");
    i_create_dir = std::fs::create_dir_all("a");
    j_remove = std::fs::remove_file("a");
    k_copy = std::fs::copy("a", "b");
    l_exists = Path::new("a").exists();
    m_is_file = Path::new("a").is_file();
    n_is_dir = Path::new("a").is_dir();
    o_is_symlink = Path::new("a").is_symlink();
    p_path_metadata = Path::new("a").metadata();
    q_canonicalize = Path::new("a").canonicalize();
    r_path_read_dir = Path::new("a").read_dir();
    s_read_link = Path::new("a").read_link();
    t_try_exists = Path::new("a").try_exists();
    u_stdin = std::io::stdin().read_line(&mut text());
    v_stdin_lines = std::io::stdin().lines().next();
    x_open64 = open64(NONE, 0);
    y_openat = openat(0, NONE, 0);
    z_readdir64 = readdir64(nothing());
    z_file_read = (|file| file.read_to_string(&mut text()).is_ok()) as fn(&mut std::fs::File) -> bool;
    z_symlink_metadata = Path::new("a").symlink_metadata();
}

doors! { in_net:
    a_connect = std::net::TcpStream::connect("a:1");
    b_listen = std::net::TcpListener::bind("a:1");
    c_udp = std::net::UdpSocket::bind("a:1");
    d_unix = std::os::unix::net::UnixStream::connect("a");
    e_unix_listen = std::os::unix::net::UnixListener::bind("a");
    f_text = "a:1".to_socket_addrs();
    g_string = text().to_socket_addrs();
    h_text_and_port = ("a", 1_u16).to_socket_addrs();
    i_string_and_port = (text(), 1_u16).to_socket_addrs();
    j_socket = socket(0, 0, 0);
    k_connect = connect(0, NONE, 0);
    l_getaddrinfo = getaddrinfo(NONE, NONE, NONE, nothing());
}

doors! { in_process:
    a_output = std::process::Command::new("a").output();
    b_status = std::process::Command::new("a").status();
    c_spawn = std::process::Command::new("a").spawn();
    d_id = std::process::id();
    e_wait = (|child| child.wait().is_ok()) as fn(&mut std::process::Child) -> bool;
    f_parent = std::os::unix::process::parent_id();
    g_getpid = getpid();
    h_fork = fork();
    i_posix_spawn = posix_spawn(std::ptr::null_mut(), NONE);
    j_exit = if text().is_empty() { std::process::exit(1) };
}

doors! { in_thread:
    a_spawn = std::thread::spawn(|| 1);
    b_sleep = std::thread::sleep(Duration::ZERO);
    c_park = std::thread::park();
    d_yield = std::thread::yield_now();
    e_builder = std::thread::Builder::new().spawn(|| 1);
    f_scope = std::thread::scope(|scope| { scope.spawn(|| 1); });
    g_current = std::thread::current().id();
    h_pthread = pthread_create(std::ptr::null_mut(), NONE, NONE, nothing());
    i_nanosleep = nanosleep(NONE, nothing());
    j_park_timeout = std::thread::park_timeout(Duration::ZERO);
    k_join = (|thread| thread.join().is_ok()) as fn(std::thread::JoinHandle<u64>) -> bool;
}

doors! { in_blocking:
    a_recv = mpsc::channel::<u64>().1.recv();
    b_recv_timeout = mpsc::channel::<u64>().1.recv_timeout(Duration::ZERO);
    c_barrier = Barrier::new(1).wait();
    d_condvar = (|condvar, mutex| mutex.lock().is_ok_and(|guard| condvar.wait(guard).is_ok()))
        as fn(&Condvar, &Mutex<u64>) -> bool;
    e_condvar_timeout =
        (|condvar, mutex| mutex.lock().is_ok_and(|guard| condvar.wait_timeout(guard, Duration::ZERO).is_ok()))
            as fn(&Condvar, &Mutex<u64>) -> bool;
}

doors! { in_hash:
    a_iter = map().iter().next();
    b_keys = map().keys().next();
    c_values = map().values().next();
    d_into_keys = map().into_keys().next();
    e_into_values = map().into_values().next();
    f_drain = map().drain().next();
    g_into_iter = map().into_iter().next();
    h_ref_into_iter = (&map()).into_iter().next();
    i_debug = format!("{:?}", map());
    j_set_iter = set().iter().next();
    k_set_drain = set().drain().next();
    l_difference = set().difference(&set()).next();
    m_symmetric = set().symmetric_difference(&set()).next();
    n_intersection = set().intersection(&set()).next();
    o_union = set().union(&set()).next();
    p_set_into_iter = set().into_iter().next();
    q_set_debug = format!("{:?}", set());
    u_extract_if = map().extract_if(|_, _| true).next();
}

doors! { in_address:
    a_pointer = format!("{:p}", NONE);
    b_number = NONE as usize;
    c_addr = NONE.addr();
    d_expose = NONE.expose_provenance();
    e_hash = (|value, hasher| std::ptr::hash(value, hasher)) as fn(&u64, &mut std::hash::DefaultHasher);
    f_debug = format!("{:?}", NONE);
    g_order = [NONE, NONE].iter().max();
    h_compared = NONE < nothing().cast_const();
    i_function = format!("{:?}", text as fn() -> String);
    j_align = NONE.align_offset(8);
    k_align_to = [1_u8].align_to::<u64>().0.len();
    l_keyed = HashMap::<_, _, std::hash::BuildHasherDefault<std::hash::DefaultHasher>>::default().insert(NONE, 1);
    m_sorted = [NONE, NONE].sort();
}

doors! { in_print:
    a_print = println!("a");
    b_eprint = eprintln!("a");
    c_stdout = std::io::stdout();
    d_stderr = std::io::stderr();
    e_dbg = dbg!(1);
}

thread_local! {
    static CALLS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
    static NAMES: std::cell::RefCell<Vec<String>> = std::cell::RefCell::default();
}

doors! { in_thread_local:
    a_get = CALLS.get();
    b_set = CALLS.set(1);
    c_with = NAMES.with(|names| names.borrow().len());
    d_with_borrow = NAMES.with_borrow_mut(|names| names.pop());
    e_last_error = std::io::Error::last_os_error();
}

doors! { in_backtrace:
    a_capture = std::backtrace::Backtrace::capture();
    b_force = std::backtrace::Backtrace::force_capture();
}

doors! { in_foreign:
    a_unknown = unknown_to_everybody();
    b_assembly = std::arch::asm!("nop");
}

static COUNT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
static LIST: Mutex<Vec<u64>> = Mutex::new(Vec::new());
static TABLE: RwLock<Vec<u64>> = RwLock::new(Vec::new());
static ONCE: OnceLock<u64> = OnceLock::new();
static mut PLAIN: u64 = 0;
static LAZY_COUNT: LazyLock<std::sync::atomic::AtomicU64> = LazyLock::new(Default::default);
static LAZY_NUMBER: LazyLock<Mutex<u64>> = LazyLock::new(Mutex::default);

doors! { in_static:
    a_atomic = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    b_mutex = LIST.lock().map(|mut list| list.pop());
    c_lock = TABLE.read().map(|table| table.len());
    d_once = ONCE.get();
    e_plain = PLAIN;
    f_behind_a_cell = LAZY_COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    g_number_behind_a_cell = LAZY_NUMBER.lock().map(|mut number| *number += 1);
}
