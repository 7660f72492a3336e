//! A gRPC service by tonic, on an interface that the engine has by AF_XDP: `tonic_echo eth1 192.0.2.10/24`, as root; and a client on the
//! kernel's sockets: `tonic_echo http://192.0.2.10:50051`.

use std::net::SocketAddr;

use hyper_util::rt::TokioIo;
use napier_runtime::device::{DeviceHandle, EndConfig, IfAddr, XdpConfig};
use napier_runtime::engine::Engine;
use napier_tokio::{Reactor, TcpListener, TcpListenerStream, TcpStream};
use tonic::transport::server::TcpConnectInfo;
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Request, Response, Status};

use pb::echo_client::EchoClient;
use pb::echo_server::EchoServer;

/// What `echo.proto` says.
pub mod pb {
    tonic::include_proto!("echo");
}

type Error = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match &args[..] {
        [url] => {
            let mut client = EchoClient::connect(url.clone()).await?;
            println!("{}", client.say(pb::Text { text: "hello".to_owned() }).await?.into_inner().text);
            Ok(())
        }
        [interface, address] => {
            let address: IfAddr = address.parse()?;
            let engine = Engine::builder().start()?;
            let end = EndConfig::new("xdp0", engine.namespace(), &[address]);
            let device = engine.add_xdp(&XdpConfig::on(interface), end)?;
            println!("http://{}:50051", address.addr);
            serve(&Reactor::start(&engine)?, &device, SocketAddr::new(address.addr, 50051)).await
        }
        _ => Err("give INTERFACE ADDRESS/LENGTH for the server, or a URL for the client".into()),
    }
}

/// The service.
struct Echo;

#[tonic::async_trait]
impl pb::echo_server::Echo for Echo {
    async fn say(&self, request: Request<pb::Text>) -> Result<Response<pb::Text>, Status> {
        let from = request.extensions().get::<TcpConnectInfo>().and_then(TcpConnectInfo::remote_addr);
        println!("asked by {}", from.ok_or_else(|| Status::internal("a stream without a peer"))?);
        Ok(Response::new(request.into_inner()))
    }
}

pub async fn serve(reactor: &Reactor, device: &DeviceHandle, at: SocketAddr) -> Result<(), Error> {
    let listener = TcpListener::bind(reactor, device.netns(), at)?;
    Server::builder().add_service(EchoServer::new(Echo)).serve_with_incoming(TcpListenerStream::new(listener)).await?;
    Ok(())
}

/// A channel by the engine's sockets too.
pub async fn channel(reactor: &Reactor, device: &DeviceHandle, to: SocketAddr) -> Result<Channel, Error> {
    let (reactor, ns) = (reactor.clone(), device.netns().clone());
    let connect = tower::service_fn(move |_| {
        let (reactor, ns) = (reactor.clone(), ns.clone());
        async move { TcpStream::connect(&reactor, &ns, to).await.map(TokioIo::new) }
    });
    Ok(Endpoint::try_from(format!("http://{to}"))?.connect_with_connector(connect).await?)
}
