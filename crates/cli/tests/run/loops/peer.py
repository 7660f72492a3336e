# Sends a byte every 10 ms, and wants each back.
import socket, time
while True:
    try:
        s = socket.create_connection(('10.79.0.1', 7100))
        break
    except OSError:
        time.sleep(0.02)
s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
while True:
    s.sendall(b'x')
    if not s.recv(1):
        break
    time.sleep(0.01)
