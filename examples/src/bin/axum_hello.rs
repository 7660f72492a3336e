//! HTTP by axum, on an interface that the engine has by AF_XDP, while the program is busy without interrupts:
//! `axum_hello eth1 192.0.2.10/24`. Needs root; `curl http://192.0.2.10:8080/` of another machine.

use std::net::SocketAddr;

use axum::Router;
use axum::routing::get;
use napier_runtime::device::{DeviceHandle, EndConfig, IfAddr, XdpConfig};
use napier_runtime::engine::Engine;
use napier_tokio::{Reactor, TcpListener};

type Error = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let [interface, address] =
        std::env::args().skip(1).collect::<Vec<_>>().try_into().map_err(|_| "give INTERFACE ADDRESS/LENGTH")?;
    let address: IfAddr = address.parse()?;
    let engine = Engine::builder().start()?;
    let end = EndConfig::new("xdp0", engine.namespace(), &[address]);
    let device = engine.add_xdp(&XdpConfig::on(&interface), end)?;
    println!("http://{}:8080/", address.addr);
    serve(&engine, &device, SocketAddr::new(address.addr, 8080)).await
}

pub async fn serve(engine: &Engine, device: &DeviceHandle, at: SocketAddr) -> Result<(), Error> {
    let reactor = Reactor::start(engine)?;
    let mode = "suspend20".parse()?;
    engine.set_mode(device, mode)?;
    reactor.set_mode(mode)?;
    let listener = TcpListener::bind(&reactor, device.netns(), at)?;
    let app = Router::new().route("/", get(async || "Hello from user space\n"));
    axum::serve(listener, app).await?;
    Ok(())
}
