//! The tables of methods and macros that are recorded nowhere, each with its code.

use super::finding::Finding;
use crate::diagnostics::code::{self, Code};

/// What a call of a method is, whatever it is called on.
pub(crate) fn judge_method(name: &str, arguments: usize) -> Option<Finding> {
    use Finding::{Suspicious, Wrong};
    let finding = match name {
        "par_iter" | "par_iter_mut" | "into_par_iter" | "par_bridge" | "par_chunks" | "par_sort"
        | "par_sort_unstable" => Wrong(code::THREAD),
        "buffer_unordered"
        | "try_buffer_unordered"
        | "for_each_concurrent"
        | "try_for_each_concurrent"
        | "now_or_never"
        | "poll_unpin"
        | "poll_next_unpin" => Wrong(code::FOREIGN_CONCURRENCY),
        "blocking_recv" | "blocking_send" | "blocking_lock" => Wrong(code::BLOCKING),
        "block_on" | "recv_timeout" if arguments == 1 => Wrong(code::BLOCKING),
        "wait_timeout" | "wait_while" if arguments == 2 => Wrong(code::BLOCKING),
        "to_socket_addrs" if arguments == 0 => Wrong(code::NETWORK),
        "expose_provenance" => Wrong(code::ADDRESS),
        "duration_since_now" => Wrong(code::CLOCK),
        "elapsed" if arguments == 0 => Suspicious(code::CLOCK),
        "exists" | "try_exists" | "is_file" | "is_dir" | "is_symlink" | "canonicalize" | "read_dir"
        | "read_link" | "symlink_metadata"
            if arguments == 0 =>
        {
            Suspicious(code::FILES)
        }
        "try_recv" if arguments == 0 => Suspicious(code::BLOCKING),
        _ => return None,
    };
    Some(finding)
}

/// Methods of a path in the file system that look at the file system.
pub(crate) fn looks_at_files(name: &str) -> bool {
    matches!(judge_method(name, 0), Some(Finding::Suspicious(code)) if code.id == code::FILES.id)
        || name == "metadata"
}

/// What a call of a method on a name in capitals is: on a static, that is, or on a constant.
pub(crate) fn judge_method_of_static(name: &str, arguments: usize) -> Option<Finding> {
    use Finding::{Suspicious, Wrong};
    let finding = match name {
        "with" | "with_borrow" | "with_borrow_mut" if arguments == 1 => Wrong(code::THREAD_LOCAL),
        "lock" | "try_lock" | "read" | "write" | "try_read" | "try_write" | "borrow" | "borrow_mut"
        | "load_full" | "get_mut"
            if arguments == 0 =>
        {
            Wrong(code::STATIC)
        }
        "get_or_init" | "get_or_try_init" | "get_mut_or_init" | "call_once" | "rcu" => Wrong(code::STATIC),
        _ if is_atomic(name) && arguments > 0 => Wrong(code::STATIC),
        "get" | "take" | "load" if arguments == 0 => Suspicious(code::STATIC),
        "set" | "replace" if arguments == 1 => Suspicious(code::STATIC),
        _ => return None,
    };
    Some(finding)
}

/// What a call of a method is that only types have which can change behind a shared reference, on a name that is no local.
pub(crate) fn judge_method_of_shared(name: &str, arguments: usize, ordered: bool) -> Option<Finding> {
    use Finding::Wrong;
    let finding = match name {
        "with_borrow" | "with_borrow_mut" if arguments == 1 => Wrong(code::THREAD_LOCAL),
        "lock" | "try_lock" | "try_read" | "try_write" | "read" | "write" | "borrow" | "borrow_mut"
            if arguments == 0 =>
        {
            Wrong(code::STATIC)
        }
        "get_or_init" | "get_or_try_init" | "call_once" => Wrong(code::STATIC),
        _ if is_atomic(name) && (ordered || name.starts_with("fetch_")) && arguments > 0 => {
            Wrong(code::STATIC)
        }
        _ => return None,
    };
    Some(finding)
}

