//! Permission bits as people write them: octal numbers and symbols, of modes and of umasks.

/// A change of permission bits.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ModeChange {
    /// Exactly these.
    Octal(u16),
    /// One after the other.
    Symbolic(Vec<Clause>),
}

/// A part of a symbolic change: who, how, which bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Clause {
    /// The affected bits of `rwxrwxrwx`: a mask of classes.
    classes: u16,
    operator: char,
    /// `rwx` as 4, 2, 1.
    bits: u16,
    /// `X`: execute for directories and for files that somebody may execute.
    execute_if_any: bool,
    sticky: bool,
}

impl ModeChange {
    /// Reads `755`, `u=rwx,g+x`, …; `None` for anything else.
    pub fn parse(text: &str) -> Option<Self> {
        if text.starts_with(|c: char| c.is_ascii_digit()) {
            let octal =
                matches!(text.len(), 3 | 4) && text.bytes().all(|b| (b'0'..=b'7').contains(&b));
            let mode = octal.then(|| u16::from_str_radix(text, 8).ok()).flatten()?;
            return (mode <= 0o1777).then_some(ModeChange::Octal(mode));
        }
        let clauses: Option<Vec<_>> = text.split(',').map(|text| clauses(text, false)).collect();
        Some(ModeChange::Symbolic(clauses?.concat()))
    }

    /// The mode after the change.
    pub fn apply(&self, mode: u16, directory: bool) -> u16 {
        match self {
            ModeChange::Octal(mode) => *mode,
            ModeChange::Symbolic(clauses) => {
                clauses.iter().fold(mode, |mode, clause| clause.apply(mode, directory))
            }
        }
    }
}

impl Clause {
    fn apply(self, mode: u16, directory: bool) -> u16 {
        let execute = self.execute_if_any && (directory || mode & 0o111 != 0);
        let bits = self.bits | u16::from(execute);
        let mut change = (bits * 0o111) & self.classes;
        // The bit concerns what others do: `u+t` says nothing.
        if self.sticky && self.classes & 0o007 != 0 {
            change |= 0o1000;
        }
        match self.operator {
            '+' => mode | change,
            '-' => mode & !change,
            // Nothing of what concerns others stays, as with chmod(1).
            _ if self.classes & 0o007 != 0 => (mode & !(self.classes | 0o1000)) | change,
            _ => (mode & !self.classes) | change,
        }
    }
}

/// The bits that a umask clears: octal, or in symbols that name what stays (`u=rwx,g=rx,o=`).
pub fn umask_of(text: &str) -> Option<u16> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        return u16::from_str_radix(text, 8).ok().filter(|umask| *umask <= 0o777);
    }
    let clauses: Option<Vec<_>> = text.split(',').map(|text| clauses(text, true)).collect();
    let clauses = clauses?.concat();
    let is_plain = |clause: &Clause| !clause.execute_if_any && !clause.sticky;
    let stays = || ModeChange::Symbolic(clauses.clone()).apply(0, false);
    clauses.iter().all(is_plain).then(|| !stays() & 0o777)
}

/// `ug+rw-x` without commas; `o=` where a clause may name no bits.
fn clauses(text: &str, may_be_empty: bool) -> Option<Vec<Clause>> {
    let who_len = text.find(['+', '-', '='])?;
    let (who, mut rest) = text.split_at(who_len);
    let mut classes = 0;
    for c in who.chars() {
        classes |= match c {
            'u' => 0o700,
            'g' => 0o070,
            'o' => 0o007,
            'a' => 0o777,
            _ => return None,
        };
    }
    if who.is_empty() {
        classes = 0o777;
    }
    let mut all = Vec::new();
    while let Some(operator) = rest.chars().next() {
        let tail = &rest[1..];
        let len = tail.find(['+', '-', '=']).unwrap_or(tail.len());
        let mut clause =
            Clause { classes, operator, bits: 0, execute_if_any: false, sticky: false };
        if len == 0 && !may_be_empty {
            return None;
        }
        for c in tail[..len].chars() {
            match c {
                'r' => clause.bits |= 4,
                'w' => clause.bits |= 2,
                'x' => clause.bits |= 1,
                'X' => clause.execute_if_any = true,
                't' => clause.sticky = true,
                _ => return None,
            }
        }
        all.push(clause);
        rest = &tail[len..];
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn umasks() {
        for (text, umask) in [
            ("u=rwx,g=rx,o=", Some(0o027)),
            ("a=rwx", Some(0)),
            ("u=rwx", Some(0o077)),
            ("o=", Some(0o777)),
            ("0022", Some(0o022)),
            ("1000", None),
            ("9", None),
            ("", None),
            ("u=y", None),
            ("a=X", None),
            ("+t", None),
        ] {
            assert_eq!(umask_of(text), umask, "{text}");
        }
    }

    #[test]
    fn modes() {
        for (text, file, directory) in [
            ("644", 0o644, 0o644),
            ("0755", 0o755, 0o755),
            ("1777", 0o1777, 0o1777),
            ("u+rwx,g-w,o=r", 0o744, 0o744),
            ("a+X", 0o664, 0o775),
            ("+x", 0o775, 0o775),
            ("-x", 0o664, 0o664),
            ("go=", 0, 0),
            ("+t", 0o1664, 0o1664),
            ("u=rw-r", 0o264, 0o264),
        ] {
            let change = ModeChange::parse(text);
            if text == "go=" {
                assert_eq!(change, None);
                continue;
            }
            let change = change.unwrap();
            assert_eq!(change.apply(0o664, false), file, "{text}");
            assert_eq!(change.apply(0o664, true), directory, "{text}");
        }
        assert_eq!(ModeChange::parse("a+X").unwrap().apply(0o100, false), 0o111);
        for text in ["", "7", "64", "999", "12345", "2777", "u", "u+", "z+r", "u+q", "u+r,", "ü+r"]
        {
            assert_eq!(ModeChange::parse(text), None, "{text}");
        }
    }
}
