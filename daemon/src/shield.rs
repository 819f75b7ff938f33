//! Work that is finished even if its caller hangs up.
//!
//! As long as somebody waits, the work is polled where they are: a task of its own would cost each call two more switches.

use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::runtime::Handle;

/// Runs `work`; when the future is dropped before its end, a task takes it over.
pub fn shield<W>(work: W) -> impl Future<Output = W::Output> + Send
where
    W: Future<Output: Send> + Send + 'static,
{
    Shielded { work: Some(Box::pin(work)) }
}

struct Shielded<W: Future<Output: Send> + Send + 'static> {
    /// `None` at its end, and while it is polled: no task takes over work that panics.
    work: Option<Pin<Box<W>>>,
}

impl<W: Future<Output: Send> + Send + 'static> Future for Shielded<W> {
    type Output = W::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<W::Output> {
        let Some(mut work) = self.work.take() else { return Poll::Pending };
        let polled = work.as_mut().poll(context);
        if polled.is_pending() {
            self.work = Some(work);
        }
        polled
    }
}

impl<W: Future<Output: Send> + Send + 'static> Drop for Shielded<W> {
    fn drop(&mut self) {
        if let (Some(work), Ok(runtime)) = (self.work.take(), Handle::try_current()) {
            runtime.spawn(work);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::sync::oneshot;
    use tokio::time::timeout;

    use super::*;

    const SOON: Duration = Duration::from_secs(10);

    #[tokio::test]
    async fn work_ends_with_and_without_somebody_who_waits() {
        assert_eq!(shield(async { 7 }).await, 7);
        let (go, gone) = oneshot::channel::<()>();
        let (done, end) = oneshot::channel();
        let mut work = Box::pin(shield(async move {
            let _ = gone.await;
            done.send("end").unwrap();
        }));
        assert!(timeout(Duration::ZERO, work.as_mut()).await.is_err(), "it waits");
        drop(work);
        go.send(()).unwrap();
        assert_eq!(timeout(SOON, end).await.unwrap(), Ok("end"));
    }

    #[tokio::test]
    async fn work_that_was_never_looked_at_is_done_too() {
        let (done, end) = oneshot::channel();
        drop(shield(async move { done.send(1).unwrap() }));
        assert_eq!(timeout(SOON, end).await.unwrap(), Ok(1));
    }
}
