const net = require('net'), fs = require('fs'), { Worker } = require('worker_threads');
const now = () => Number(process.hrtime.bigint()) / 1e3;
let echoed = 0;
const peer = new net.Socket({ fd: 40, readable: true, writable: true });
peer.on('data', data => { echoed += data.length; peer.write(data); });
fs.writeSync(1, 'ready\n');
process.stdin.once('data', async () => {
  let begun = now();
  await new Promise(done => { let left = 2000; const pass = () => --left ? setImmediate(pass) : done(); setImmediate(pass); });
  const passes = now() - begun;
  let early = 0;
  for (const ms of [1, 3, 7, 20]) {
    begun = now();
    await new Promise(done => setTimeout(done, ms));
    if (now() - begun < (ms - 1.1) * 1e3) early++;
  }
  const worker = new Worker("const {parentPort} = require('worker_threads'); parentPort.on('message', m => parentPort.postMessage(m))", { eval: true });
  await new Promise(done => worker.once('online', done));
  begun = now();
  for (let i = 0; i < 200; i++) await new Promise(done => { worker.once('message', done); worker.postMessage(i); });
  const wakes = now() - begun;
  await worker.terminate();
  while (echoed < 3) await new Promise(done => setTimeout(done, 10));
  fs.writeSync(1, `done ${early} ${Math.round(passes)} ${Math.round(wakes)}\n`);
  process.stdin.once('end', () => process.exit(0));
});
