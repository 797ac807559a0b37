//! Three replicas, no stickiness: the sessions of 2025-11-25, their streams, and news of changes.
//!
//! Each scenario is told over whatever backend its `Opener` opens; `conformance` tells the same ones over
//! real services.

pub(crate) mod answers;
pub(crate) mod changes;
pub(crate) mod endings;
pub(crate) mod fleet;
pub(crate) mod groups;
pub(crate) mod streams;
pub(crate) mod wire;

#[cfg(test)]
pub(crate) use self::fleet::Opener;

/// One test a scenario, over the backend that `$open` opens.
macro_rules! scenarios {
    ($open:expr) => {
        $crate::replicas::scenarios! { $open =>
            answers::an_elicitation_is_answered_through_another_replica,
            answers::a_sampling_answer_of_a_megabyte_comes_through_another_replica,
            answers::an_answer_given_twice_counts_once,
            answers::an_answer_never_reaches_another_sessions_question,
            answers::two_hundred_sessions_are_answered_without_stickiness,
            answers::a_call_is_cancelled_through_another_replica,
            changes::a_change_reaches_every_client_once,
            changes::what_changes_often_is_told_once,
            changes::a_subscription_is_known_at_every_replica,
            changes::who_listens_elsewhere_hears_everything_once,
            changes::a_page_completes_at_any_replica,
            endings::a_deleted_session_is_gone_everywhere,
            endings::a_session_expires_with_all_it_left,
            endings::a_session_in_use_does_not_expire,
            endings::somebody_elses_session_is_not_there,
            endings::a_call_in_flight_is_answered_by_a_replica_that_shuts_down,
            endings::a_call_whose_stream_broke_is_resumed_while_its_replica_shuts_down,
            endings::an_answer_reaches_a_replica_that_shuts_down,
            groups::a_group_of_a_session_is_enabled_at_every_replica,
            groups::a_group_of_a_caller_is_enabled_at_every_replica,
            streams::a_broken_stream_goes_on_at_another_replica,
            streams::a_stream_shows_what_was_kept_when_its_replica_is_gone,
            streams::what_a_stream_may_not_keep_is_said_to_be_missing,
            streams::a_large_result_is_resumed_whole,
            streams::resumed_stream_does_not_repeat_a_question,
            streams::a_listening_client_hears_of_calls_at_other_replicas,
        }
    };
    ($open:expr => $($module:ident::$name:ident,)*) => {
        $(
            #[tokio::test(flavor = "multi_thread")]
            async fn $name() -> antiphon::Result<()> {
                match $open {
                    Some(open) => $crate::replicas::$module::$name(open).await,
                    None => Ok(()),
                }
            }
        )*
    };
}
pub(crate) use scenarios;
