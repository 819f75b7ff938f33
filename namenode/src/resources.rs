//! Looks at the disk of the metadata: a full one would end the NameNode, so it stops taking changes while there is room left.

use std::time::Duration;

use daemon::Shutdown;
use tokio::sync::mpsc;
use tokio::time::MissedTickBehavior;

use crate::config::Config;
use crate::server::Event;

/// Tells the loop at every look, until `shutdown`. The first look is at once.
pub(crate) async fn watch(events: mpsc::Sender<Event>, config: Config, shutdown: Shutdown) {
    let mut interval = tokio::time::interval(Duration::from_millis(config.resource_check_ms));
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = interval.tick() => {}
            () = shutdown.wait() => return,
        }
        let directory = config.data_dir.clone();
        // A disk that hangs must not hold up the service.
        let looked = tokio::task::spawn_blocking(move || sys::fs::space(&directory)).await;
        let event = match looked {
            Ok(Ok(space)) => {
                let low = space.available < config.free_space_min;
                Event::Resources { available: space.available, low }
            }
            Ok(Err(error)) => {
                tracing::warn!(%error, "cannot tell the free space of the metadata's disk");
                continue;
            }
            Err(_) => continue,
        };
        if events.send(event).await.is_err() {
            return;
        }
    }
}
