import asyncio, os, sys, threading, time

async def main():
    loop = asyncio.get_running_loop()
    echoed = 0
    def echo():
        nonlocal echoed
        try:
            data = os.read(40, 64)
        except BlockingIOError:
            return
        echoed += len(os.write(40, data) * b'x')
    os.set_blocking(40, False)
    loop.add_reader(40, echo)
    print('ready', flush=True)
    sys.stdin.readline()
    begun = time.monotonic()
    for _ in range(2000):
        await asyncio.sleep(0)
    passes = time.monotonic() - begun
    early = 0
    for ms in (1, 3, 7, 20):
        begun = time.monotonic()
        await asyncio.sleep(ms / 1000)
        early += time.monotonic() - begun < ms / 1000 - 0.001
    woken = asyncio.Semaphore(0)
    asked = threading.Semaphore(0)
    def other():
        for _ in range(200):
            loop.call_soon_threadsafe(woken.release)
            asked.acquire()
    thread = threading.Thread(target=other)
    thread.start()
    begun = time.monotonic()
    for _ in range(200):
        await woken.acquire()
        asked.release()
    wakes = time.monotonic() - begun
    thread.join()
    while echoed < 3:
        await asyncio.sleep(0.01)
    print('done', early, int(passes * 1e6), int(wakes * 1e6), flush=True)

asyncio.run(main())
