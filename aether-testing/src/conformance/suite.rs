//! Makes a test of each rule: the fixture that holds a store, and the macro that lists the rules.
//!
//! Promise: each rule gets an empty store of its own.

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use aether_core::store::Store;

/// An empty store, and what must live as long as it does, such as its folder.
///
/// ```
/// use std::sync::Arc;
/// use aether_core::store::memory::MemoryStore;
/// use aether_testing::conformance::Fixture;
/// # struct Folder;
/// let fixture = Fixture::new(Arc::new(MemoryStore::new())).keeping(Folder);
/// ```
pub struct Fixture {
    store: Arc<dyn Store>,
    _keep: Box<dyn Any + Send>,
}

impl fmt::Debug for Fixture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fixture").field("store", &self.store).finish_non_exhaustive()
    }
}

impl Fixture {
    /// A fixture of an empty store.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store, _keep: Box::new(()) }
    }

    /// Keeps `guard` until the store is dropped.
    #[must_use]
    pub fn keeping(self, guard: impl Any + Send) -> Self {
        Self { _keep: Box::new(guard), ..self }
    }
}

/// An empty store that is being opened.
pub type Opening = Pin<Box<dyn Future<Output = Fixture>>>;

/// A rule that is being checked.
pub type Checking<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

/// Runs one rule on a fresh store. Called by [`store_suite!`](crate::store_suite). Nothing of it is generic, so that rules
/// are compiled once, here, and not in every program that tests a store.
///
/// # Panics
/// When the store breaks the rule.
pub fn check(opening: Opening, rule: for<'a> fn(&'a Arc<dyn Store>) -> Checking<'a>) {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a tokio runtime");
    runtime.block_on(async {
        let fixture = opening.await;
        rule(&fixture.store).await;
    });
}

