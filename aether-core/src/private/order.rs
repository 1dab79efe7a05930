//! The question about the type of what a body goes through: only types tell a hash collection from a list.
//!
//! Promise: it evaluates nothing; a type that is not known to be without order gives no warning.

#![allow(rustdoc::broken_intra_doc_links, reason = "the codes of diagnostics stand in brackets")]
#![expect(clippy::disallowed_types, reason = "the standard library's own types are what is asked about")]

use std::collections::{HashMap, HashSet, LinkedList, VecDeque};
use std::sync::Arc;

/// Something that a body goes through, whose type is asked: `GoneThrough(&place).in_any_order()` is deprecated for the hash
/// collections whose keys are random, and means nothing for all others.
#[derive(Debug)]
pub struct GoneThrough<'a, T: ?Sized>(pub &'a T);

/// The answer for types whose elements have an order, or that are not known.
pub trait InAnyOrder {
    /// Nothing.
    fn in_any_order(&self) {}
}

impl<T: ?Sized> InAnyOrder for GoneThrough<'_, T> {}

macro_rules! without_order {
    ($($impl:tt)+) => {
        $($impl)+ {
            /// Warns that the order of the elements is random.
            #[deprecated(
                note = "[AE0111] this hash collection has another order in every process\n  why: its iteration order differs from process to process, and with it the order of effects\n  help: use `BTreeMap` or `BTreeSet`, or collect into one first"
            )]
            pub fn in_any_order(&self) {}
        }
    };
}

without_order!(impl<K, V> GoneThrough<'_, HashMap<K, V>>);
without_order!(impl<K, V> GoneThrough<'_, &HashMap<K, V>>);
without_order!(impl<K, V> GoneThrough<'_, &mut HashMap<K, V>>);
without_order!(impl<K, V> GoneThrough<'_, Box<HashMap<K, V>>>);
without_order!(impl<K, V> GoneThrough<'_, Arc<HashMap<K, V>>>);
without_order!(impl<T> GoneThrough<'_, HashSet<T>>);
without_order!(impl<T> GoneThrough<'_, &HashSet<T>>);
without_order!(impl<T> GoneThrough<'_, &mut HashSet<T>>);
without_order!(impl<T> GoneThrough<'_, Box<HashSet<T>>>);
without_order!(impl<T> GoneThrough<'_, Arc<HashSet<T>>>);

/// A collection that takes in something that a body hands to it.
#[derive(Debug)]
pub struct TakesIn<'a, C: ?Sized>(pub &'a C);

/// The answer for collections with an order of their own, or that are not known.
pub trait OwnOrder {
    /// Nothing that matters.
    fn taken<'t, T: ?Sized>(&self, _: &'t T) -> GoneThrough<'t, ()> {
        GoneThrough(&())
    }
}

impl<C: ?Sized> OwnOrder for TakesIn<'_, C> {}

macro_rules! in_order_of_arrival {
    ($($impl:tt)+) => {
        $($impl)+ {
            /// What is taken in, whose type is asked next: the collection keeps it in the order of its arrival.
            pub fn taken<'t, I: ?Sized>(&self, items: &'t I) -> GoneThrough<'t, I> {
                GoneThrough(items)
            }
        }
    };
}

in_order_of_arrival!(impl TakesIn<'_, String>);
in_order_of_arrival!(impl TakesIn<'_, &mut String>);
in_order_of_arrival!(impl<T> TakesIn<'_, Vec<T>>);
in_order_of_arrival!(impl<T> TakesIn<'_, &mut Vec<T>>);
in_order_of_arrival!(impl<T> TakesIn<'_, VecDeque<T>>);
in_order_of_arrival!(impl<T> TakesIn<'_, &mut VecDeque<T>>);
in_order_of_arrival!(impl<T> TakesIn<'_, LinkedList<T>>);
in_order_of_arrival!(impl<T> TakesIn<'_, &mut LinkedList<T>>);

/// The value itself, after the question about its type.
pub fn asked<T>((): (), value: T) -> T {
    value
}

/// The value itself, after a question about its type that only borrows it.
pub fn asked_of<T>(value: T, question: impl FnOnce(&T)) -> T {
    question(&value);
    value
}
