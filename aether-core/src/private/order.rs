//! The question about the type of what a body goes through: only types tell a hash collection from a list.
//!
//! Promise: it evaluates nothing; a type that is not known to be without order gives no warning.

#![allow(rustdoc::broken_intra_doc_links, reason = "the codes of diagnostics stand in brackets")]
#![expect(clippy::disallowed_types, reason = "the standard library's own types are what is asked about")]

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
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

/// The answer for collections in which what is taken in stays in its order, or that are not known.
pub trait InOrderOfArrival {
    /// What is taken in, whose type is asked next.
    fn taken<'t, T: ?Sized>(&self, items: &'t T) -> GoneThrough<'t, T> {
        GoneThrough(items)
    }
}

impl<C: ?Sized> InOrderOfArrival for TakesIn<'_, C> {}

macro_rules! with_own_order {
    ($($impl:tt)+) => {
        $($impl)+ {
            /// Nothing that matters: the collection has an order of its own.
            pub fn taken<'t, T: ?Sized>(&self, _: &'t T) -> GoneThrough<'t, ()> {
                GoneThrough(&())
            }
        }
    };
}

with_own_order!(impl<K, V> TakesIn<'_, BTreeMap<K, V>>);
with_own_order!(impl<K, V> TakesIn<'_, &mut BTreeMap<K, V>>);
with_own_order!(impl<K> TakesIn<'_, BTreeSet<K>>);
with_own_order!(impl<K> TakesIn<'_, &mut BTreeSet<K>>);
with_own_order!(impl<K, V, S> TakesIn<'_, HashMap<K, V, S>>);
with_own_order!(impl<K, V, S> TakesIn<'_, &mut HashMap<K, V, S>>);
with_own_order!(impl<K, S> TakesIn<'_, HashSet<K, S>>);
with_own_order!(impl<K, S> TakesIn<'_, &mut HashSet<K, S>>);

/// The value itself, after the question about its type.
pub fn asked<T>((): (), value: T) -> T {
    value
}

/// The value itself, after a question about its type that only borrows it.
pub fn asked_of<T>(value: T, question: impl FnOnce(&T)) -> T {
    question(&value);
    value
}