/// Makes a module `$name` with one `#[test]` for each rule that a store must keep. `$factory` is an async closure that
/// opens an empty store and returns a [`Fixture`](crate::conformance::Fixture); it is called once for each test. A store
/// that has no queues says `without queues` behind the closure: it is then tested that it refuses them.
///
/// ```
/// use std::sync::Arc;
/// use aether_core::store::memory::MemoryStore;
/// use aether_testing::conformance::Fixture;
///
/// aether_testing::store_suite!(memory, async || Fixture::new(Arc::new(MemoryStore::new())));
/// # fn main() {}
/// ```
#[macro_export]
macro_rules! store_suite {
    ($name:ident, $factory:expr) => {
        $crate::store_suite! { @whole [@tests $name, $factory,] }
    };
    ($name:ident, $factory:expr, without queues) => {
        $crate::store_suite! { @all [@tests $name, $factory,]
            queues: a_store_without_queues_says_so, keyed_starts_are_swapped, due_keyed_starts_are_found_in_pages;
        }
    };
    (@whole [$($then:tt)*] $($also:ident)?) => {
        $crate::store_suite! { @all [$($then)*]
            queues: a_queued_run_waits_for_a_turn, priority_ages, keys_take_turns, idle_keys_save_nothing_up,
                running_is_limited_by_pattern, limits_change_at_run_time, starts_are_limited_in_time,
                open_runs_are_limited_at_their_start, a_silent_worker_keeps_its_slots, what_lapses_needs_no_slot,
                a_run_can_begin_later, a_message_begins_no_run_before_its_time, a_clock_that_leaped_closes_no_queue,
                a_limit_of_starts_hides_no_begun_run_of_other_code, runs_that_lapse_save_nothing_up,
                a_creation_rests_on_its_keyed_start, queues_go_by_code, a_recoded_run_keeps_its_turn, queues_and_others_share_a_claim, runs_are_listed_by_queue,
                single_places_go_to_queues_and_others, a_worker_gets_what_it_serves, what_workers_serve_is_listed,
                keyed_starts_are_swapped, due_keyed_starts_are_found_in_pages, a_purged_run_leaves_its_queue $(, $also)?;
            turns: expired_runs_shut_no_queue_out, single_places_go_to_queues_and_the_expired,
                a_start_over_a_limit_leaves_no_values;
        }
    };
    (@all [$($then:tt)*] $($queues:tt)*) => {
        $crate::store_suite! { $($then)* $($queues)*
            runs: created_with_an_owner, created_without_an_owner, creating_twice_answers_existing,
                a_child_needs_its_parent, a_refused_start_leaves_no_values, unknown_runs_are_absent;
            lists: every_part_of_a_filter_counts, the_parts_of_a_filter_hold_together, pages_hold_each_run_once,
                labels_are_those_of_the_creation;
            appends: frames_are_ordered_and_chained, a_frame_is_kept_byte_for_byte, a_wrong_position_is_refused,
                a_stale_epoch_is_refused, nothing_follows_a_terminal_status, an_unknown_run_is_refused,
                a_refused_append_leaves_its_batch_alone, nothing_follows_a_refused_append,
                a_refused_append_leaves_nothing_behind, loading_starts_at_a_position, pages_make_up_the_journal, the_last_frame_is_the_newest,
                an_append_without_events_changes_the_rest, silent_appends_move_the_tail;
            waits: waits_are_listed_until_they_are_closed, a_wait_keeps_its_place, a_refused_append_lists_nothing,
                waits_are_filtered_and_paged, the_waits_of_one_run_are_found, a_purged_run_is_not_listed, a_list_is_made_for_a_position;
            ledger: a_key_is_granted_once, a_business_key_is_held_against_other_keys,
                only_a_definite_failure_frees_a_business_key, concurrent_acquires_grant_one,
                rows_round_trip, updates_ride_with_appends, an_outcome_is_written_literally,
                an_update_of_a_missing_row_is_refused, rows_are_listed_in_order_of_start,
                a_fork_comes_with_its_rows;
            reservations: a_key_is_reserved_once, only_the_very_reservation_is_replaced, of_many_reservers_one_wins,
                a_reservation_is_read_back_whole, the_ledger_does_not_look_at_store_wide_keys;
            inbox: messages_keep_order_and_drop_duplicates, consumed_messages_are_gone,
                an_inbox_is_read_after_a_number_and_counted, a_message_makes_its_run_due,
                a_message_during_suspension_is_not_lost, a_clock_that_is_set_back_keeps_no_message_waiting, a_clock_that_is_set_back_keeps_no_notification_waiting,
                a_message_kept_for_later_does_not_wake, waiting_runs_with_unread_messages_are_listed,
                held_runs_are_listed, held_runs_with_unread_messages_are_listed, a_request_to_end_is_not_overtaken, a_message_wakes_a_suspended_run,
                a_notification_wakes_a_suspended_run, a_notification_during_suspension_is_not_lost,
                a_notification_before_the_run_is_running_is_not_lost,
                an_ended_run_takes_no_messages;
            leases: a_due_run_is_claimed_once, a_held_run_is_claimed_only_from_a_silent_worker,
                a_run_that_was_being_advanced_is_due_by_no_clock, a_renewal_keeps_every_run, workers_that_hold_runs_are_listed,
                a_worker_learns_what_was_taken_from_it, a_retired_worker_holds_nothing,
                two_claimers_never_both_get_a_run, a_claim_is_limited, one_run_is_claimed_before_it_is_due,
                released_runs_are_free, a_stale_release_does_nothing, the_next_wake_is_that_of_free_runs,
                runs_that_wait_for_nothing_are_hastened,
                a_running_run_stays_due, an_ended_run_is_let_go, a_taken_over_worker_is_fenced;
            codes: an_append_changes_the_code_of_its_run, a_parked_run_can_be_suspended_and_ended,
                a_claim_takes_only_runs_of_its_codes, a_claim_to_adopt_takes_what_it_names,
                free_runs_can_get_another_code, runs_of_other_code_are_listed, due_runs_of_other_code_are_listed, lists_know_code_and_parking,
                the_codes_of_other_workers_are_known, registered_workers_are_listed, definitions_are_kept_once;
            renewal: a_generation_begins_a_journal, a_generation_keeps_business_keys_and_doubts,
                a_generation_keeps_unread_messages, a_refused_generation_changes_nothing;
            purge: ended_runs_are_listed_by_age, a_purged_run_leaves_nothing, a_purged_run_takes_its_blobs_along, a_purge_means_the_run_of_its_time, an_open_run_is_not_purged,
                a_child_of_an_open_parent_is_not_purged, a_store_wide_key_outlives_its_run, a_purged_id_can_be_used_again;
            schedules: a_schedule_is_kept_by_name_and_revision, a_creation_rests_on_its_schedule, due_schedules_are_found_by_time_and_workflow,
                a_removed_schedule_is_gone;
            faults: a_lost_answer_does_not_double_an_append, a_lost_grant_is_not_given_twice, a_lost_creation_is_found,
                a_failed_append_can_be_made_again, a_torn_batch_goes_on_where_it_was_cut,
                a_failed_read_can_be_made_again, a_failed_value_can_be_kept_again;
            streams: chunks_are_numbered, chunks_are_written_together, a_chunk_is_written_once, another_epoch_is_refused,
                an_execution_starts_over, an_end_folds, an_end_drops, ends_come_together,
                a_refused_append_ends_nothing, a_late_write_replaces_nothing, a_purged_run_has_no_streams;
            kept: blobs_are_kept, effects_are_kept, the_first_effect_is_kept, an_effect_of_a_stale_epoch_is_refused, the_newest_snapshot_is_kept, snapshots_can_be_deleted;
        }
    };
    (@tests $name:ident, $factory:expr, $($group:ident: $($rule:ident),*;)*) => {
        mod $name {
            /// Every rule that is tested here.
            #[allow(dead_code)]
            pub(super) const RULES: &[&str] = &[$($(concat!(stringify!($group), "::", stringify!($rule))),*),*];

            $(mod $group {
                #[cfg(test)]
                fn __open() -> $crate::conformance::Opening {
                    #[allow(unused_imports)]
                    use super::super::*;
                    ::std::boxed::Box::pin(async { ($factory)().await })
                }

                $(#[test]
                fn $rule() {
                    $crate::conformance::check(__open(), $crate::conformance::boxed::$group::$rule);
                })*
            })*
        }
    };
    (@boxed $($group:ident: $($rule:ident),*;)*) => {
        $(pub mod $group {
            $(pub fn $rule(
                store: &::std::sync::Arc<dyn ::aether_core::store::Store>,
            ) -> $crate::conformance::Checking<'_> {
                ::std::boxed::Box::pin($crate::conformance::$group::$rule(store))
            })*
        })*
    };
}

/// Every rule as a function that is not generic and whose future is made here.
#[doc(hidden)]
pub mod boxed {
    #![allow(missing_docs, reason = "each is the rule of the same name")]
    crate::store_suite! { @whole [@boxed] a_store_without_queues_says_so }
}
