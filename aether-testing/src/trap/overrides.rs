//! The libc functions through which a program meets the world, overridden: each tells the trap that it was called,
//! and then calls the real one.
//!
//! Promise: outside of workflow code every function does exactly what libc's own does. A program that links this
//! crate gets these definitions before libc's, because the linker takes the first one it finds.
//!
//! This is the one module with `unsafe` in it.
#![allow(unsafe_code, reason = "a libc symbol can be overridden only by an unmangled function with C's ABI")]

use std::ffi::CStr;
use std::mem::transmute;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

use libc::{
    DIR, FILE, addrinfo, c_char, c_int, c_uint, c_void, clockid_t, cpu_set_t, mode_t, pid_t,
    posix_spawn_file_actions_t, posix_spawnattr_t, pthread_attr_t, pthread_t, size_t, sockaddr, socklen_t,
    ssize_t, time_t, timespec, timeval, utsname,
};

use super::hit::TrapKind;
use super::watch::{called, skew};

type Entry = extern "C" fn(*mut c_void) -> *mut c_void;

/// A function of libc that an override hides, found at its first call.
struct Hidden {
    name: &'static CStr,
    found: AtomicPtr<c_void>,
}

impl Hidden {
    const fn new(name: &'static CStr) -> Self {
        Self { name, found: AtomicPtr::new(null_mut()) }
    }

    /// Its address; `None`, with `errno` saying so, where this libc has no such function.
    fn get(&self) -> Option<*mut c_void> {
        let mut found = self.found.load(Ordering::Relaxed);
        if found.is_null() {
            // SAFETY: the name is a C string; `RTLD_NEXT` asks for the definition after this program's own.
            found = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
            self.found.store(found, Ordering::Relaxed);
        }
        if found.is_null() {
            // SAFETY: `__errno_location` gives this thread's own `errno`.
            unsafe { *libc::__errno_location() = libc::ENOSYS };
            return None;
        }
        Some(found)
    }
}

/// Calls the libc function that this override hides, or gives `$missing` where there is none.
macro_rules! real {
    ($name:ident($($arg:ident: $type:ty),*) -> $result:ty, $missing:expr) => {{
        static HIDDEN: Hidden = Hidden::new(
            match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                Ok(name) => name,
                Err(_) => c"",
            }
        );
        match HIDDEN.get() {
            // SAFETY: the address is that of libc's function of this name, which has this type; the caller keeps its
            // contract, and the arguments are passed on as they are.
            Some(real) => unsafe {
                transmute::<*mut c_void, unsafe extern "C" fn($($type),*) -> $result>(real)($($arg),*)
            },
            None => $missing,
        }
    }};
}

/// Defines the overrides that only tell the trap.
macro_rules! overrides {
    ($($kind:ident { $(fn $name:ident($($arg:ident: $type:ty),* $(,)?) -> $result:ty = $missing:expr;)+ })+) => {$($(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name($($arg: $type),*) -> $result {
            called(TrapKind::$kind, stringify!($name));
            real!($name($($arg: $type),*) -> $result, $missing)
        }
    )+)+};
}

