//! Connects to DataNodes on this machine for a task, which may not create Unix sockets itself: no wall would keep it from other sockets.
//!
//! Invariant: it connects to DataNodes and to nothing else, whatever name the task asks for and whoever listens there. The listener must
//! run as the user in the name, a user whose sockets this worker trusts.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream as Connected;

use protocol::transfer::local_socket_user;
use tokio::io::{AsyncReadExt, Interest};
use tokio::net::UnixStream;

/// Answers the requests of a task until the task closes its end of `socket`, or sends an invalid request.
pub(crate) async fn serve(mut socket: UnixStream) {
    // A task that violates the protocol, or is gone, gets no more answers; it can reach its DataNodes only over TCP.
    while let Ok(name) = question(&mut socket).await {
        let connected = connect(&name);
        let answered = socket.async_io(Interest::WRITABLE, || {
            sys::broker::answer(socket.as_fd(), connected.as_ref())
        });
        if answered.await.is_err() {
            return;
        }
    }
}

async fn question(socket: &mut UnixStream) -> io::Result<Vec<u8>> {
    let mut name = vec![0; usize::from(socket.read_u8().await?)];
    socket.read_exact(&mut name).await?;
    Ok(name)
}

/// Connects to a DataNode; `None` if the name is not a DataNode's, or if it does not accept now.
fn connect(name: &[u8]) -> Option<Connected> {
    let name = std::str::from_utf8(name).ok()?;
    let user = local_socket_user(name).filter(|user| sys::socket::is_for_us(*user))?;
    let connected = sys::socket::connect_now(name).ok()?;
    let checked = sys::socket::check_listener(&connected, user);
    checked.inspect_err(|error| tracing::warn!(name, %error, "not a DataNode any more")).ok()?;
    Some(connected)
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::transfer::local_socket_name;
    use sys::broker::Broker;

    #[tokio::test]
    async fn connects_to_datanodes_and_to_nobody_else() {
        let own = sys::host::user_id();
        let datanode = local_socket_name(own, rand::random());
        // A DataNode that has ended, in whose place this user listens, who is not the user it ran as.
        let gone = local_socket_name(own + 1, rand::random());
        let other = format!("hanno-test-other-{}", std::process::id());
        let listeners = [&datanode, &other, &gone].map(|name| sys::socket::listen(name).unwrap());
        let (ours, theirs) = Connected::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let serving = tokio::spawn(serve(UnixStream::from_std(ours).unwrap()));
        let asking = tokio::task::spawn_blocking(move || {
            let broker = Broker::new(theirs).unwrap();
            let nobody = local_socket_name(own, 0);
            for refused in [&other, &nobody, &gone, "", "/run/docker.sock", "\u{0}"] {
                let error = broker.connect(refused).unwrap_err();
                assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused, "{refused}");
            }
            broker.connect(&datanode).unwrap();
        });
        asking.await.unwrap();
        listeners[0].accept().unwrap();
        listeners[1].set_nonblocking(true).unwrap();
        assert_eq!(listeners[1].accept().unwrap_err().kind(), io::ErrorKind::WouldBlock);
        serving.await.unwrap();
    }
}
