//! A file by QUIC, on an interface that the engine has by AF_XDP, or on the kernel's sockets.
//!
//! ```sh
//! quinn_file serve FILE CERT eth1 192.0.2.10/24      # as root; writes its certificate to CERT
//! quinn_file serve FILE CERT 192.0.2.10:4433         # on the kernel's sockets
//! quinn_file get CERT 192.0.2.10:4433 TO
//! ```

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use napier_runtime::device::{DeviceHandle, EndConfig, IfAddr, XdpConfig};
use napier_runtime::engine::Engine;
use napier_tokio::{Reactor, UdpSocket};
use quinn::{ClientConfig, Endpoint, EndpointConfig, Incoming, ServerConfig, TokioRuntime};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};

type Error = Box<dyn std::error::Error + Send + Sync>;

/// The name that the certificate is for.
const NAME: &str = "napier";

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["serve", file, cert, interface, address] => {
            let address: IfAddr = address.parse()?;
            let engine = Engine::builder().start()?;
            let end = EndConfig::new("xdp0", engine.namespace(), &[address]);
            let device = engine.add_xdp(&XdpConfig::on(interface), end)?;
            let (config, certificate) = identity()?;
            let server = endpoint(&engine, &device, SocketAddr::new(address.addr, 4433), Some(config))?;
            std::fs::write(cert, certificate)?;
            serve(server, file).await
        }
        ["serve", file, cert, at] => {
            let (config, certificate) = identity()?;
            let server = Endpoint::server(config, at.parse()?)?;
            std::fs::write(cert, certificate)?;
            serve(server, file).await
        }
        ["get", cert, from, to] => {
            let client = Endpoint::client((Ipv4Addr::UNSPECIFIED, 0).into())?;
            let (begun, bytes) = (Instant::now(), get(&client, std::fs::read(cert)?, from.parse()?).await?);
            println!("{} bytes in {:.3} s", bytes.len(), begun.elapsed().as_secs_f64());
            std::fs::write(to, bytes)?;
            Ok(())
        }
        _ => Err("see the head of quinn_file.rs for what to give".into()),
    }
}

/// An endpoint on a device of the engine, in a mode that polls while there is traffic.
pub fn endpoint(
    engine: &Engine,
    device: &DeviceHandle,
    at: SocketAddr,
    config: Option<ServerConfig>,
) -> Result<Endpoint, Error> {
    let reactor = Reactor::start(engine)?;
    let mode = "suspend20".parse()?;
    engine.set_mode(device, mode)?;
    reactor.set_mode(mode)?;
    let socket = UdpSocket::bind(&reactor, device.netns(), at)?.into_quinn()?;
    Ok(Endpoint::new_with_abstract_socket(EndpointConfig::default(), config, socket, Arc::new(TokioRuntime))?)
}

/// A server's configuration, and its certificate.
pub fn identity() -> Result<(ServerConfig, Vec<u8>), Error> {
    let made = rcgen::generate_simple_self_signed([NAME.to_owned()])?;
    let certificate = made.cert.der().clone();
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    Ok((ServerConfig::with_single_cert(vec![certificate.clone()], key.into())?, certificate.to_vec()))
}

/// Sends the file to each who connects.
pub async fn serve(server: Endpoint, file: impl AsRef<Path>) -> Result<(), Error> {
    let bytes: Arc<[u8]> = tokio::fs::read(file).await?.into();
    while let Some(incoming) = server.accept().await {
        let bytes = bytes.clone();
        tokio::spawn(async move {
            if let Err(error) = send(incoming, &bytes).await {
                eprintln!("{error}");
            }
        });
    }
    Ok(())
}

async fn send(incoming: Incoming, bytes: &[u8]) -> Result<(), Error> {
    let mut stream = incoming.await?.open_uni().await?;
    stream.write_all(bytes).await?;
    stream.finish()?;
    stream.stopped().await?;
    Ok(())
}

/// What the server at `from` sends.
pub async fn get(client: &Endpoint, certificate: Vec<u8>, from: SocketAddr) -> Result<Vec<u8>, Error> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from(certificate))?;
    let config = ClientConfig::with_root_certificates(Arc::new(roots))?;
    let connection = client.connect_with(config, from, NAME)?.await?;
    Ok(connection.accept_uni().await?.read_to_end(1 << 30).await?)
}
