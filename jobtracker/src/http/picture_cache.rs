//! Pictures of finished jobs, for repeated requests: a finished job does not change any more, and a picture of a hundred thousand tasks
//! takes time.
//!
//! Invariant: all pictures together have at most [`ATTEMPTS_MAX`] attempts; the most recently requested stay.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use protocol::JobId;

use crate::core::views::Picture;

/// Attempts in all kept pictures: about 40 MB.
const ATTEMPTS_MAX: usize = 200_000;

/// See the module. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct PictureCache {
    /// Most recently requested first.
    pictures: Arc<Mutex<VecDeque<Arc<Picture>>>>,
}

impl PictureCache {
    /// The picture of a job, if it is here.
    pub(crate) fn find(&self, job: JobId) -> Option<Arc<Picture>> {
        let mut pictures = self.pictures.lock();
        let place = pictures.iter().position(|picture| picture.id == job)?;
        let found = pictures.remove(place)?;
        pictures.push_front(Arc::clone(&found));
        Some(found)
    }

    /// Keeps the picture of a finished job, in place of the least recently requested ones.
    pub(crate) fn keep(&self, picture: &Arc<Picture>) {
        let is_too_large = picture.attempts.len() > ATTEMPTS_MAX;
        if is_too_large || !picture.report.state.is_final() {
            return;
        }
        let mut pictures = self.pictures.lock();
        pictures.retain(|other| other.id != picture.id);
        pictures.push_front(Arc::clone(picture));
        let mut count = 0;
        // A picture without attempts takes space, too.
        let counts = pictures.iter().map(|picture| picture.attempts.len().max(1));
        let sums = counts.map(|attempts| {
            count += attempts;
            count
        });
        let fitting = sums.take_while(|sum| *sum <= ATTEMPTS_MAX).count();
        pictures.truncate(fitting);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::jobs::AttemptState;
    use crate::core::views::AttemptRow;
    use crate::web::tests::picture;

    fn job(number: u32, attempts: usize, finished_ms: u64) -> Arc<Picture> {
        let row = AttemptRow {
            kind: protocol::TaskKind::Map,
            index: 0,
            number: 0,
            state: AttemptState::Succeeded,
            worker: 0,
            started_ms: 1,
            finished_ms: 2,
            progress: 1.0,
            phase: None,
            gathered: None,
        };
        let mut picture = picture(vec![row; attempts], 1, finished_ms);
        picture.id.number = number;
        Arc::new(picture)
    }

    #[test]
    fn what_was_looked_at_last_stays_within_bounds() {
        let cache = PictureCache::default();
        let is_kept = |number| {
            let id = JobId { number, ..job(0, 0, 1).id };
            cache.pictures.lock().iter().any(|picture| picture.id == id)
        };
        cache.keep(&job(1, 10, 0));
        assert!(!is_kept(1), "a job that runs");
        for number in [2, 3, 4] {
            cache.keep(&job(number, ATTEMPTS_MAX / 3, 9));
        }
        let second = job(2, 1, 9).id;
        assert_eq!(cache.find(second).unwrap().id, second);
        cache.keep(&job(5, ATTEMPTS_MAX / 3, 9));
        assert_eq!([2, 3, 4, 5].map(is_kept), [true, false, true, true]);
        cache.keep(&job(2, 1, 9));
        cache.keep(&job(6, 0, 9));
        assert_eq!([2, 4, 5, 6].map(is_kept), [true, true, true, true]);
        cache.keep(&job(7, ATTEMPTS_MAX + 1, 9));
        assert_eq!([2, 4, 5, 6].map(is_kept), [true; 4], "what is too large takes nothing's place");
        assert!(!is_kept(7));
    }
}
