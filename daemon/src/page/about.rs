//! A daemon's page about itself: its version, and its configuration, with changed values before
//! defaults.

use maud::{Markup, html};

use crate::inspect::Setting;

/// Addresses that operators and programs read on every daemon.
const FOR_PROGRAMS: [(&str, &str); 5] = [
    ("/api/v1/openapi.json", "what the API is"),
    ("/metrics", "figures for Prometheus"),
    ("/jmx", "the same as Hadoop's beans"),
    ("/healthz", "health"),
    ("/conf", "the configuration as Hadoop's XML"),
];

/// The page.
pub fn draw(facts: &[(&str, String)], settings: &[Setting]) -> Markup {
    let (own, defaults): (Vec<&Setting>, Vec<&Setting>) =
        settings.iter().partition(|setting| !setting.is_default);
    html! {
        h1 { "About" }
        div.scroll { table.facts {
            caption.unseen { "This daemon" }
            tr { th scope="row" { "Version" } td { "Hanno " (env!("CARGO_PKG_VERSION")) } }
            @for (name, value) in facts { tr { th scope="row" { (name) } td.wide { (value) } } }
            tr {
                th scope="row" { "For programs" }
                td.wide { @for (path, what) in FOR_PROGRAMS { a href=(path) { code { (path) } } " " span.soft { (what) } br; } }
            }
        } }
        h2 { "Configuration" }
        @if own.is_empty() { p.empty { "Everything is as it comes." } } @else { (table("Configuration", &own)) }
        details #defaults { summary { (defaults.len()) " keys have their defaults" } (table("Defaults", &defaults)) }
    }
}

fn table(caption: &str, settings: &[&Setting]) -> Markup {
    html! {
        div.scroll { table {
            caption.unseen { (caption) }
            @for setting in settings {
                tr { th scope="row" { code { (setting.key) } } td.wide { code { (setting.value) } } }
            }
        } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_set_comes_before_what_is_default() {
        let setting = |key: &str, is_default| Setting {
            key: key.to_owned(),
            value: "\"><img".to_owned(),
            is_default,
        };
        let all = [setting("usual", true), setting("unusual", false)];
        let page = draw(&[("Started", "now".to_owned())], &all).into_string();
        let place = |text: &str| page.find(text).expect(text);
        assert!(place("unusual") < place("1 keys have their defaults"), "{page}");
        assert!(place(">usual<") > place("1 keys have their defaults"), "{page}");
        assert!(!page.contains("<img") && page.contains("Started"), "{page}");
        assert!(draw(&[], &[]).into_string().contains("Everything is as it comes"));
    }
}
