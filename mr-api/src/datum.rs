//! What can be a key or a value: [`Datum`] and [`Key`], which types of an author's own derive, and the types that they are composed of.
//!
//! ```
//! use mr_api::datum::{Datum, Key};
//! use mr_api::testing::{JobDriver, assert_order_preserving};
//! use mr_api::{Job, reduce_fn, text, text_out};
//!
//! /// Sorts by place, then by day.
//! #[derive(Datum, Key, Clone, PartialEq, PartialOrd, Debug)]
//! struct Reading {
//!     place: Place,
//!     day: u16,
//! }
//!
//! /// Sorts in this order: stations come before ships.
//! #[derive(Datum, Key, Clone, PartialEq, PartialOrd, Debug)]
//! enum Place {
//!     Station(u32),
//!     Ship { name: String },
//! }
//!
//! let ship = |day| Reading { place: Place::Ship { name: "beagle".to_owned() }, day };
//! assert_order_preserving(&[ship(7), ship(300), Reading { place: Place::Station(9), day: 1 }]);
//!
//! let run = JobDriver::new().file("in", "300\n7\n").run(|path| {
//!     let job = Job::new("readings")
//!         .input(text([path("in")]))
//!         .map_fn::<Reading, (), _>(move |line, out| out.emit(ship(line.to_str_lossy().parse()?), ()))
//!         .reduce(reduce_fn::<Reading, (), _>(|reading, _, out| out.write(reading.day, ())))
//!         .reducers(1)
//!         .output(text_out(path("out")));
//!     Ok(job.into())
//! })?;
//! assert_eq!(run.text("part"), "7\n300\n");
//! # Ok::<(), mr_api::BoxError>(())
//! ```
//!
//! A field that is no key cannot be in a derived key, and one that is no datum cannot be in a derived datum:
//!
//! ```compile_fail,E0277
//! use mr_api::datum::{Datum, Key, Serde};
//!
//! #[derive(Datum, Key)]
//! struct Unordered(Serde<u8>);
//! ```
//!
//! ```compile_fail,E0277
//! use mr_api::datum::Datum;
//!
//! #[derive(Datum)]
//! struct Unknown(std::time::Instant);
//! ```

pub use mr_derive::{Datum, Key};
pub use mr_model::datum::{Datum, DecodeError, Desc, Key, Put, Serde};
