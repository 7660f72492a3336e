//! A peer whose requests the softirq answers, and sockets that show that it goes on.

use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{
    EthernetAddress, EthernetFrame, EthernetProtocol, EthernetRepr, Icmpv4Packet, Icmpv4Repr, IpProtocol, Ipv4Address,
    Ipv4Packet, Ipv4Repr,
};

use super::*;

const FROM: Ipv4Address = Ipv4Address::new(10, 77, 0, 1);
const TO: Ipv4Address = Ipv4Address::new(10, 77, 0, 2);

/// A peer that asks for echoes, and counts the answers. What is no answer has number `None`.
pub(super) struct Asker {
    pub(super) port: RawPort,
    pub(super) answers: Vec<Option<u16>>,
}

impl Asker {
    pub(super) fn new(rig: &Rig) -> Self {
        Self { port: RawPort::bind(&rig.to, 0).expect("port"), answers: Vec::new() }
    }

    pub(super) fn ask(&self, numbers: std::ops::Range<u16>) {
        for number in numbers {
            let begin = Instant::now();
            while self.port.build(128, |frame| echo_request(frame, number)).is_err() {
                assert!(begin.elapsed() < PATIENCE, "the softirq takes nothing");
                self.port.flush();
                std::thread::yield_now();
            }
        }
        self.port.flush();
    }

    pub(super) fn take(&mut self) {
        let answers = &mut self.answers;
        self.port.drain(1 << 20, |frame| answers.push(echo_answer(frame)));
    }

    pub(super) fn until(&mut self, enough: impl Fn(usize) -> bool) {
        let begin = Instant::now();
        self.take();
        while !enough(self.answers.len()) {
            assert!(begin.elapsed() < PATIENCE, "{} frames came", self.answers.len());
            self.port.wait(Some(Duration::from_millis(1)));
            self.take();
        }
    }

    pub(super) fn numbers(&self) -> Vec<u16> {
        self.answers.iter().copied().flatten().collect()
    }
}

fn echo_request(frame: &mut [u8], number: u16) -> usize {
    let caps = ChecksumCapabilities::default();
    let echo = Icmpv4Repr::EchoRequest { ident: 7, seq_no: number, data: b"napier" };
    let payload_len = echo.buffer_len();
    let ip = Ipv4Repr { src_addr: TO, dst_addr: FROM, next_header: IpProtocol::Icmp, payload_len, hop_limit: 64 };
    let link = EthernetRepr {
        src_addr: EthernetAddress([2, 0, 0, 0x77, 0, 2]),
        dst_addr: EthernetAddress([2, 0, 0, 0x77, 0, 1]),
        ethertype: EthernetProtocol::Ipv4,
    };
    link.emit(&mut EthernetFrame::new_unchecked(&mut *frame));
    let mut packet = Ipv4Packet::new_unchecked(&mut frame[14..]);
    ip.emit(&mut packet, &caps);
    echo.emit(&mut Icmpv4Packet::new_unchecked(packet.payload_mut()), &caps);
    14 + ip.buffer_len() + payload_len
}

fn echo_answer(frame: &[u8]) -> Option<u16> {
    let caps = ChecksumCapabilities::default();
    let packet = Ipv4Packet::new_checked(frame.get(14..)?).ok()?;
    let Ok(Icmpv4Repr::EchoReply { ident: 7, seq_no, .. }) =
        Icmpv4Repr::parse(&Icmpv4Packet::new_checked(packet.payload()).ok()?, &caps)
    else {
        return None;
    };
    Some(seq_no)
}

/// Two sockets, and how one sees that the other's softirq CPU goes on: a datagram comes through.
pub(super) struct Pulse {
    sends: UdpSocket,
    receives: UdpSocket,
}

impl Pulse {
    pub(super) fn new(rig: &Rig) -> Self {
        let mac = [2, 0, 0, 0x77, 0, 1];
        rig.to.netns().neighbour_add(rig.to.ifindex(), std::net::IpAddr::V4(FROM), mac).expect("a station");
        let receives = UdpSocket::bind(rig.from.netns(), "10.77.0.1:7").expect("socket");
        receives.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        let sends = UdpSocket::bind(rig.to.netns(), "10.77.0.2:7").expect("socket");
        Self { sends, receives }
    }

    /// Behind all that was sent before on the queue.
    pub(super) fn beat(&self) {
        self.sends.send_to(b"beat", "10.77.0.1:7".parse().unwrap()).expect("room");
        let received = self.receives.recv_from(&mut [0; 16]);
        assert_eq!(received.expect("the softirq goes on").0, 4);
    }
}