/// Whether a method is one of atomics.
pub(crate) fn is_atomic(method: &str) -> bool {
    changes_atomic(method) || matches!(method, "load" | "store" | "swap")
}

/// Whether a method changes what several owners share.
pub(crate) fn shares_changes(name: &str, arguments: usize) -> bool {
    match name {
        "lock" | "try_lock" | "borrow_mut" | "write" | "try_write" => arguments == 0,
        "store" | "swap" => arguments == 2,
        _ => changes_atomic(name),
    }
}

/// Whether only atomics have a method of this name. Others fetch what they like: `catalog.fetch_plan("fast")`.
fn changes_atomic(method: &str) -> bool {
    const OPERATIONS: [&str; 9] = ["add", "sub", "and", "or", "xor", "nand", "min", "max", "update"];
    let fetches = |operation: &str| {
        OPERATIONS.contains(&operation) || operation.starts_with("ptr_") || operation.starts_with("byte_")
    };
    method.strip_prefix("fetch_").is_some_and(fetches) || method.starts_with("compare_exchange")
}

/// Whether a method of collections, strings and options takes its receiver mutably.
pub(crate) fn changes_receiver(name: &str) -> bool {
    matches!(
        name,
        "push"
            | "push_str"
            | "push_back"
            | "push_front"
            | "insert"
            | "insert_str"
            | "extend"
            | "extend_from_slice"
            | "append"
            | "pop"
            | "pop_front"
            | "pop_back"
            | "clear"
            | "truncate"
            | "drain"
            | "retain"
            | "sort"
            | "sort_by"
            | "sort_by_key"
            | "sort_unstable"
            | "dedup"
            | "reverse"
            | "iter_mut"
            | "values_mut"
            | "get_mut"
            | "as_mut"
            | "entry"
            | "get_or_insert"
            | "get_or_insert_with"
    )
}

/// Whether a method changes its receiver, or what that stands for, whatever type it has: not one that only gives access.
pub(crate) fn surely_changes(name: &str, arguments: usize) -> bool {
    let gives_access = matches!(name, "iter_mut" | "values_mut" | "get_mut" | "as_mut" | "entry");
    match name {
        "take" | "next" | "next_back" | "pop_first" | "pop_last" => arguments == 0,
        "remove" | "swap_remove" | "split_off" | "push_within_capacity" | "remove_entry" => arguments == 1,
        "reverse" | "clear" | "sort" | "sort_unstable" | "dedup" => arguments == 0,
        "get_or_insert" | "get_or_insert_with" => arguments == 1,
        _ if name.starts_with("fetch_") || name.starts_with("compare_exchange") => arguments > 1,
        "store" | "swap" => arguments == 2,
        _ => changes_receiver(name) && !gives_access,
    }
}

/// What a macro of this name is.
pub(crate) fn judge_macro(name: &str) -> Option<&'static Code> {
    match name {
        "print" | "println" | "eprint" | "eprintln" | "dbg" => Some(code::OUTPUT),
        "thread_local" | "task_local" => Some(code::THREAD_LOCAL),
        "lazy_static" => Some(code::STATIC),
        "nanoid" => Some(code::UUID),
        "addr_of" | "addr_of_mut" => Some(code::ADDRESS),
        "hashmap" | "hashset" => Some(code::HASH_ORDER),
        _ => None,
    }
}

/// Whether a method of a hash collection goes through its elements in their order.
pub(crate) fn iterates(method: &str) -> bool {
    matches!(
        method,
        "iter"
            | "iter_mut"
            | "into_iter"
            | "keys"
            | "into_keys"
            | "values"
            | "values_mut"
            | "into_values"
            | "drain"
            | "retain"
            | "extract_if"
            | "difference"
            | "union"
            | "intersection"
            | "symmetric_difference"
    )
}