overrides! {
    Entropy {
        fn getrandom(buffer: *mut c_void, length: size_t, flags: c_uint) -> ssize_t = -1;
        fn getentropy(buffer: *mut c_void, length: size_t) -> c_int = -1;
    }
    Files {
        // Variadic in C. On the platforms of this module a fixed argument is passed as a variable one is.
        fn open(path: *const c_char, flags: c_int, mode: mode_t) -> c_int = -1;
        fn open64(path: *const c_char, flags: c_int, mode: mode_t) -> c_int = -1;
        fn openat(dir: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int = -1;
        fn openat64(dir: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int = -1;
        fn fopen(path: *const c_char, mode: *const c_char) -> *mut FILE = null_mut();
        fn fopen64(path: *const c_char, mode: *const c_char) -> *mut FILE = null_mut();
        fn opendir(path: *const c_char) -> *mut DIR = null_mut();
        fn stat(path: *const c_char, buffer: *mut libc::stat) -> c_int = -1;
        fn stat64(path: *const c_char, buffer: *mut libc::stat64) -> c_int = -1;
        fn lstat(path: *const c_char, buffer: *mut libc::stat) -> c_int = -1;
        fn lstat64(path: *const c_char, buffer: *mut libc::stat64) -> c_int = -1;
        fn statx(dir: c_int, path: *const c_char, flags: c_int, mask: c_uint, buffer: *mut libc::statx) -> c_int = -1;
        fn read(file: c_int, buffer: *mut c_void, length: size_t) -> ssize_t = -1;
        fn pread64(file: c_int, buffer: *mut c_void, length: size_t, at: libc::off64_t) -> ssize_t = -1;
        fn access(path: *const c_char, mode: c_int) -> c_int = -1;
        fn readlink(path: *const c_char, buffer: *mut c_char, length: size_t) -> ssize_t = -1;
        fn realpath(path: *const c_char, resolved: *mut c_char) -> *mut c_char = null_mut();
        fn mkdir(path: *const c_char, mode: mode_t) -> c_int = -1;
        fn rmdir(path: *const c_char) -> c_int = -1;
        fn unlink(path: *const c_char) -> c_int = -1;
        fn rename(from: *const c_char, to: *const c_char) -> c_int = -1;
        fn getcwd(buffer: *mut c_char, length: size_t) -> *mut c_char = null_mut();
    }
    Network {
        fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int = -1;
        fn connect(socket: c_int, address: *const sockaddr, length: socklen_t) -> c_int = -1;
        fn bind(socket: c_int, address: *const sockaddr, length: socklen_t) -> c_int = -1;
        fn recv(socket: c_int, buffer: *mut c_void, length: size_t, flags: c_int) -> ssize_t = -1;
        fn send(socket: c_int, buffer: *const c_void, length: size_t, flags: c_int) -> ssize_t = -1;
        fn getaddrinfo(
            node: *const c_char, service: *const c_char, hints: *const addrinfo, found: *mut *mut addrinfo,
        ) -> c_int = libc::EAI_SYSTEM;
        fn gethostname(buffer: *mut c_char, length: size_t) -> c_int = -1;
    }
    Process {
        fn fork() -> pid_t = -1;
        fn posix_spawn(
            pid: *mut pid_t, path: *const c_char, actions: *const posix_spawn_file_actions_t,
            attributes: *const posix_spawnattr_t, arguments: *const *mut c_char, environment: *const *mut c_char,
        ) -> c_int = libc::ENOSYS;
        fn posix_spawnp(
            pid: *mut pid_t, path: *const c_char, actions: *const posix_spawn_file_actions_t,
            attributes: *const posix_spawnattr_t, arguments: *const *mut c_char, environment: *const *mut c_char,
        ) -> c_int = libc::ENOSYS;
        fn getppid() -> pid_t = -1;
        fn sched_getaffinity(pid: pid_t, size: size_t, set: *mut cpu_set_t) -> c_int = -1;
        fn sched_getcpu() -> c_int = -1;
        fn uname(buffer: *mut utsname) -> c_int = -1;
    }
    Threads {
        fn pthread_create(
            thread: *mut pthread_t, attributes: *const pthread_attr_t, entry: Entry, value: *mut c_void,
        ) -> c_int = libc::ENOSYS;
    }
    Waiting {
        fn nanosleep(wait: *const timespec, left: *mut timespec) -> c_int = -1;
        fn clock_nanosleep(
            clock: clockid_t, flags: c_int, wait: *const timespec, left: *mut timespec,
        ) -> c_int = libc::ENOSYS;
        fn usleep(microseconds: c_uint) -> c_int = -1;
        fn sleep(seconds: c_uint) -> c_uint = seconds;
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn clock_gettime(clock: clockid_t, time: *mut timespec) -> c_int {
    called(TrapKind::Clock, "clock_gettime");
    let answer = real!(clock_gettime(clock: clockid_t, time: *mut timespec) -> c_int, -1);
    if answer == 0
        && let Some(skew) = skew()
    {
        // SAFETY: the real function has just written to `time`.
        let time = unsafe { &mut *time };
        let nanoseconds = i64::from(skew.ahead.subsec_nanos()) + time.tv_nsec;
        time.tv_sec += skew.ahead.as_secs() as time_t + nanoseconds / 1_000_000_000;
        time.tv_nsec = nanoseconds % 1_000_000_000;
    }
    answer
}

#[unsafe(no_mangle)]
unsafe extern "C" fn gettimeofday(time: *mut timeval, zone: *mut c_void) -> c_int {
    called(TrapKind::Clock, "gettimeofday");
    let answer = real!(gettimeofday(time: *mut timeval, zone: *mut c_void) -> c_int, -1);
    if answer == 0
        && !time.is_null()
        && let Some(skew) = skew()
    {
        // SAFETY: the real function has just written to `time`.
        unsafe { (*time).tv_sec += skew.ahead.as_secs() as time_t };
    }
    answer
}

#[unsafe(no_mangle)]
unsafe extern "C" fn time(seconds: *mut time_t) -> time_t {
    called(TrapKind::Clock, "time");
    let mut now = real!(time(seconds: *mut time_t) -> time_t, -1);
    if let Some(skew) = skew() {
        now += skew.ahead.as_secs() as time_t;
        if !seconds.is_null() {
            // SAFETY: the real function has just written to `seconds`.
            unsafe { *seconds = now };
        }
    }
    now
}

#[unsafe(no_mangle)]
unsafe extern "C" fn getenv(name: *const c_char) -> *mut c_char {
    called(TrapKind::Environment, "getenv");
    if skew().is_some() {
        return null_mut();
    }
    real!(getenv(name: *const c_char) -> *mut c_char, null_mut())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn secure_getenv(name: *const c_char) -> *mut c_char {
    called(TrapKind::Environment, "secure_getenv");
    if skew().is_some() {
        return null_mut();
    }
    real!(secure_getenv(name: *const c_char) -> *mut c_char, null_mut())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn getpid() -> pid_t {
    called(TrapKind::Process, "getpid");
    let pid = real!(getpid() -> pid_t, -1);
    if skew().is_some() { pid.wrapping_add(1) } else { pid }
}
