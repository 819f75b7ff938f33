//! Values on disk, read in whatever form they were written: each form is a type of its own, and becomes the next one (ADR 22).

/// A form of a value on disk. When a field changes, the type as it was becomes the form before, private and frozen in the module of its record.
pub trait Form<'a>: Sized {
    /// Counts the forms of a value from 1.
    const VERSION: u8;
    /// The form before; itself for the first. Its conversion has no inputs from outside: every replica gets the same.
    type Before: Form<'a, Damage = Self::Damage> + Into<Self>;
    /// What is wrong with bytes that are not a value of this form.
    type Damage;

    /// Reads exactly one value of this form.
    ///
    /// # Errors
    /// [`Form::Damage`].
    fn parse(bytes: &'a [u8]) -> Result<Self, Self::Damage>;
}

/// Bytes that are no value of a known form.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FormError<D> {
    /// A newer program wrote them.
    Newer {
        /// The version that they state.
        version: u8,
    },
    /// No program states this version.
    NoVersion,
    /// They are not what their version says.
    Damaged(D),
}

/// Reads a value of the form with this `version`, and makes it one of the newest form.
///
/// # Errors
/// [`FormError`]. Bytes that do not fit their version are never tried as another one.
pub fn read<'a, T: Form<'a>>(version: u8, bytes: &'a [u8]) -> Result<T, FormError<T::Damage>> {
    const {
        let before = <T::Before as Form<'a>>::VERSION;
        assert!(T::VERSION == before + 1 || (T::VERSION == 1 && before == 1));
    }
    if version == T::VERSION {
        T::parse(bytes).map_err(FormError::Damaged)
    } else if version > T::VERSION {
        Err(FormError::Newer { version })
    } else if version == 0 {
        Err(FormError::NoVersion)
    } else {
        read::<T::Before>(version, bytes).map(Into::into)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Digits, each form with one more.
    #[derive(PartialEq, Eq, Debug)]
    struct Digits<const COUNT: usize>([u8; COUNT]);

    impl<const COUNT: usize> Digits<COUNT> {
        fn exactly(bytes: &[u8]) -> Result<Self, usize> {
            bytes.try_into().map(Digits).map_err(|_| bytes.len())
        }
    }

    impl Form<'_> for Digits<1> {
        const VERSION: u8 = 1;
        type Before = Self;
        type Damage = usize;

        fn parse(bytes: &[u8]) -> Result<Self, usize> {
            Self::exactly(bytes)
        }
    }

    impl Form<'_> for Digits<2> {
        const VERSION: u8 = 2;
        type Before = Digits<1>;
        type Damage = usize;

        fn parse(bytes: &[u8]) -> Result<Self, usize> {
            Self::exactly(bytes)
        }
    }

    impl Form<'_> for Digits<3> {
        const VERSION: u8 = 3;
        type Before = Digits<2>;
        type Damage = usize;

        fn parse(bytes: &[u8]) -> Result<Self, usize> {
            Self::exactly(bytes)
        }
    }

    impl From<Digits<1>> for Digits<2> {
        fn from(Digits([first]): Digits<1>) -> Self {
            Digits([first, first + 1])
        }
    }

    impl From<Digits<2>> for Digits<3> {
        fn from(Digits([first, second]): Digits<2>) -> Self {
            Digits([first, second, second * 10])
        }
    }

    #[test]
    fn an_older_form_becomes_the_newest_one_version_after_the_other() {
        assert_eq!(read::<Digits<3>>(1, &[4]), Ok(Digits([4, 5, 50])));
        assert_eq!(read::<Digits<3>>(2, &[4, 7]), Ok(Digits([4, 7, 70])));
        assert_eq!(read::<Digits<3>>(3, &[4, 7, 9]), Ok(Digits([4, 7, 9])));
        assert_eq!(read::<Digits<1>>(1, &[4]), Ok(Digits([4])));
    }

    #[test]
    fn bytes_are_never_read_as_another_version() {
        assert_eq!(read::<Digits<3>>(4, &[4, 7, 9]), Err(FormError::Newer { version: 4 }));
        assert_eq!(read::<Digits<3>>(0, &[4]), Err(FormError::NoVersion));
        assert_eq!(read::<Digits<3>>(2, &[4]), Err(FormError::Damaged(1)));
        assert_eq!(read::<Digits<3>>(1, &[4, 7, 9]), Err(FormError::Damaged(3)));
    }
}
