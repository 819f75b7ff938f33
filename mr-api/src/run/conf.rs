//! `-conf FILE`: properties from a file in Hadoop's form. The driver reads it; workers get its contents as `--default=NAME=VALUE`.

use client::site::Site;
use mr_model::Error;
use mr_model::runner::say;

/// A command line with each `-conf FILE` replaced by its properties, which come before everything else.
pub(crate) fn expand(words: &[String]) -> Result<Vec<String>, Error> {
    let (mut files, mut rest) = (Vec::new(), Vec::new());
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--" => {
                rest.push(word.clone());
                rest.extend(words.by_ref().cloned());
            }
            "-conf" | "--conf" => {
                let file = words
                    .next()
                    .ok_or_else(|| Error::usage(format!("option {word} needs a value")))?;
                files.push(file);
            }
            _ => rest.push(word.clone()),
        }
    }
    let wrong = |error| Error::usage(format!("-conf: {}", protocol::error::chain(&error)));
    let site = Site::of_files(&files).map_err(wrong)?;
    for (file, name) in &site.overruled {
        say(format_args!("-conf {}: {name} is final in an earlier file\n", file.display()));
    }
    let properties = site.resolved().map_err(wrong)?;
    let defaults = properties.into_iter().map(|(name, value)| as_default(&name, &value));
    Ok(defaults.chain(rest).collect())
}

/// The option that sets a property from a file.
pub fn as_default(name: &str, value: &str) -> String {
    format!("--default={name}={value}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_takes_the_place_of_its_option() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("site.xml");
        let text = "<configuration><property><name>b</name><value>${a}</value></property>\
            <property><name>a</name><value>1</value></property></configuration>";
        std::fs::write(&path, text).unwrap();
        let path = path.to_string_lossy();
        let words = ["in", "-conf", &path, "-D", "a=2", "--", "-conf"].map(str::to_owned);
        let expected = ["--default=a=1", "--default=b=1", "in", "-D", "a=2", "--", "-conf"];
        assert_eq!(expand(&words).unwrap(), expected);
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        let missing = ["-conf", "/no/such.xml"].map(str::to_owned);
        assert!(expand(&missing).unwrap_err().to_string().contains("/no/such.xml"));
        assert!(expand(&["-conf".to_owned()]).unwrap_err().to_string().contains("needs a value"));
    }
}
