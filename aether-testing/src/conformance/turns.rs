//! Rules about turns in queues that are not taken: of runs that have lapsed, and of starts that are refused.

use std::sync::Arc;

use aether_core::store::{Created, LimitKind, Store};

use super::kit::run_id;
use super::queues::{create, end, queued, set, take};

/// A start over a limit of open runs leaves none of the values that were stored for it; those of the runs that are there stay.
pub async fn a_start_over_a_limit_leaves_no_values(store: &Arc<dyn Store>) {
    set(store, "q", LimitKind::Open(1)).await;
    let (own, shared) = ("aa".repeat(32), "bb".repeat(32));
    store.put_blob(&run_id("a"), &shared, b"bytes".to_vec()).await.unwrap();
    create(store, queued("a", "k", 0)).await;
    for hash in [&own, &shared] {
        store.put_blob(&run_id("b"), hash, b"bytes".to_vec()).await.unwrap();
    }
    let refused = store.create(queued("b", "k", 1)).await.unwrap();
    assert!(matches!(refused, Created::OverLimit { .. }), "{refused:?}");
    assert_eq!(store.blob(&run_id("b"), &own).await, Ok(None));
    assert_eq!(store.blob(&run_id("a"), &shared).await, Ok(Some(b"bytes".to_vec())));
    // One that is there is not refused.
    assert!(matches!(store.create(queued("a", "k", 2)).await, Ok(Created::Existing(_))));
    assert_eq!(store.blob(&run_id("a"), &shared).await, Ok(Some(b"bytes".to_vec())));
    end(store, &take(store, 3, 10).await[0]).await;
    store.purge(&run_id("a"), None).await.unwrap();
    assert_eq!(store.blob(&run_id("a"), &shared).await, Ok(None));
}
