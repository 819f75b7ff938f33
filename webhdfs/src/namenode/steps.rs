//! The first of two steps: OPEN, CREATE, APPEND and GETFILECHECKSUM are redirected to a DataNode.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use client::namesystem::Namesystem;
use daemon::hosts::Host;
use protocol::address::web_url_of;
use protocol::namenode::{LocatedBlock, LocatedBlocks};

use super::{Asked, Face};
use crate::error::{Exception, WebError, not_found};
use crate::json;
use crate::op::Op;
use crate::redirect::{self, Excluded};
use crate::steps::create_flags;

impl<N: Namesystem> Face<N> {
    pub(super) async fn step(&self, asked: &Asked<'_>) -> Result<Response, WebError> {
        check_parameters(asked)?;
        let no_redirect = asked.query.boolean("noredirect", false)?;
        let address = self.choose(asked).await?;
        let trust = &self.inner.settings.trust;
        let credentials = trust.credentials(&asked.user, asked.op, &asked.path);
        let base = asked.peer.map_or_else(|| web_url_of(&address), |peer| peer.url_of(&address));
        let url = redirect::location(
            &base,
            &asked.path,
            asked.op,
            &credentials,
            &self.inner.settings.advertised,
            &asked.query,
        );
        if no_redirect {
            return Ok(json::ok(&json::named("Location", url)));
        }
        let url = HeaderValue::from_str(&url).expect("everything but ASCII is encoded");
        let headers = [(header::CONTENT_TYPE, json::BYTES), (header::LOCATION, url)];
        Ok((StatusCode::TEMPORARY_REDIRECT, headers).into_response())
    }

    /// `host:port` of the DataNode that does the second step.
    async fn choose(&self, asked: &Asked<'_>) -> Result<String, WebError> {
        let excluded = Excluded::of(&asked.query);
        let nodes = self.nodes(asked).await?;
        let holders = match asked.op {
            Op::Create => {
                self.check_create(asked).await?;
                None
            }
            Op::Open => self.open_step(asked).await?,
            _ => self.last_holders(asked).await.map_err(|error| absent(asked, error))?,
        };
        let node = match &holders {
            Some(block) => redirect::choose_for_read(&block.replicas, &nodes, &excluded, block.id)?,
            None if asked.op == Op::Create => {
                redirect::choose_for_write(&nodes, &excluded, asked.address(), self.salt())?
            }
            None => redirect::choose_any(&nodes, &excluded, self.salt())?,
        };
        let host = Host::of(asked.headers);
        Ok(redirect::address_for(node, &self.inner.own_host, host))
    }

    /// Refuses at once what the DataNode would refuse after the data was sent.
    async fn check_create(&self, asked: &Asked<'_>) -> Result<(), WebError> {
        let overwrite = asked.query.boolean("overwrite", false)?
            || create_flags(&asked.query)?.is_some_and(|flags| flags.contains(&"OVERWRITE"));
        let path = &asked.path;
        // The DataNode's own call, which decides, finds whatever else is wrong.
        let Ok(status) = self.status(asked).await else { return Ok(()) };
        let exists = |text| Err(WebError::new(Exception::FileAlreadyExists, text));
        match status.directory {
            true => exists(format!("{path} already exists as a directory")),
            false if !overwrite && !status.open => {
                exists(format!("{path} for client {} already exists", asked.client()))
            }
            false => Ok(()),
        }
    }

    /// Where a read begins, or why it cannot.
    pub(super) async fn open_step(
        &self,
        asked: &Asked<'_>,
    ) -> Result<Option<LocatedBlock>, WebError> {
        match self.open_holders(asked).await {
            // Below a file there is nothing, for the superuser; others may not even look.
            Err(error) if error.exception == Exception::AccessControl => {
                let why = self.status(asked).await.map_or_else(|why| why, |_| error);
                Err(absent(asked, why))
            }
            opened => opened.map_err(|error| absent(asked, error)),
        }
    }

    async fn open_holders(&self, asked: &Asked<'_>) -> Result<Option<LocatedBlock>, WebError> {
        let offset = asked.query.size("offset", 0)?.unwrap_or(0);
        let located = self.located(asked, offset, 1).await?;
        let length = length_of(&located);
        if length > 0 && offset >= length {
            let text = format!(
                "Offset={offset} out of the range [0, {length}); OPEN, path={}",
                asked.path
            );
            return Err(WebError::new(Exception::Io, text));
        }
        Ok(located
            .blocks
            .into_iter()
            .next()
            .filter(|block| !block.replicas.is_empty() || length > 0))
    }

    async fn last_holders(&self, asked: &Asked<'_>) -> Result<Option<LocatedBlock>, WebError> {
        let status =
            self.status(asked).await.map_err(|error| match (asked.op, error.exception) {
                (Op::Append, Exception::FileNotFound) => {
                    let (path, client) = (&asked.path, asked.client());
                    let text =
                        format!("Failed to append to non-existent file {path} for client {client}");
                    WebError::new(Exception::FileNotFound, text)
                }
                _ => error,
            })?;
        if status.directory {
            let path = &asked.path;
            return Err(match asked.op {
                Op::Append => WebError::new(
                    Exception::FileAlreadyExists,
                    format!("Cannot append to directory {path}; already exists as a directory."),
                ),
                _ => WebError::new(Exception::FileNotFound, format!("Path is not a file: {path}")),
            });
        }
        if status.length == 0 {
            return Ok(None);
        }
        let located = self.located(asked, status.length - 1, 1).await?;
        Ok(located.blocks.into_iter().next())
    }
}

/// Hadoop's words for a file that is not there at the first step of a read; the second step has others.
fn absent(asked: &Asked<'_>, error: WebError) -> WebError {
    if error != not_found(&asked.path) {
        return error;
    }
    WebError::new(Exception::FileNotFound, format!("File {} not found.", asked.path))
}

/// Bytes of the file as a reader sees them.
fn length_of(located: &LocatedBlocks) -> u64 {
    let end = located.blocks.last().map_or(0, |block| block.offset + block.length);
    end.max(located.status.length)
}

/// Refuses parameters that the DataNode would refuse.
fn check_parameters(asked: &Asked<'_>) -> Result<(), WebError> {
    let query = &asked.query;
    query.integer("buffersize", 1)?;
    match asked.op {
        Op::Open => {
            query.size("offset", 0)?;
            query.size("length", 0)?;
        }
        Op::Create => {
            query.boolean("overwrite", false)?;
            query.boolean("createparent", true)?;
            query.size("blocksize", 1)?;
            query.short("replication", 1)?;
            query.permission("permission")?;
            query.permission("unmaskedpermission")?;
        }
        _ => {}
    }
    Ok(())
}
